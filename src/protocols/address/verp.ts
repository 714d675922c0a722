/**
 * @module Creates and reads addresses for one recipient. Their local part names the recipient row and carries a MAC, so
 * incoming mail finds its recipient and forged addresses find none. `b-` is the envelope sender (VERP), which
 * receives bounces; `u-` receives unsubscribe requests by mail (RFC 2369 §3.2). The caller provides the domain, and a
 * separate key for each kind of address. The local part fits 64 octets (RFC 5321 §4.5.3.1.1).
 *
 * Form: the prefix and 32 base32 characters, which encode 2 octets of tag, 5 octets of recipient id and 13 octets (104
 * bits) of HMAC-SHA256 over tag and id. Written in lower case and read in any case, because some hosts change the case
 * of an address.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { Secret } from 'otpauth'

export type VerpPrefix = 'b-' | 'u-'

const BOUNCES: VerpPrefix = 'b-'
const TAG_OCTETS = 2
const ID_OCTETS = 5
const PAYLOAD_OCTETS = TAG_OCTETS + ID_OCTETS
const RECIPIENT_ID_LIMIT = 2 ** (8 * ID_OCTETS)
const MAC_OCTETS = 13
const TOKEN_LENGTH = ((PAYLOAD_OCTETS + MAC_OCTETS) * 8) / 5
/** RFC 4648 §6, lower-cased. 20 octets are exactly 32 characters, so padding never occurs. */
const TOKEN = new RegExp(`^[a-z2-7]{${TOKEN_LENGTH}}$`)

/** The recipient that an address of this form names. */
export interface VerpRecipient {
  /** Row id. After a restored backup the row may belong to another email; the tag detects that. */
  readonly recipientId: number
  /** Tag of the email, from `computeVerpTag`: 0 to 65535. */
  readonly tag: number
}

/**
 * Returns the tag of an email. After a restored backup, two emails can have the same row ids, but their tags almost
 * always differ.
 * @param emailUuid must end in random octets
 */
export const computeVerpTag = (emailUuid: Uint8Array): number =>
  ((emailUuid.at(-2) ?? 0) << 8) | (emailUuid.at(-1) ?? 0)

/**
 * Returns the local part for a recipient: 34 octets, always the same for the same recipient and key. Throws when the id
 * is not an integer from 0 to 2^40 - 1.
 */
export function encodeVerp({ recipientId, tag }: VerpRecipient, key: Uint8Array, prefix: VerpPrefix = BOUNCES): string {
  if (!Number.isInteger(recipientId) || recipientId < 0 || recipientId >= RECIPIENT_ID_LIMIT)
    throw new Error(`invalid recipient id: ${recipientId}`)
  const token = Buffer.alloc(PAYLOAD_OCTETS + MAC_OCTETS)
  token.writeUInt16BE(tag, 0)
  token.writeUIntBE(recipientId, TAG_OCTETS, ID_OCTETS)
  token.set(computeMac(token.subarray(0, PAYLOAD_OCTETS), key), PAYLOAD_OCTETS)
  return prefix + new Secret({ buffer: new Uint8Array(token).buffer }).base32.toLowerCase()
}

/**
 * Returns the recipient that a local part names; undefined when the prefix, the form or the MAC is not one of ours.
 * Accepts any text in any case.
 * @param keys any of them may have made the MAC
 */
export function decodeVerp(
  localPart: string,
  keys: Uint8Array | readonly Uint8Array[],
  prefix: VerpPrefix = BOUNCES,
): VerpRecipient | undefined {
  const text = localPart.length === prefix.length + TOKEN_LENGTH ? localPart.toLowerCase() : ''
  if (!text.startsWith(prefix) || !TOKEN.test(text.slice(prefix.length))) return undefined
  const token = Buffer.from(Secret.fromBase32(text.slice(prefix.length)).bytes)
  const name = token.subarray(0, PAYLOAD_OCTETS)
  const mac = token.subarray(PAYLOAD_OCTETS)
  const isOurs = (keys instanceof Uint8Array ? [keys] : keys).some((key) => timingSafeEqual(mac, computeMac(name, key)))
  if (!isOurs) return undefined
  return { recipientId: name.readUIntBE(TAG_OCTETS, ID_OCTETS), tag: name.readUInt16BE(0) }
}

const computeMac = (name: Uint8Array, key: Uint8Array): Uint8Array =>
  createHmac('sha256', key).update(name).digest().subarray(0, MAC_OCTETS)
