/**
 * @module Composes mail without attachments: header and body in one pass, with the bytes that MailComposer would give
 * at several times the cost. Leaves rare fields to MailComposer. Never changes an encoded part.
 */
import { encodeWord, foldLines } from 'nodemailer/lib/mime-funcs'
import MimeNode from 'nodemailer/lib/mime-node'
import type { EncodedPart } from './encode.ts'
import {
  BOUNDARY_PREFIX,
  type Bodies,
  encodeAsWords,
  looksEncodedOrUnfoldable,
  MESSAGE_ID_FIELD,
  type MessageFields,
  type NamedAddress,
  prepareFieldValue,
} from './fields.ts'
import { mergeSmallPieces, type SerialisedMessage } from './serialise.ts'

/** Returns undefined when the message has fields that only MailComposer can compose. */
export function composePlain(fields: MessageFields, bodies: Bodies): SerialisedMessage | undefined {
  if (fields.headers.some(([name]) => LEFT_TO_MAIL_COMPOSER.test(name))) return undefined
  const [first] = bodies
  if (!first) return undefined
  if (bodies.length > 1) {
    const boundary = `${BOUNDARY_PREFIX}-${fields.baseBoundary}-Part_1`
    const lines = formatFields(fields)
    lines.push('MIME-Version: 1.0', foldField(`Content-Type: multipart/alternative; boundary="${boundary}"`))
    return { header: toHeader(lines), body: joinBodies(bodies, boundary) }
  }
  const [contentType, { encoding, pieces }] = first
  const lines = formatFields(fields)
  // MailComposer puts an encoding that it was given before all other fields, and one that it chose after them.
  if (encoding !== '7bit') lines.unshift(formatEncoding(encoding))
  else if (pieces.length > 0) lines.push(formatEncoding(encoding))
  lines.push('MIME-Version: 1.0', foldField(`Content-Type: ${contentType}`))
  const isOpen = pieces.at(-1)?.subarray(-CRLF.length).equals(CRLF) === false
  return { header: toHeader(lines), body: mergeSmallPieces(isOpen ? [...pieces, CRLF] : pieces) }
}

/** Fields with mailboxes that are not valid, or that MailComposer would replace by one of its own. */
const LEFT_TO_MAIL_COMPOSER = /^(?:reply-to|sender)$/i
const CRLF = Buffer.from('\r\n')

const toHeader = (lines: readonly string[]): Buffer => Buffer.from(`${lines.join('\r\n')}\r\n\r\n`)

const formatEncoding = (encoding: EncodedPart['encoding']): string => `Content-Transfer-Encoding: ${encoding}`

/** All fields but those of MIME (RFC 2045), folded. */
function formatFields(fields: MessageFields): string[] {
  const lines: string[] = []
  const add = (name: string, value: string) => {
    if (value.trim() !== '') lines.push(foldField(`${name}: ${value}`))
  }
  for (const [name, value] of fields.headers) {
    const prepared = prepareFieldValue(name, value)
    if (typeof prepared === 'object') add(capitaliseName(name), prepared.value)
    else {
      const isStructured = MESSAGE_ID_FIELD.test(name)
      const encoded = isStructured ? MimeNode.encodeHeaderValue(name, prepared) : encodeUnstructured(prepared)
      add(fields.spellings.get(name.toLowerCase()) ?? name, encoded)
    }
  }
  add('From', encodeMailboxes(fields.from))
  add('To', encodeMailboxes(fields.to))
  add('Cc', encodeMailboxes(fields.cc))
  if (fields.replyTo) add(fields.spellings.get('reply-to') ?? 'Reply-To', encodeMailboxes(fields.replyTo))
  add('Subject', encodeUnstructured(fields.subject))
  add('Message-ID', fields.messageId)
  lines.push(`Date: ${fields.date.toUTCString().replace('GMT', '+0000')}`)
  return lines
}

/** MailComposer spells the names of fields with prepared values itself. */
const capitaliseName = (name: string): string =>
  name.toLowerCase().replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase())

/** Shorter fields are not folded. */
const FOLD_LENGTH = 76

const foldField = (field: string): string => (field.length < FOLD_LENGTH ? field : foldLines(field, FOLD_LENGTH))

/** Characters that an unstructured value must not have, and therefore sends encoded; HT is among white space. */
const CONTROL = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/
const NEEDS_ENCODING = /[\u0080-\uffff]/

function encodeUnstructured(text: string): string {
  if (CONTROL.test(text)) return encodeWord(text, chooseWordEncoding(text), MAX_WORD_LENGTH)
  if (looksEncodedOrUnfoldable(text)) return encodeAsWords(text)
  return NEEDS_ENCODING.test(text) ? encodeWord(text, chooseWordEncoding(text), MAX_WORD_LENGTH) : text
}

/** Length of an encoded word, as MailComposer has it. */
const MAX_WORD_LENGTH = 52

/** Quoted-printable for a text that has more Latin letters than characters to be escaped. */
function chooseWordEncoding(text: string): 'Q' | 'B' {
  let escaped = 0
  let letters = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0x80 || code <= 0x08 || code === 0x0b || code === 0x0c || (code >= 0x0e && code <= 0x1f)) escaped++
    else if ((code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)) letters++
  }
  return escaped < letters ? 'Q' : 'B'
}

const encodeMailboxes = (mailboxes: readonly NamedAddress[]): string => mailboxes.map(encodeMailbox).join(', ')

function encodeMailbox({ name, address }: NamedAddress): string {
  const bare = PLAIN_ADDRESS.test(address) ? address : MimeNode.encodeHeaderValue('To', [{ name: '', address }])
  if (name === '') return bare
  return `${encodeName(name)} ${bare.startsWith('<') ? bare : `<${bare}>`}`
}

/**
 * An address that MailComposer leaves as it is: a dot-atom in ASCII, and a domain without A-labels whose last label
 * cannot be a number.
 */
const PLAIN_ADDRESS =
  /^[\w!#$%&'*+\-/=?^`{|}~]+(?:\.[\w!#$%&'*+\-/=?^`{|}~]+)*@(?!(?:.*\.)?xn--)(?:[a-z0-9][a-z0-9-]*\.)+[a-z][a-z0-9-]*$/

function encodeName(name: string): string {
  if (looksEncodedOrUnfoldable(name)) return encodeAsWords(name)
  if (/^[\w ]*$/.test(name)) return name
  if (/^[\x20-\x7e]*$/.test(name)) return `"${name.replace(/["\\]/g, '\\$&')}"`
  return encodeWord(name, chooseWordEncoding(name), MAX_WORD_LENGTH)
}

/** The parts of multipart/alternative (RFC 2046 §5.1.4). */
function joinBodies(bodies: Bodies, boundary: string): Buffer[] {
  const pieces: Buffer[] = []
  // The line break before a boundary belongs to the boundary (RFC 2046 §5.1.1). Base64 already ends with a line break,
  // which serves for this.
  let lineEnd = ''
  for (const [contentType, part] of bodies) {
    const encoding = part.pieces.length > 0 ? `${formatEncoding(part.encoding)}\r\n` : ''
    pieces.push(
      Buffer.from(`${lineEnd}--${boundary}\r\n${foldField(`Content-Type: ${contentType}`)}\r\n${encoding}\r\n`),
      ...part.pieces,
    )
    lineEnd = part.encoding === 'base64' ? '' : '\r\n'
  }
  pieces.push(Buffer.from(`${lineEnd}--${boundary}--\r\n`))
  return mergeSmallPieces(pieces)
}
