/**
 * @module The token of a confirmation link: who is asked to confirm which contact, sealed. Only the database knows whether it still counts. Never asks
 * the database.
 *
 * Sealed is: a form octet, the account's UUID, four variable-length integers (list, contact, both times in ms), the sender's domain. The account is
 * named by its UUID: row ids of deleted accounts are given out again.
 */
import type { Millis } from '#platform/clock.ts'
import type { KeyRing } from '#platform/crypto.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/sealed-token.ts'
import { MOST_VARINT_BYTES, varint } from '#platform/token-bytes.ts'

/** Where the links lead. */
export const CONFIRM_PATH = '/confirm'

/** What a token says. */
export interface ConfirmFacts {
  readonly accountUuid: UuidBytes
  /** Row ids. */
  readonly listId: number
  readonly contactId: number
  /** When the confirmation was asked for: the contact knows which one counts. */
  readonly since: Millis
  /** When the email was made: from then on the link works for `confirmationDays`. In bulk, that is long after the contact was asked. */
  readonly madeAt: Millis
  /** Domain of From, to tell people whose list it is; `''` when it is too long to be of use for that. */
  readonly senderDomain: string
}

const CONTEXT = 'confirm'
const UUID_BYTES = 16
const LONGEST_DOMAIN = 100
/** Characters of the longest token. */
export const LONGEST_CONFIRM_TOKEN = sealedTokenLength(UUID_BYTES + 4 * MOST_VARINT_BYTES + LONGEST_DOMAIN)

/** The token of these facts: base64url, at most LONGEST_CONFIRM_TOKEN characters. */
export function confirmToken(keys: KeyRing, facts: ConfirmFacts): string {
  const { accountUuid, listId, contactId, since, madeAt, senderDomain } = facts
  return sealToken(keys, CONTEXT, [
    accountUuid,
    ...[listId, contactId, since, madeAt].map(varint),
    Buffer.from(senderDomain.length <= LONGEST_DOMAIN ? senderDomain : '', 'latin1'),
  ])
}

/** What a token says; undefined when we did not make it, or it was changed on its way. Takes any text. */
export function openConfirmToken(keys: KeyRing, text: string): ConfirmFacts | undefined {
  const facts = openSealedToken(keys, CONTEXT, text, LONGEST_CONFIRM_TOKEN)
  return (
    facts && {
      accountUuid: new Uint8Array(facts.take(UUID_BYTES)),
      listId: facts.takeInteger(),
      contactId: facts.takeInteger(),
      since: facts.takeInteger(),
      madeAt: facts.takeInteger(),
      senderDomain: facts.takeRest().toString('latin1'),
    }
  )
}
