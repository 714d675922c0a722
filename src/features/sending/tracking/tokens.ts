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
import {
  base64urlLength,
  decodeBase64url,
  decodeVarint,
  encodeVarint,
  MAX_VARINT_BYTES,
} from '#platform/token-bytes.ts'
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
export const MAX_TARGET_OCTETS = 2000

const PIXEL = 1
const LINK = 2
type Kind = typeof PIXEL | typeof LINK

const MAC_BYTES = 10
/** Bytes at the end of an account's UUID that tell it apart in a token. */
export const ACCOUNT_TAG_BYTES = 4
const DAY_BYTES = 2
const MAX_TOKEN_LENGTH = base64urlLength(1 + ACCOUNT_TAG_BYTES + MAX_VARINT_BYTES + DAY_BYTES + MAC_BYTES)
const MAX_TARGET_LENGTH = base64urlLength(MAX_TARGET_OCTETS)
const MAX_DAY = 0xffff

/** The UTC day of a time, in days since the epoch. */
export const dayOf = (at: Millis): number => Math.floor(at / days(1))

/**
 * Tells accounts apart in a token: the end of the account's UUID, which is random. Not the row id, because that of a deleted account is given out again
 * while its mail is still read.
 */
export const accountTag = (uuid: UuidBytes): number => Buffer.from(uuid).readUInt32BE(uuid.length - ACCOUNT_TAG_BYTES)

/** URL of the pixel of a recipient. */
export const createPixelUrl = (key: Uint8Array, baseUrl: string, recipient: TrackedRecipient): string =>
  `${baseUrl}/t/o/${createToken(key, PIXEL, recipient, NO_TARGET)}`

/** URL that leads to `target` by way of us. @param target absolute URL of at most `MAX_TARGET_OCTETS` */
export function createLinkUrl(key: Uint8Array, baseUrl: string, recipient: TrackedRecipient, target: string): string {
  const octets = Buffer.from(target)
  return `${baseUrl}/t/c/${createToken(key, LINK, recipient, octets)}/${octets.toString('base64url')}`
}

/** Whose pixel it is; undefined when we did not make the token. */
export const readPixel = (key: Uint8Array, token: string): TrackedRecipient | undefined =>
  readToken(key, PIXEL, token, NO_TARGET)

/** Whose link it is and where it leads; undefined when we did not make it. */
export function readLink(
  key: Uint8Array,
  token: string,
  target: string,
): (TrackedRecipient & { readonly url: string }) | undefined {
  const octets = decodeBase64url(stripDamage(target), MAX_TARGET_LENGTH)
  const recipient = octets && readToken(key, LINK, token, octets)
  return recipient && { ...recipient, url: octets.toString('utf8') }
}

/**
 * Without what mail programs and people who copy put into a link: a full stop or bracket behind it, blanks, `=` and line breaks of quoted-printable.
 * It has no such character itself, and the MAC is over what stays.
 */
const stripDamage = (text: string): string => text.replace(/[^\w-]/g, '')

const NO_TARGET = new Uint8Array()

function createToken(key: Uint8Array, kind: Kind, recipient: TrackedRecipient, target: Uint8Array): string {
  const { account, recipientId, day } = recipient
  if (!Number.isInteger(day) || day < 0 || day > MAX_DAY) throw new RangeError(`no day: ${day}`)
  const front = Buffer.alloc(1 + ACCOUNT_TAG_BYTES)
  front[0] = kind
  front.writeUInt32BE(account, 1)
  const head = Buffer.concat([front, encodeVarint(recipientId), Buffer.of(day >> 8, day & 0xff)])
  return Buffer.concat([head, computeMac(key, head, target)]).toString('base64url')
}

function readToken(key: Uint8Array, kind: Kind, token: string, target: Uint8Array): TrackedRecipient | undefined {
  const bytes = decodeBase64url(stripDamage(token), MAX_TOKEN_LENGTH)
  const head = bytes?.subarray(0, -MAC_BYTES)
  if (!bytes || head?.[0] !== kind || !equalBytes(bytes.subarray(-MAC_BYTES), computeMac(key, head, target)))
    return undefined
  // What has our MAC has our form.
  return {
    account: head.readUInt32BE(1),
    recipientId: decodeVarint(head, 1 + ACCOUNT_TAG_BYTES).value,
    day: head.readUInt16BE(head.length - DAY_BYTES),
  }
}

/** With the length of the head in front: octets of a target that are moved into the token, or back, make another MAC. */
const computeMac = (key: Uint8Array, head: Uint8Array, target: Uint8Array): Uint8Array =>
  hmacSha256(key, Buffer.concat([Buffer.of(head.length), head, target])).subarray(0, MAC_BYTES)
