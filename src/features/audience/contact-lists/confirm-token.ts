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
import { base64urlLength, MOST_VARINT_BYTES, readBase64url, readVarint, varint } from '#platform/token-bytes.ts'

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
const FORM = 1
const UUID_BYTES = 16
const LONGEST_DOMAIN = 100
const SEALING_BYTES = 32
/** Characters of the longest token. */
export const LONGEST_CONFIRM_TOKEN = base64urlLength(
  SEALING_BYTES + 1 + UUID_BYTES + 4 * MOST_VARINT_BYTES + LONGEST_DOMAIN,
)

/** The token of these facts: base64url, at most LONGEST_CONFIRM_TOKEN characters. */
export function confirmToken(keys: KeyRing, facts: ConfirmFacts): string {
  const { accountUuid, listId, contactId, since, madeAt, senderDomain } = facts
  const plain = Buffer.concat([
    Buffer.of(FORM),
    accountUuid,
    ...[listId, contactId, since, madeAt].map(varint),
    Buffer.from(senderDomain.length <= LONGEST_DOMAIN ? senderDomain : '', 'latin1'),
  ])
  return Buffer.from(keys.sealSame(plain, CONTEXT)).toString('base64url')
}

/** What a token says; undefined when we did not make it, or it was changed on its way. Takes any text. */
export function openConfirmToken(keys: KeyRing, text: string): ConfirmFacts | undefined {
  const sealed = readBase64url(text, LONGEST_CONFIRM_TOKEN)
  if (!sealed || sealed.length < SEALING_BYTES) return undefined
  let plain: Uint8Array
  try {
    plain = keys.unseal(sealed, CONTEXT)
  } catch {
    return undefined
  }
  return plain[0] === FORM ? factsOf(Buffer.from(plain)) : undefined
}

/** Of bytes that `confirmToken` made: nobody else can seal. */
function factsOf(plain: Buffer): ConfirmFacts {
  let position = 1 + UUID_BYTES
  const accountUuid = new Uint8Array(plain.subarray(1, position))
  const takeInteger = (): number => {
    const { value, end } = readVarint(plain, position)
    position = end
    return value
  }
  return {
    accountUuid,
    listId: takeInteger(),
    contactId: takeInteger(),
    since: takeInteger(),
    madeAt: takeInteger(),
    senderDomain: plain.toString('latin1', position),
  }
}
