/**
 * @module Addresses of one recipient: a local part that names the recipient row and proves that we made it, so that what comes in there finds its
 * recipient and a forged one finds none. `b-` is the envelope sender (VERP), where bounces come to; `u-` is where people unsubscribe by mail
 * (RFC 2369 §3.2). Domain and key are the caller's, and each kind of address has a key of its own. RFC 5321 §4.5.3.1.1 (64 octets).
 *
 * Form: the prefix and 32 base32 characters: 7 octets of recipient id and 13 octets (104 bits) of HMAC-SHA256 over them. Lower case throughout,
 * and read without regard to case, because some hosts change the case of an address.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

export type VerpPrefix = 'b-' | 'u-'

const BOUNCES: VerpPrefix = 'b-'
const ID_OCTETS = 7
const MAC_OCTETS = 13
const TOKEN_LENGTH = ((ID_OCTETS + MAC_OCTETS) * 8) / 5
/** RFC 4648 §6, lower-cased. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567'
const TOKEN = new RegExp(`^[${ALPHABET}]{${TOKEN_LENGTH}}$`)

/** The local part of a recipient: 34 octets, always the same for the same id and key. Throws when the id is no safe integer from 0. */
export function encodeVerp(recipientId: number, key: Uint8Array, prefix: VerpPrefix = BOUNCES): string {
  if (!Number.isSafeInteger(recipientId) || recipientId < 0) throw new Error(`no recipient id: ${recipientId}`)
  const token = Buffer.alloc(ID_OCTETS + MAC_OCTETS)
  token.writeUIntBE(Math.floor(recipientId / 2 ** 32), 0, ID_OCTETS - 4)
  token.writeUInt32BE(recipientId % 2 ** 32, ID_OCTETS - 4)
  token.set(macOf(token.subarray(0, ID_OCTETS), key), ID_OCTETS)
  return prefix + encodeBase32(token)
}

/** The recipient id in such a local part, or undefined when the prefix, the form or the MAC is not ours. Takes any text in any case. */
export function decodeVerp(localPart: string, key: Uint8Array, prefix: VerpPrefix = BOUNCES): number | undefined {
  const text = localPart.length === prefix.length + TOKEN_LENGTH ? localPart.toLowerCase() : ''
  if (!text.startsWith(prefix) || !TOKEN.test(text.slice(prefix.length))) return undefined
  const token = decodeBase32(text.slice(prefix.length))
  const id = token.subarray(0, ID_OCTETS)
  if (!timingSafeEqual(token.subarray(ID_OCTETS), macOf(id, key))) return undefined
  return id.readUIntBE(0, ID_OCTETS - 4) * 2 ** 32 + id.readUInt32BE(ID_OCTETS - 4)
}

const macOf = (id: Uint8Array, key: Uint8Array): Uint8Array =>
  createHmac('sha256', key).update(id).digest().subarray(0, MAC_OCTETS)

/** 20 octets are 32 characters exactly, so padding never comes up. */
function encodeBase32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let bitCount = 0
  for (const byte of bytes) {
    bits = (bits << 8) | byte
    bitCount += 8
    while (bitCount >= 5) {
      bitCount -= 5
      text += ALPHABET[(bits >>> bitCount) & 31]
    }
    bits &= (1 << bitCount) - 1
  }
  return text
}

function decodeBase32(text: string): Buffer {
  const bytes = Buffer.alloc((text.length * 5) / 8)
  let bits = 0
  let bitCount = 0
  let position = 0
  for (const character of text) {
    bits = (bits << 5) | ALPHABET.indexOf(character)
    bitCount += 5
    if (bitCount >= 8) {
      bitCount -= 8
      bytes[position++] = (bits >>> bitCount) & 255
      bits &= (1 << bitCount) - 1
    }
  }
  return bytes
}
