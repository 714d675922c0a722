/**
 * @module Signs a finished message with DKIM (RFC 6376): rsa-sha256, relaxed/relaxed. The signature has no t= and x=
 * tags, which would need a clock, so the same message and key always give the same bytes. Synchronous. nodemailer
 * canonicalises the fields; we assemble the header, because nodemailer's signer cannot list a field once more than it
 * occurs. Never changes its input, never uses the network.
 */
import { type KeyObject, sign } from 'node:crypto'
import nodemailerSign from 'nodemailer/lib/dkim/sign'
import { RelaxedBodyHash } from './body-hash.ts'

/**
 * Fields that are signed when present: those of RFC 6376 §5.4.1, and those that mailbox providers require of bulk
 * senders (RFC 8058 §4, Feedback-ID).
 */
export const SIGNED_HEADER_NAMES: readonly string[] = [
  'from',
  'to',
  'cc',
  'subject',
  'date',
  'message-id',
  'reply-to',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
  'list-unsubscribe',
  'list-unsubscribe-post',
  'list-id',
  'in-reply-to',
  'references',
  'feedback-id',
]

/**
 * Fields that must not be added in transit (RFC 6376 §5.4.2, §8.15): each states what the message is, from whom or to
 * whom, and readers show or obey an added field. The signature lists each of them once more than it occurs, even when
 * it does not occur. Sender is not among them, because relays add it.
 */
export const OVERSIGNED_HEADER_NAMES: readonly string[] = [
  'from',
  'to',
  'cc',
  'subject',
  'date',
  'reply-to',
  'mime-version',
  'content-type',
  'list-unsubscribe',
  'list-unsubscribe-post',
]

export interface SignOptions {
  /** Signing domain in A-labels, the d= tag. */
  readonly domain: string
  /** The s= tag. */
  readonly selector: string
  /** An RSA key from `createPrivateKey`. Create it once: parsing PEM costs as much as signing. */
  readonly privateKey: KeyObject
}

interface HeaderField {
  /** Lower-case name. */
  readonly key: string
  /** The whole field with its folding, one character per octet, without the final CRLF. */
  readonly line: string
}

const END_OF_HEADER = Buffer.from('\r\n\r\n')
const MAX_LINE_LENGTH = 76
const TAG_DOMAIN = /^[A-Za-z0-9.-]+$/
const TAG_SELECTOR = /^[A-Za-z0-9._-]+$/

/**
 * Returns the message with a DKIM-Signature field at the top; throws as `createSignatureField` does.
 * @param message complete message with CRLF line ends
 */
export function signMessage(message: Uint8Array, options: SignOptions): Uint8Array {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const end = bytes.indexOf(END_OF_HEADER)
  const hash = new RelaxedBodyHash()
  if (end !== -1) hash.update(bytes.subarray(end + END_OF_HEADER.length))
  return Buffer.concat([
    createSignatureField(end === -1 ? bytes : bytes.subarray(0, end), hash.digest(), options),
    bytes,
  ])
}

/**
 * Returns the DKIM-Signature field with its CRLF, to be placed before the first field of a message. Signs every
 * instance of a signed field. Throws when the message has no From, the key is not RSA, or a tag value is invalid: each
 * is a bug in the caller.
 *
 * @param header with CRLF line ends
 * @param bodyHash from RelaxedBodyHash
 */
export function createSignatureField(header: Buffer, bodyHash: string, options: SignOptions): Buffer {
  if (options.privateKey.asymmetricKeyType !== 'rsa') throw new Error('the DKIM key must be an RSA key')
  if (!TAG_DOMAIN.test(options.domain)) throw new Error('the DKIM domain must be in A-labels')
  if (!TAG_SELECTOR.test(options.selector)) throw new Error('the DKIM selector has an invalid character')

  const signed = selectFields(parseFields(header))
  const names = [...signed.map((field) => field.key), ...OVERSIGNED_HEADER_NAMES]
  const unsigned = formatUnsignedField(options, names, bodyHash)
  // RFC 6376 §3.7: the signature field itself comes last, with an empty b= and without a CRLF.
  const canonical =
    signed.map(canonicalise).join('') + canonicalise({ key: 'dkim-signature', line: unsigned }).slice(0, -2)
  const signature = sign('sha256', Buffer.from(canonical, 'latin1'), options.privateKey).toString('base64')
  return Buffer.from(`${unsigned}${foldBase64(signature)}\r\n`, 'latin1')
}

function parseFields(header: Buffer): HeaderField[] {
  const fields: HeaderField[] = []
  for (const line of header.toString('latin1').split(/\r\n(?![ \t])/)) {
    const colon = line.indexOf(':')
    if (colon > 0) fields.push({ key: line.slice(0, colon).trim().toLowerCase(), line })
  }
  return fields
}

/**
 * Selects the fields to sign. Fields of the same name are ordered from last to first, as verifiers read them. RFC 6376
 * §5.4.2.
 */
function selectFields(fields: readonly HeaderField[]): HeaderField[] {
  const byName = new Map<string, HeaderField[]>()
  for (const field of fields) {
    if (!SIGNED_HEADER_NAMES.includes(field.key)) continue
    const instances = byName.get(field.key)
    if (instances === undefined) byName.set(field.key, [field])
    else instances.unshift(field)
  }
  if (!byName.has('from')) throw new Error('a message without From cannot be signed')
  return SIGNED_HEADER_NAMES.flatMap((name) => byName.get(name) ?? [])
}

/** Returns a field in relaxed form with its CRLF. RFC 6376 §3.4.2. */
const canonicalise = (field: HeaderField): string => nodemailerSign.relaxedHeaders([field], field.key).headers

/** Returns the signature field up to its empty b= tag. */
function formatUnsignedField(options: SignOptions, names: readonly string[], bodyHash: string): string {
  return [
    'DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; q=dns/txt;',
    `d=${options.domain.toLowerCase()}; s=${options.selector};`,
    `bh=${bodyHash};`,
    `h=${foldNames(names)};`,
    'b=',
  ].join('\r\n ')
}

/** RFC 6376 §3.5: h= may be folded next to its colons. */
function foldNames(names: readonly string[]): string {
  let text = ''
  let lineLength = 3
  for (const [index, name] of names.entries()) {
    if (index > 0) text += ':'
    if (lineLength + name.length + 2 > MAX_LINE_LENGTH) {
      text += '\r\n '
      lineLength = 1
    }
    text += name
    lineLength += name.length + 1
  }
  return text
}

const foldBase64 = (base64: string): string => base64.match(/.{1,72}/g)?.join('\r\n ') ?? ''
