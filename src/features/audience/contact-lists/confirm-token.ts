/**
 * @module The sealed token of a confirmation link: it identifies the contact and the list to confirm. This module never
 * reads the database, so it cannot tell whether a link is still valid. A token contains a format octet, the account's
 * UUID, four variable-length integers (list, contact, both times in ms) and the sender's domain. The UUID identifies
 * the account because row ids are not enough: after a backup is restored, new accounts get row ids that were already
 * in use.
 */

import type { KeyRing } from '#platform/crypto/crypto.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/crypto/token-bytes.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'

/** Path of the confirmation links. */
export const CONFIRM_PATH = '/confirm'

/** The content of a token. */
export interface ConfirmFacts {
  readonly accountUuid: UuidBytes
  /** Row ids. */
  readonly listId: number
  readonly contactId: number
  /** When the confirmation was requested: only the link of the latest request is valid. */
  readonly since: Millis
  /**
   * When the email was created: the link works for `CONFIRMATION_DAYS` from then on. For contacts added in bulk, this
   * can be long after the request.
   */
  readonly madeAt: Millis
  /** Domain of From, by which recipients recognise the list; `''` when it is too long to be recognisable. */
  readonly senderDomain: string
}

const CONTEXT = 'confirm'
const UUID_BYTES = 16
const MAX_DOMAIN_LENGTH = 100
/** Length of the longest token. */
export const MAX_CONFIRM_TOKEN_LENGTH = sealedTokenLength(UUID_BYTES + 4 * MAX_VARINT_BYTES + MAX_DOMAIN_LENGTH)

/** Seals these facts into a token: base64url, at most MAX_CONFIRM_TOKEN_LENGTH characters. */
export function sealConfirmToken(keys: KeyRing, facts: ConfirmFacts): string {
  const { accountUuid, listId, contactId, since, madeAt, senderDomain } = facts
  return sealToken(keys, CONTEXT, [
    accountUuid,
    ...[listId, contactId, since, madeAt].map(encodeVarint),
    Buffer.from(senderDomain.length <= MAX_DOMAIN_LENGTH ? senderDomain : '', 'latin1'),
  ])
}

/** The content of a token; undefined when we did not create it, or it was changed since. Accepts any text. */
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
