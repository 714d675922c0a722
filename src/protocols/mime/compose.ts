/**
 * @module Composes one message (RFC 5322, MIME) from encoded parts, which it neither changes nor copies when they are
 * large. Deterministic: the same input gives the same bytes, so a retry sends the same message. Lines end in CRLF and
 * have at most 998 octets. Everything is 7-bit, except the headers of a message with an SMTPUTF8 address, and parts that
 * must not be encoded. Never opens a file or a URL, never reads the clock, never writes Bcc.
 */
import { createHash } from 'node:crypto'
import { buildHeaderValue } from 'nodemailer/lib/mime-funcs'
import {
  type Attachment,
  cleanFilename,
  isAlternativePart,
  quoteParameter,
  SEALED_TYPE,
  sanitiseContentType,
} from './attachment.ts'
import type { EncodedPart } from './encode.ts'
import { encodeMailboxes, encodeUnstructured, encodeValue, foldField } from './fields.ts'

export interface ComposeInput {
  /** Mailboxes as text in the form of `formatMailbox`, already validated. */
  readonly from: string
  readonly to: readonly string[]
  readonly cc: readonly string[]
  /** A mailbox or a comma-separated list of them. */
  readonly replyTo?: string
  readonly subject: string
  readonly date: Date
  /** The Message-ID with its angle brackets. */
  readonly messageId: string
  /**
   * Further fields, in this order; values without CR, LF and NUL. Names of fields that this function or MIME sets are
   * rejected.
   */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly text?: EncodedPart
  readonly html?: EncodedPart
  readonly attachments: readonly Attachment[]
  /** Makes a message with attachments a multipart/report of this type (RFC 6522). */
  readonly reportType?: string
  /** The boundaries are derived from this text. */
  readonly boundarySeed: string
}

const RESERVED_NAME = /^(?:from|to|cc|bcc|subject|date|message-id|mime-version|content-.*)$/i
/** A field name (ftext) as RFC 5322 §2.2 defines it. */
const FIELD_NAME = /^[!-9;-~]{1,128}$/
const FORBIDDEN_IN_VALUE = /[\r\n\0]/
/**
 * A Message-ID as RFC 5322 §3.6.4 defines it, as far as the header's form depends on it; the limit keeps the line under
 * 998 octets.
 */
const MESSAGE_ID = /^<[!-;=?-~]{1,900}>$/

export interface ComposedMessage {
  /** The header, with the empty line that ends it. */
  readonly header: Buffer
  /** The body in pieces; its last line ends with CRLF. */
  readonly body: readonly Buffer[]
}

/**
 * Returns the message without a DKIM signature. Throws when the input breaks a rule that its type cannot express (an
 * unparsable mailbox, a line break in a field), which is a bug in the caller.
 */
export function composeMessage(input: ComposeInput): ComposedMessage {
  const seed = createHash('sha256').update(input.boundarySeed).digest('hex').slice(0, 24)
  const { fields, pieces } = writePart(buildTree(input), seed)
  const isOpen = pieces.at(-1)?.subarray(-CRLF.length).equals(CRLF) === false
  return {
    header: Buffer.from(toHeader([...formatFields(input), 'MIME-Version: 1.0', ...fields])),
    body: mergeSmallPieces(isOpen ? [...pieces, CRLF] : pieces),
  }
}

const CRLF = Buffer.from('\r\n')

const toHeader = (fields: readonly string[]): string => `${fields.map(foldField).join('\r\n')}\r\n\r\n`

/** All fields but those of MIME: further fields first. Empty fields are left out. */
function formatFields(input: ComposeInput): string[] {
  if (!MESSAGE_ID.test(input.messageId)) throw new Error('the Message-ID must have the form <id> in ASCII')
  if (Number.isNaN(input.date.getTime())) throw new Error('the Date is not a valid date')
  for (const [name, value] of input.headers) assertField(name, value)
  assertField('X-Subject', input.subject)
  const fields = [
    ...input.headers.map(([name, value]) => [name, encodeValue(name, value)] as const),
    ['From', encodeMailboxes([input.from])],
    ['To', encodeMailboxes(input.to)],
    ['Cc', encodeMailboxes(input.cc)],
    ['Reply-To', input.replyTo === undefined ? '' : encodeMailboxes([input.replyTo])],
    ['Subject', encodeValue('Subject', input.subject)],
    ['Message-ID', input.messageId],
    ['Date', input.date.toUTCString().replace('GMT', '+0000')],
  ] as const
  return fields.flatMap(([name, value]) => (value.trim() === '' ? [] : [`${name}: ${value}`]))
}

function assertField(name: string, value: string): void {
  if (!FIELD_NAME.test(name) || RESERVED_NAME.test(name))
    throw new Error(`${JSON.stringify(name)} cannot be a custom header`)
  if (typeof value !== 'string' || FORBIDDEN_IN_VALUE.test(value))
    throw new Error(`the value of the header ${name} has a line break or a NUL`)
}

/** A part of the tree: a leaf with content, or a branch with other parts. */
type Part = Leaf | { readonly contentType: string; readonly parts: readonly Part[] }

interface Leaf {
  readonly contentType: string
  /** Further fields of its header. */
  readonly fields?: readonly string[]
  readonly content: EncodedPart
}

const HTML_TYPE = 'text/html; charset=utf-8'

function buildTree(input: ComposeInput): Part {
  const bodies = listBodies(input)
  const html = bodies.find(({ contentType }) => contentType === HTML_TYPE)
  const files = input.attachments.filter((part) => !isAlternativePart(part))
  const related = files.filter(({ contentId }) => html !== undefined && contentId !== undefined)
  const attached = files.filter((file) => !related.includes(file))
  const alternatives = bodies.map((body) =>
    body === html && related.length > 0
      ? { contentType: 'multipart/related; type="text/html"', parts: [body, ...related.map(toFileLeaf)] }
      : body,
  )
  const [only, ...others] = alternatives
  const message = only && others.length === 0 ? only : { contentType: 'multipart/alternative', parts: alternatives }
  if (attached.length === 0) return message
  const { reportType } = input
  const contentType = reportType === undefined ? 'multipart/mixed' : `multipart/report; report-type=${reportType}`
  return { contentType, parts: [message, ...attached.map(toFileLeaf)] }
}

/**
 * Lists text/plain before text/html, because the best alternative comes last (RFC 2046 §5.1.4); other forms of the text
 * come between them, except an invitation, which comes last. Without any body, lists an empty text. A sealed message is
 * the only body.
 */
function listBodies({ text, html, attachments }: ComposeInput): Leaf[] {
  const others = attachments
    .filter(isAlternativePart)
    .map((part) => ({ contentType: sanitiseContentType(part), content: part.content }))
  const sealed = others.find(({ contentType }) => SEALED_TYPE.test(contentType))
  if (sealed) return [sealed]
  const isInvitation = ({ contentType }: Leaf): boolean => contentType.startsWith('text/calendar')
  return [
    ...(text === undefined && html !== undefined
      ? []
      : [{ contentType: 'text/plain; charset=utf-8', content: text ?? EMPTY_PART }]),
    ...others.filter((body) => !isInvitation(body)),
    ...(html === undefined ? [] : [{ contentType: HTML_TYPE, content: html }]),
    ...others.filter(isInvitation),
  ]
}

const EMPTY_PART: EncodedPart = { encoding: '7bit', pieces: [] }

const FALLBACK_NAME = 'attachment'

/** The name is in both fields, because some clients read it only in Content-Type, as an encoded word. */
function toFileLeaf({ contentId, ...attachment }: Attachment): Leaf {
  const filename = cleanFilename(attachment.filename) ?? FALLBACK_NAME
  const type = sanitiseContentType({ ...attachment, isAlternative: false })
  const value = contentId === undefined ? 'attachment' : 'inline'
  return {
    contentType: `${type}; name=${quoteParameter(encodeUnstructured(filename))}`,
    fields: [
      ...(contentId === undefined ? [] : [`Content-Id: ${encodeUnstructured(`<${contentId}>`)}`]),
      `Content-Disposition: ${buildHeaderValue({ value, params: { filename } })}`,
    ],
    content: attachment.content,
  }
}

/**
 * Returns the fields of the header of a part, and its body. No body can contain a boundary: neither quoted-printable nor
 * base64 produces `=_`, and a 7-bit part contains no `=_T`.
 */
function writePart(part: Part, seed: string, depth = 1): { fields: string[]; pieces: readonly Buffer[] } {
  if ('content' in part) {
    const { contentType, fields = [], content } = part
    const encoding = `Content-Transfer-Encoding: ${content.encoding}`
    return { fields: [`Content-Type: ${contentType}`, encoding, ...fields], pieces: content.pieces }
  }
  // No part has two branches among its children, so the depth tells boundaries apart.
  const boundary = `=_T-${seed}-Part_${depth}`
  const pieces = part.parts.flatMap((child) => {
    const { fields, pieces } = writePart(child, seed, depth + 1)
    // The line break before a boundary belongs to the boundary (RFC 2046 §5.1.1). Base64 already ends with a line
    // break, which serves for this.
    const isBase64 = 'content' in child && child.content.encoding === 'base64'
    return [Buffer.from(`--${boundary}\r\n${toHeader(fields)}`), ...pieces, ...(isBase64 ? [] : [CRLF])]
  })
  pieces.push(Buffer.from(`--${boundary}--\r\n`))
  const contentType = `Content-Type: ${part.contentType}; boundary="${boundary}"`
  return { fields: isEightBit(part) ? [contentType, 'Content-Transfer-Encoding: 8bit'] : [contentType], pieces }
}

/** RFC 2045 §6.4: no part has a wider encoding than what contains it. */
const isEightBit = (part: Part): boolean =>
  'content' in part ? part.content.encoding === '8bit' : part.parts.some(isEightBit)

/** Smaller pieces are merged: copying them once is cheaper than handling many pieces at every step. */
const SMALL_PIECE_BYTES = 8 * 1024

function mergeSmallPieces(pieces: readonly Buffer[]): Buffer[] {
  const result: Buffer[] = []
  let small: Buffer[] = []
  const flush = () => {
    if (small.length > 0) result.push(Buffer.concat(small))
    small = []
  }
  for (const piece of pieces) {
    if (piece.length <= SMALL_PIECE_BYTES) {
      small.push(piece)
      continue
    }
    flush()
    result.push(piece)
  }
  flush()
  return result
}
