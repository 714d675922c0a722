/**
 * @module The token of an unsubscribe link: a sealed copy of the data that unsubscribing needs, so that it works
 * without any row of the email. The same data gives the same token, because every attempt at a recipient sends the
 * same bytes. Never reads the database.
 *
 * Sealed data: a format octet, the account's UUID, four variable-length integers (email, recipient, stream, list), the
 * length and text of the sender's domain, the address. The UUID names the account, because restoring a backup makes new
 * accounts reuse row ids of accounts created after that backup.
 */
import type { KeyRing } from '#platform/crypto/crypto.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/crypto/token-bytes.ts'
import type { UuidBytes } from '#platform/ids.ts'

/** The data in a token. Ids are row ids unless stated otherwise. */
export interface UnsubscribeFacts {
  readonly accountUuid: UuidBytes
  readonly emailId: number
  readonly recipientId: number
  /** Address that the email was sent to. */
  readonly address: string
  /** Domain of From, shown to readers; `''` if it is too long to fit. */
  readonly senderDomain: string
  /** Stream whose mail the link stops; 0: every stream. */
  readonly streamId: number
  /** Contact list whose mail the link stops; 0: no list. */
  readonly listId: number
}

const CONTEXT = 'unsubscribe'
const UUID_BYTES = 16
const MAX_ADDRESS_BYTES = 254
/** Longer names are omitted: a token must fit a header line. */
const MAX_DOMAIN_LENGTH = 100
/** Length of the longest token. */
export const MAX_TOKEN_LENGTH = sealedTokenLength(
  UUID_BYTES + 4 * MAX_VARINT_BYTES + 1 + MAX_DOMAIN_LENGTH + MAX_ADDRESS_BYTES,
)

/**
 * The token of this data: base64url, at most MAX_TOKEN_LENGTH characters. Throws if the address is longer than an
 * address can be.
 */
export function createUnsubscribeToken(keys: KeyRing, facts: UnsubscribeFacts): string {
  const address = Buffer.from(facts.address)
  if (address.length > MAX_ADDRESS_BYTES) throw new Error(`address too long: ${address.length} octets`)
  const domain = Buffer.from(facts.senderDomain.length <= MAX_DOMAIN_LENGTH ? facts.senderDomain : '', 'latin1')
  return sealToken(keys, CONTEXT, [
    facts.accountUuid,
    ...[facts.emailId, facts.recipientId, facts.streamId, facts.listId].map(encodeVarint),
    Buffer.of(domain.length),
    domain,
    address,
  ])
}

/** The data in a token; undefined if this service did not create it, or it was changed in transit. Accepts any text. */
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
