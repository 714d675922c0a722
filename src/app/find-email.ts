/**
 * @module Finds the one email that an operator names: by its id, the beginning of its id, or its Message-ID, in all
 * accounts. Never writes.
 */
import { type Account, findAccountByUuid, listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { findEmailIdsBetween, readEmailsByIds, type StoredEmail } from '#features/sending/emails/read.ts'
import { findByClientMessageId } from '#features/sending/queue/search.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { toPrintable } from './cli/output.ts'

export interface FoundEmail {
  readonly email: StoredEmail
  readonly accountId: number
  readonly account: string
}

/** Emails shown if several match. */
const MAX_SHOWN = 5

/** Those of these accounts that `text` names, at most one more than an error names. */
export const findEmails = (app: App, text: string, accounts: readonly Account[]) =>
  readEmailsByIds(app.db, findIds(app, text)).flatMap(({ uuid, accountUuid, recipients: [first] }) => {
    const account = accounts.find((owner) => formatUuid(owner.uuid) === formatUuid(accountUuid))
    return account ? [{ id: formatUuid(uuid), account, label: first ? `to ${first.address}` : '' }] : []
  })

/** Throws 404 if no email matches, 409 with the ids if several do. */
export function requireEmail(app: App, text: string): FoundEmail {
  const found = readEmailsByIds(app.db, findIds(app, text))
  const [email] = found
  const quoted = `"${truncate(text, 80)}"`
  if (!email)
    throw notFound(
      'email_not_found',
      `${quoted} matches no email; \`tassis emails list\` shows ids, \`tassis emails list --to ADDRESS\` those to an address.`,
    )
  if (found.length > 1) {
    const shown = found.slice(0, MAX_SHOWN).map(({ uuid, recipients: [first] }) => {
      return `${formatUuid(uuid)}${first ? ` (to ${toPrintable(first.address)})` : ''}`
    })
    throw conflict(
      'email_ambiguous',
      `${quoted} matches several emails; give the ID of one: ${shown.join(', ')}${found.length > MAX_SHOWN ? ', …' : ''}.`,
    )
  }
  return withOwner(app, email)
}

export function withOwner({ config, db }: App, email: StoredEmail): FoundEmail {
  const account = findAccountByUuid(config, db, email.accountUuid)
  if (!account) throw notFound('email_not_found', 'The account of the email was deleted.')
  return { email, accountId: account.id, account: account.name }
}

function findIds(app: App, text: string): number[] {
  const range = parseUuidRange(text)
  const ids = range ? findEmailIdsBetween(app.db, ...range, MAX_SHOWN + 1) : []
  return ids.length > 0 || !isMessageId(text) ? ids : findIdsByMessageId(app, text)
}

const isMessageId = (text: string): boolean => /^<?[^@\s]+@[^@\s]+$/.test(text.trim())

/** Those whose client chose the Message-ID. */
function findIdsByMessageId({ config, db }: App, text: string): number[] {
  const messageId = `<${text.trim().replace(/^<|>$/g, '')}>`
  return listAccounts(config, db).flatMap(({ id }) => findByClientMessageId(db, id, messageId, MAX_SHOWN + 1))
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
