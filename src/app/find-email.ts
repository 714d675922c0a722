/**
 * @module Finds the emails that an operator names: by id, the beginning of an id, or Message-ID. Never writes.
 */
import type { Database } from 'bun:sqlite'
import type { Account } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { findEmailIdsBetween, readEmailsByIds } from '#features/sending/emails/read.ts'
import { findByClientMessageId } from '#features/sending/queue/search.ts'
import { formatUuid } from '#platform/ids.ts'

/** Emails that an error names, and one more, which says that there are more. */
const MAX_FOUND = 6

/** Those of these accounts that `text` names. */
export const findEmails = ({ db }: Pick<App, 'db'>, text: string, accounts: readonly Account[]) =>
  readEmailsByIds(db, findIds(db, text, accounts)).flatMap(({ uuid, accountUuid, recipients: [first] }) => {
    const account = accounts.find((owner) => formatUuid(owner.uuid) === formatUuid(accountUuid))
    return account ? [{ id: formatUuid(uuid), account, label: first ? `to ${first.address}` : '' }] : []
  })

function findIds(db: Database, text: string, accounts: readonly Account[]): number[] {
  const range = parseUuidRange(text)
  const ids = range ? findEmailIdsBetween(db, ...range, MAX_FOUND) : []
  return ids.length > 0 || !isMessageId(text) ? ids : findIdsByMessageId(db, text, accounts)
}

const isMessageId = (text: string): boolean => /^<?[^@\s]+@[^@\s]+$/.test(text.trim())

/** Those whose client chose the Message-ID. */
function findIdsByMessageId(db: Database, text: string, accounts: readonly Account[]): number[] {
  const messageId = `<${text.trim().replace(/^<|>$/g, '')}>`
  return accounts.flatMap(({ id }) => findByClientMessageId(db, id, messageId, MAX_FOUND))
}

/** A UUIDv7 begins with its creation time: the first 8 digits cover 65.5 s, the first 12 one millisecond. */
const MIN_DIGITS = 8
const UUID_DIGITS = 32

/**
 * Returns the range of ids that begin with the digits of `text`, a prefix of an id or a Message-ID of ours; undefined
 * when the digits are too few, too many or not hexadecimal.
 */
function parseUuidRange(text: string): readonly [first: Uint8Array, last: Uint8Array] | undefined {
  const [id = '', domain] = text.trim().replace(/^</, '').split('@')
  const digits = id.replaceAll('-', '').toLowerCase()
  // Our Message-IDs have the whole id; a shorter one is that of a client.
  const minDigits = domain === undefined ? MIN_DIGITS : UUID_DIGITS
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < minDigits || digits.length > UUID_DIGITS) return undefined
  return [Uint8Array.fromHex(digits.padEnd(UUID_DIGITS, '0')), Uint8Array.fromHex(digits.padEnd(UUID_DIGITS, 'f'))]
}
