/**
 * @module Tokens and URLs of tracking: `{base}/t/o/{token}` is the pixel of a recipient, `{base}/t/c/{token}/{target}`
 * a link. The token contains everything that a request needs, protected by a MAC, and nothing is stored: accepting an
 * email writes no row for its links, messages may be composed at delivery, and a link works permanently, whatever is
 * deleted. Without a valid MAC there is no redirect, so nobody else can create a link of this service to any target.
 * The token also names the account, because each account's links must not work under the tracking hosts of others.
 *
 * token: kind (1 byte), account (4 bytes, big-endian), recipient (varint, 7 bits per byte, lowest first), day of the
 * email (2 bytes, big-endian), MAC (10 bytes)
 */
import { equalBytes, hmacSha256 } from '#platform/crypto/crypto.ts'
import {
  base64urlLength,
  decodeBase64url,
  decodeVarint,
  encodeVarint,
  MAX_VARINT_BYTES,
} from '#platform/crypto/token-bytes.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'

export interface TrackedRecipient {
  /** `accountTag` of the sending account. */
  readonly account: number
  readonly recipientId: number
  /** UTC day of the email's acceptance, in days since the epoch. */
  readonly day: number
}

/** Longest target of a link, in octets. */
export const MAX_TARGET_OCTETS = 2000

const PIXEL = 1
const LINK = 2
type Kind = typeof PIXEL | typeof LINK

const MAC_BYTES = 10
/** Bytes at the end of an account's UUID that identify it in a token. */
export const ACCOUNT_TAG_BYTES = 4
const DAY_BYTES = 2
const MAX_TOKEN_LENGTH = base64urlLength(1 + ACCOUNT_TAG_BYTES + MAX_VARINT_BYTES + DAY_BYTES + MAC_BYTES)
const MAX_TARGET_LENGTH = base64urlLength(MAX_TARGET_OCTETS)

/** The UTC day of a time, in days since the epoch. */
export const dayOf = (at: Millis): number => Math.floor(at / days(1))

/**
 * Identifies an account in a token by the random end of its UUID. Its row id would not do: restoring a backup makes new
 * accounts reuse row ids of accounts created after that backup, whose mail is still read.
 */
export const accountTag = (uuid: UuidBytes): number => Buffer.from(uuid).readUInt32BE(uuid.length - ACCOUNT_TAG_BYTES)

export const createPixelUrl = (key: Uint8Array, baseUrl: string, recipient: TrackedRecipient): string =>
  `${baseUrl}/t/o/${createToken(key, PIXEL, recipient, NO_TARGET)}`

/** The URL that redirects to an absolute URL of at most `MAX_TARGET_OCTETS`. */
export function createLinkUrl(key: Uint8Array, baseUrl: string, recipient: TrackedRecipient, target: string): string {
  const octets = Buffer.from(target)
  return `${baseUrl}/t/c/${createToken(key, LINK, recipient, octets)}/${octets.toString('base64url')}`
}

/** Any of them may have made the MAC of a token. */
type TrackingKeys = Uint8Array | readonly Uint8Array[]

/** The recipient of a pixel; undefined if this service did not create the token. */
export const readPixel = (keys: TrackingKeys, token: string): TrackedRecipient | undefined =>
  readToken(keys, PIXEL, token, NO_TARGET)

/** The recipient and target of a link; undefined if this service did not create it. */
export function readLink(
  keys: TrackingKeys,
  token: string,
  target: string,
): (TrackedRecipient & { readonly url: string }) | undefined {
  const octets = decodeBase64url(stripDamage(target), MAX_TARGET_LENGTH)
  const recipient = octets && readToken(keys, LINK, token, octets)
  return recipient && { ...recipient, url: octets.toString('utf8') }
}

/**
 * Removes characters that mail programs and copying add to a link: a trailing full stop or bracket, blanks, `=` and
 * line breaks of quoted-printable. Tokens have none of these, and their MAC or seal covers the rest.
 */
export const stripDamage = (text: string): string => text.replace(/[^\w-]/g, '')

const NO_TARGET = new Uint8Array()

function createToken(key: Uint8Array, kind: Kind, recipient: TrackedRecipient, target: Uint8Array): string {
  const { account, recipientId, day } = recipient
  const front = Buffer.alloc(1 + ACCOUNT_TAG_BYTES)
  front[0] = kind
  front.writeUInt32BE(account, 1)
  const head = Buffer.concat([front, encodeVarint(recipientId), Buffer.of(day >> 8, day & 0xff)])
  return Buffer.concat([head, computeMac(key, head, target)]).toString('base64url')
}

function readToken(keys: TrackingKeys, kind: Kind, token: string, target: Uint8Array): TrackedRecipient | undefined {
  const bytes = decodeBase64url(stripDamage(token), MAX_TOKEN_LENGTH)
  const head = bytes?.subarray(0, -MAC_BYTES)
  if (!bytes || head?.[0] !== kind) return undefined
  const mac = bytes.subarray(-MAC_BYTES)
  const isOurs = (keys instanceof Uint8Array ? [keys] : keys).some((key) =>
    equalBytes(mac, computeMac(key, head, target)),
  )
  if (!isOurs) return undefined
  // A token with our MAC is well-formed, so its parts need no checks.
  return {
    account: head.readUInt32BE(1),
    recipientId: decodeVarint(head, 1 + ACCOUNT_TAG_BYTES).value,
    day: head.readUInt16BE(head.length - DAY_BYTES),
  }
}

/** The MAC includes the length of the head, so octets cannot be moved between token and target. */
const computeMac = (key: Uint8Array, head: Uint8Array, target: Uint8Array): Uint8Array =>
  hmacSha256(key, Buffer.concat([Buffer.of(head.length), head, target])).subarray(0, MAC_BYTES)

/** The public URL without trailing slashes. */
export const trimTrailingSlashes = (publicUrl: string): string => publicUrl.replace(/(?<!\/)\/+$/, '')

/**
 * The base of tracked links: the tracking host of the sending domain with the scheme and port of the public URL, else
 * the public URL itself.
 * @param host verified tracking host; null if there is none
 */
export function trackingBaseUrl(publicUrl: string, host: string | null): string {
  if (host === null) return trimTrailingSlashes(publicUrl)
  const { protocol, port } = new URL(publicUrl)
  return `${protocol}//${host}${port === '' ? '' : `:${port}`}`
}
