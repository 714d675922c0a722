/**
 * @module The token of an unsubscribe link: all that unsubscribing needs, sealed, so that it works without any row of the email. The same facts give
 * the same token, because every attempt at a recipient sends the same bytes. Never asks the database.
 *
 * Sealed is: a form octet, the account's UUID, four variable-length integers (email, recipient, stream, list), the sender's domain behind its
 * length, the address. The account is named by its UUID: row ids of deleted accounts are given out again.
 */
import type { KeyRing } from '#platform/crypto.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/token-bytes.ts'

/** What a token says. Row ids, if not said otherwise. */
export interface UnsubscribeFacts {
  readonly accountUuid: UuidBytes
  readonly emailId: number
  readonly recipientId: number
  /** Address that the email was sent to. */
  readonly address: string
  /** Domain of From, to tell people whose mail it is; `''` when it is too long to be of use for that. */
  readonly senderDomain: string
  /** Stream whose mail it stops; 0: that of every stream. */
  readonly streamId: number
  /** Contact list whose mail it stops; 0: none is known. */
  readonly listId: number
}

const CONTEXT = 'unsubscribe'
const UUID_BYTES = 16
const MAX_ADDRESS_BYTES = 254
/** Longer names are left out: a token has to fit a header line. */
const MAX_DOMAIN_LENGTH = 100
/** Characters of the longest token. */
export const MAX_TOKEN_LENGTH = sealedTokenLength(
  UUID_BYTES + 4 * MAX_VARINT_BYTES + 1 + MAX_DOMAIN_LENGTH + MAX_ADDRESS_BYTES,
)

/** The token of these facts: base64url, at most MAX_TOKEN_LENGTH characters. Throws for an address that is longer than an address can be. */
export function createUnsubscribeToken(keys: KeyRing, facts: UnsubscribeFacts): string {
  const address = Buffer.from(facts.address)
  if (address.length > MAX_ADDRESS_BYTES) throw new Error(`an address of ${address.length} octets`)
  const domain = Buffer.from(facts.senderDomain.length <= MAX_DOMAIN_LENGTH ? facts.senderDomain : '', 'latin1')
  return sealToken(keys, CONTEXT, [
    facts.accountUuid,
    ...[facts.emailId, facts.recipientId, facts.streamId, facts.listId].map(encodeVarint),
    Buffer.of(domain.length),
    domain,
    address,
  ])
}

/** What a token says; undefined when we did not make it, or it was changed on its way. Takes any text. */
export function openUnsubscribeToken(keys: KeyRing, text: string): UnsubscribeFacts | undefined {
  const facts = openSealedToken(keys, CONTEXT, text, MAX_TOKEN_LENGTH)
  return (
    facts && {
      accountUuid: new Uint8Array(facts.take(UUID_BYTES)),
      emailId: facts.takeInteger(),
      recipientId: facts.takeInteger(),
      streamId: facts.takeInteger(),
      listId: facts.takeInteger(),
      senderDomain: facts.take(facts.take(1)[0] ?? 0).toString('latin1'),
      address: facts.takeRest().toString('utf8'),
    }
  )
}
