/**
 * @module Certificates for tests, created in code: a certificate authority, and its certificates for any names and
 * times (RFC 5280). P-256 with SHA-256. For tests only.
 */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'

export interface TestCertificate {
  /** PEM. */
  readonly cert: string
  /** PEM, PKCS #8. */
  readonly key: string
}

export interface CertificateOptions {
  readonly notBefore?: Date
  readonly notAfter?: Date
  /** Whose certificate it is; default: a new key. `key` of the result is then empty. */
  readonly publicKey?: KeyObject
}

export interface CertificateAuthority {
  /** Its own certificate, PEM, which clients must trust. */
  readonly pem: string
  /** Issues a server certificate for DNS names and IP addresses. Valid from 2020 to 2049 by default. */
  issue(names: readonly string[], options?: CertificateOptions): TestCertificate
}

const VALID_FROM = new Date(Date.UTC(2020, 0, 1))
// RFC 5280 §4.1.2.5.1: years with two digits end at 2049.
const VALID_TO = new Date(Date.UTC(2049, 11, 31))

/** Creates a certificate authority with its own key. */
export function createCertificateAuthority(name = 'Test CA'): CertificateAuthority {
  const ca = newKeyPair()
  let serial = 1
  const pem = certificate({
    serial,
    issuer: name,
    issuerKey: ca.privateKey,
    subject: name,
    publicKey: ca.publicKey,
    notBefore: VALID_FROM,
    notAfter: VALID_TO,
    extensions: [
      extension(BASIC_CONSTRAINTS, sequence(TRUE), true),
      // keyCertSign and cRLSign.
      extension(KEY_USAGE, bitString([0x06], 1), true),
    ],
  })
  return {
    pem,
    issue(names, { notBefore = VALID_FROM, notAfter = VALID_TO, publicKey: givenKey } = {}) {
      const pair = givenKey ? undefined : newKeyPair()
      const publicKey = givenKey ?? (pair?.publicKey as KeyObject)
      serial++
      return {
        key: pair?.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() ?? '',
        cert: certificate({
          serial,
          issuer: name,
          issuerKey: ca.privateKey,
          subject: names[0] ?? 'nobody',
          publicKey,
          notBefore,
          notAfter,
          extensions: [
            extension(BASIC_CONSTRAINTS, sequence(), true),
            // digitalSignature.
            extension(KEY_USAGE, bitString([0x80], 7), true),
            extension(EXTENDED_KEY_USAGE, sequence(SERVER_AUTH), false),
            // Key identifier of the issuer, [0].
            extension(AUTHORITY_KEY_ID, sequence(tagged(0x80, AUTHORITY_KEY)), false),
            ...(names.length > 0 ? [extension(SUBJECT_ALT_NAME, sequence(...names.map(generalName)), false)] : []),
          ],
        }),
      }
    },
  }
}

interface CertificateFields {
  readonly serial: number
  readonly issuer: string
  readonly issuerKey: KeyObject
  readonly subject: string
  readonly publicKey: KeyObject
  readonly notBefore: Date
  readonly notAfter: Date
  readonly extensions: readonly Uint8Array[]
}

const newKeyPair = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

function certificate(fields: CertificateFields): string {
  const signed = sequence(
    tagged(0xa0, integer(2)), // version 3
    integer(fields.serial),
    sequence(ECDSA_WITH_SHA256),
    distinguishedName(fields.issuer),
    sequence(utcTime(fields.notBefore), utcTime(fields.notAfter)),
    distinguishedName(fields.subject),
    fields.publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...fields.extensions)),
  )
  const signature = sign('sha256', signed, fields.issuerKey)
  const der = sequence(signed, sequence(ECDSA_WITH_SHA256), bitString(signature, 0))
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

/** A DER value: tag, length, content (X.690 §8.1). */
function tagged(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const content = Buffer.concat(parts)
  const { length } = content
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...head]), content])
}

const sequence = (...parts: readonly Uint8Array[]) => tagged(0x30, ...parts)
/** Below 2^15. */
const integer = (value: number) =>
  tagged(0x02, Buffer.from(value < 0x80 ? [value] : value < 0x8000 ? [value >> 8, value & 0xff] : []))
const bitString = (bytes: ArrayLike<number>, unusedBits: number) =>
  tagged(0x03, Buffer.from([unusedBits]), Uint8Array.from(bytes))
const octetString = (content: Uint8Array) => tagged(0x04, content)
const objectId = (...encoded: readonly number[]) => tagged(0x06, Buffer.from(encoded))
const TRUE = tagged(0x01, Buffer.from([0xff]))

const ECDSA_WITH_SHA256 = objectId(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02)
const COMMON_NAME = objectId(0x55, 0x04, 0x03)
const KEY_USAGE = objectId(0x55, 0x1d, 0x0f)
const SUBJECT_ALT_NAME = objectId(0x55, 0x1d, 0x11)
const BASIC_CONSTRAINTS = objectId(0x55, 0x1d, 0x13)
const AUTHORITY_KEY_ID = objectId(0x55, 0x1d, 0x23)
/** No certificate of ours is looked up by it. */
const AUTHORITY_KEY = Buffer.from('0123456789abcdef', 'hex')
const EXTENDED_KEY_USAGE = objectId(0x55, 0x1d, 0x25)
const SERVER_AUTH = objectId(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01)

const distinguishedName = (commonName: string) =>
  sequence(tagged(0x31, sequence(COMMON_NAME, tagged(0x0c, Buffer.from(commonName)))))

const utcTime = (time: Date) =>
  tagged(
    0x17,
    Buffer.from(
      `${time
        .toISOString()
        .replace(/\.\d+Z$/, '')
        .replace(/\D/g, '')
        .slice(2)}Z`,
    ),
  )

const extension = (id: Uint8Array, value: Uint8Array, isCritical: boolean) =>
  sequence(id, ...(isCritical ? [TRUE] : []), octetString(value))

/** RFC 5280 §4.2.1.6: a DNS name or an IP address. */
function generalName(name: string): Uint8Array {
  if (isIPv4(name)) return tagged(0x87, Buffer.from(name.split('.').map(Number)))
  if (isIPv6(name)) {
    if (name !== '::1') throw new TypeError('of IPv6 addresses only ::1 is made')
    return tagged(0x87, Buffer.from([...Array.from({ length: 15 }, () => 0), 1]))
  }
  return tagged(0x82, Buffer.from(name))
}
