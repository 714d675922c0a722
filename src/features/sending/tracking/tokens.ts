/**
 * @module Tokens and URLs of tracking: `{base}/t/o/{token}` is the pixel of a recipient, `{base}/t/c/{token}/{target}` a link. Everything that a
 * request needs is inside and under a MAC, and nothing is stored: accepting an email writes no row for its links, a message may be composed when it
 * is delivered, and a link leads on for good, whatever was removed meanwhile. Without a valid MAC there is no redirect, so a stranger cannot make a
 * link of ours that leads where he likes. Whose mail it is stands inside too, because each account's links have to stay away from the tracking hosts of
 * the others.
 *
 * token: kind (1 byte), account (4 bytes, big-endian), recipient (varint, 7 bits a byte, the lowest first), day of the email (2 bytes, big-endian),
 * MAC (10 bytes)
 */
import type { Millis } from '#platform/clock.ts'
import { equalBytes, hmacSha256 } from '#platform/crypto.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { base64urlLength, MOST_VARINT_BYTES, readBase64url, readVarint, varint } from '#platform/token-bytes.ts'
import { days } from '#platform/units.ts'

export interface TrackedRecipient {
  /** What `accountTag` gives for the account that sent the email. */
  readonly account: number
  /** Row id of the recipient. */
  readonly recipientId: number
  /** UTC day on which the email was accepted, in days since the epoch. */
  readonly day: number
}

/** Octets of the longest target that a link can have. */
export const LONGEST_TARGET_OCTETS = 2000

const PIXEL = 1
const LINK = 2
type Kind = typeof PIXEL | typeof LINK

const MAC_BYTES = 10
/** Bytes at the end of an account's UUID that tell it apart in a token. */
export const ACCOUNT_TAG_BYTES = 4
const DAY_BYTES = 2
const LONGEST_TOKEN_CHARACTERS = base64urlLength(1 + ACCOUNT_TAG_BYTES + MOST_VARINT_BYTES + DAY_BYTES + MAC_BYTES)
const LONGEST_TARGET_CHARACTERS = base64urlLength(LONGEST_TARGET_OCTETS)
const MOST_DAYS = 0xffff

/** The UTC day of a time, in days since the epoch. */
export const dayOf = (at: Millis): number => Math.floor(at / days(1))

/**
 * Tells accounts apart in a token: the end of the account's UUID, which is random. Not the row id, because that of a deleted account is given out again
 * while its mail is still read.
 */
export const accountTag = (uuid: UuidBytes): number => Buffer.from(uuid).readUInt32BE(uuid.length - ACCOUNT_TAG_BYTES)

/** URL of the pixel of a recipient. */
export const pixelUrl = (key: Uint8Array, baseUrl: string, recipient: TrackedRecipient): string =>
  `${baseUrl}/t/o/${tokenOf(key, PIXEL, recipient, NOTHING)}`

/** URL that leads to `target` by way of us. @param target absolute URL of at most `LONGEST_TARGET_OCTETS` */
export function linkUrl(key: Uint8Array, baseUrl: string, recipient: TrackedRecipient, target: string): string {
  const octets = Buffer.from(target)
  return `${baseUrl}/t/c/${tokenOf(key, LINK, recipient, octets)}/${octets.toString('base64url')}`
}

/** Whose pixel it is; undefined when we did not make the token. */
export const readPixel = (key: Uint8Array, token: string): TrackedRecipient | undefined =>
  readToken(key, PIXEL, token, NOTHING)

/** Whose link it is and where it leads; undefined when we did not make it. */
export function readLink(
  key: Uint8Array,
  token: string,
  target: string,
): (TrackedRecipient & { readonly url: string }) | undefined {
  const octets = readBase64url(withoutDamage(target), LONGEST_TARGET_CHARACTERS)
  const recipient = octets && readToken(key, LINK, token, octets)
  return recipient && { ...recipient, url: octets.toString('utf8') }
}

/**
 * Without what mail programs and people who copy put into a link: a full stop or bracket behind it, blanks, `=` and line breaks of quoted-printable.
 * It has no such character itself, and the MAC is over what stays.
 */
const withoutDamage = (text: string): string => text.replace(/[^\w-]/g, '')

const NOTHING = new Uint8Array()

function tokenOf(key: Uint8Array, kind: Kind, whose: TrackedRecipient, target: Uint8Array): string {
  const { account, recipientId, day } = whose
  if (!Number.isInteger(day) || day < 0 || day > MOST_DAYS) throw new RangeError(`no day: ${day}`)
  const front = Buffer.alloc(1 + ACCOUNT_TAG_BYTES)
  front[0] = kind
  front.writeUInt32BE(account, 1)
  const head = Buffer.concat([front, varint(recipientId), Buffer.of(day >> 8, day & 0xff)])
  return Buffer.concat([head, macOf(key, head, target)]).toString('base64url')
}

function readToken(key: Uint8Array, kind: Kind, token: string, target: Uint8Array): TrackedRecipient | undefined {
  const bytes = readBase64url(withoutDamage(token), LONGEST_TOKEN_CHARACTERS)
  const head = bytes?.subarray(0, -MAC_BYTES)
  if (!bytes || head?.[0] !== kind || !equalBytes(bytes.subarray(-MAC_BYTES), macOf(key, head, target)))
    return undefined
  // What has our MAC has our form.
  return {
    account: head.readUInt32BE(1),
    recipientId: readVarint(head, 1 + ACCOUNT_TAG_BYTES).value,
    day: head.readUInt16BE(head.length - DAY_BYTES),
  }
}

/** With the length of the head in front: octets of a target that are moved into the token, or back, make another MAC. */
const macOf = (key: Uint8Array, head: Uint8Array, target: Uint8Array): Uint8Array =>
  hmacSha256(key, Buffer.concat([Buffer.of(head.length), head, target])).subarray(0, MAC_BYTES)
