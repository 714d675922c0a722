/**
 * @module Signs DNS messages with a shared secret and verifies the signatures of responses (TSIG, RFC 8945). Opens no
 * socket and reads no clock.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface TsigKey {
  /** Without a trailing dot. */
  readonly name: string
  readonly algorithm: TsigAlgorithm
  readonly secret: Uint8Array
}

export const TSIG_ALGORITHMS = ['hmac-sha256', 'hmac-sha512', 'hmac-sha384', 'hmac-sha224'] as const
export type TsigAlgorithm = (typeof TSIG_ALGORITHMS)[number]

/** `unsigned`: the response has no TSIG, so only its error code is worth anything. */
export interface VerifiedResponse {
  readonly state: 'valid' | 'unsigned' | 'invalid'
  /** The TSIG error of RFC 8945 §3, such as 16 BADSIG; 0: none. */
  readonly error: number
  /** The message without its TSIG. */
  readonly message: Buffer
}

const TYPE_TSIG = 250
const CLASS_ANY = 255
/** RFC 8945 §10: how far two clocks may differ. */
const FUDGE_SECONDS = 300

export const uint16 = (...values: readonly number[]): Buffer =>
  Buffer.from(values.flatMap((value) => [(value >> 8) & 0xff, value & 0xff]))

/** Each behind its length (RFC 1035 §3.3), at most 255. */
export const encodeStrings = (strings: readonly Uint8Array[]): Buffer =>
  Buffer.concat(strings.flatMap((one) => [Buffer.of(one.length), one]))

/** The wire form of a name in lower case (RFC 4034 §6.2), without compression. */
export const encodeName = (name: string): Buffer =>
  encodeStrings([...name.toLowerCase().split('.').filter(Boolean), ''].map((label) => Buffer.from(label, 'latin1')))

export const encodeRecord = (name: string, type: number, of: number, ttlSeconds: number, data: Buffer): Buffer =>
  Buffer.concat([encodeName(name), uint16(type, of, ttlSeconds >>> 16, ttlSeconds, data.length), data])

/** 48 bits, and how far two clocks may differ. */
const encodeTime = (seconds: number): Buffer => uint16(seconds / 2 ** 32, seconds / 2 ** 16, seconds, FUDGE_SECONDS)

const digest = ({ algorithm, secret }: TsigKey, ...parts: readonly Uint8Array[]): Buffer =>
  parts.reduce((hmac, part) => hmac.update(part), createHmac(algorithm.slice('hmac-'.length), secret)).digest()

/** The variables of RFC 8945 §4.3.3. @param end error, length of other data, other data */
const toVariables = ({ name, algorithm }: TsigKey, time: Uint8Array, end: Uint8Array): Buffer =>
  Buffer.concat([encodeName(name), uint16(CLASS_ANY, 0, 0), encodeName(algorithm), time, end])

/**
 * The message with its signature, and the MAC, with which the response is verified.
 * @param requestMac of a response: that of its request
 */
export function signMessage(
  message: Buffer,
  key: TsigKey,
  seconds: number,
  requestMac?: Buffer,
): { bytes: Buffer; mac: Buffer } {
  const time = encodeTime(seconds)
  const end = uint16(0, 0)
  const prior = requestMac ? [uint16(requestMac.length), requestMac] : []
  const mac = digest(key, ...prior, message, toVariables(key, time, end))
  const data = Buffer.concat([encodeName(key.algorithm), time, uint16(mac.length), mac, message.subarray(0, 2), end])
  const bytes = Buffer.concat([message, encodeRecord(key.name, TYPE_TSIG, CLASS_ANY, 0, data)])
  bytes.writeUInt16BE(message.readUInt16BE(10) + 1, 10)
  return { bytes, mac }
}

/** @throws RangeError for a message that ends too early */
export function verifyResponse(
  bytes: Buffer,
  key: TsigKey,
  request: { readonly mac: Buffer; readonly seconds: number },
): VerifiedResponse {
  const at = findTsig(bytes)
  if (at === undefined) return { state: 'unsigned', error: 0, message: bytes }
  const message = Buffer.from(bytes.subarray(0, at))
  message.writeUInt16BE(bytes.readUInt16BE(10) - 1, 10)
  const fields = skipName(bytes, skipName(bytes, at) + 10)
  const time = bytes.subarray(fields, fields + 8)
  const macEnd = fields + 10 + bytes.readUInt16BE(fields + 8)
  const mac = bytes.subarray(fields + 10, macEnd)
  const end = bytes.subarray(macEnd + 2)
  const error = end.readUInt16BE(0)
  const expected = digest(key, uint16(request.mac.length), request.mac, message, toVariables(key, time, end))
  // A response about a wrong key or signature has no MAC (RFC 8945 §5.3.2).
  const isValid = mac.length === expected.length && timingSafeEqual(mac, expected)
  const isRecent = Math.abs(time.readUIntBE(0, 6) - request.seconds) <= FUDGE_SECONDS
  return { state: isValid && (isRecent || error !== 0) ? 'valid' : 'invalid', error, message }
}

/** Where the TSIG begins, which is the last record (RFC 8945 §5.1). */
function findTsig(bytes: Buffer): number | undefined {
  const [questions = 0, ...records] = [4, 6, 8, 10].map((at) => bytes.readUInt16BE(at))
  let at = 12
  for (let i = 0; i < questions; i++) at = skipName(bytes, at) + 4
  let last: number | undefined
  for (let left = records.reduce((sum, count) => sum + count, 0); left > 0; left--) {
    const fixed = skipName(bytes, at)
    last = left === 1 && bytes.readUInt16BE(fixed) === TYPE_TSIG ? at : undefined
    at = fixed + 10 + bytes.readUInt16BE(fixed + 8)
  }
  return last
}

function skipName(bytes: Buffer, from: number): number {
  for (let at = from; ; ) {
    const length = bytes.readUInt8(at)
    if (length >= 0xc0) return at + 2
    at += length + 1
    if (length === 0) return at
  }
}
