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
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/token-bytes.ts'

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
const MAX_DOMAIN_LENGTH = 100
/** Characters of the longest token. */
export const MAX_CONFIRM_TOKEN_LENGTH = sealedTokenLength(UUID_BYTES + 4 * MAX_VARINT_BYTES + MAX_DOMAIN_LENGTH)

/** The token of these facts: base64url, at most MAX_CONFIRM_TOKEN_LENGTH characters. */
export function sealConfirmToken(keys: KeyRing, facts: ConfirmFacts): string {
  const { accountUuid, listId, contactId, since, madeAt, senderDomain } = facts
  return sealToken(keys, CONTEXT, [
    accountUuid,
    ...[listId, contactId, since, madeAt].map(encodeVarint),
    Buffer.from(senderDomain.length <= MAX_DOMAIN_LENGTH ? senderDomain : '', 'latin1'),
  ])
}

/** What a token says; undefined when we did not make it, or it was changed on its way. Takes any text. */
export function openConfirmToken(keys: KeyRing, text: string): ConfirmFacts | undefined {
  const facts = openSealedToken(keys, CONTEXT, text, MAX_CONFIRM_TOKEN_LENGTH)
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
