/**
 * @module Composes one message (RFC 5322, MIME) from encoded parts, with nodemailer's MailComposer for the header and
 * the tree. Deterministic: the same input gives the same bytes, so a retry sends what was sent before. Lines end in CRLF
 * and have at most 998 octets; everything is 7-bit, except the headers of a message with an SMTPUTF8 address. Never opens
 * a file or a URL, never reads the clock, and has no place for a Bcc field.
 *
 * What MailComposer does that its input does not show:
 * - Order: custom fields first, then From, To, Cc, Reply-To, Subject, Message-ID, Date, MIME-Version, Content-Type.
 * - A value with a character beyond ASCII or a double quote is encoded as a whole (RFC 2047). So is here one that looks like an encoded word, which
 *   MailComposer takes for encoded already: what callers give is text, and arrives as they wrote it.
 * - Fields fold at 76 characters before white space; a long first word moves to a line of its own.
 * - With a UTF-8 local part the domain goes back to U-labels in the header, where SMTPUTF8 is needed anyway.
 * - message/* parts would go out unencoded, multipart/* would become a branch of the tree: `attachment.ts` keeps both away.
 */
import { createHash } from 'node:crypto'
import MailComposer from 'nodemailer/lib/mail-composer'
import { encodeWord } from 'nodemailer/lib/mime-funcs'
import MimeNode from 'nodemailer/lib/mime-node'
import { parseMailboxList } from '../address/parse.ts'
import { sanitiseContentType, sanitiseFilename } from './attachment.ts'
import type { EncodedPart } from './encode.ts'
import { type SerialisedMessage, serialiseTree } from './serialise.ts'

export interface Attachment {
  readonly filename: string
  readonly contentType: string
  /** In base64. */
  readonly content: EncodedPart
}

export interface ComposeInput {
  /** Mailboxes in text form (`formatMailbox`), already validated. */
  readonly from: string
  readonly to: readonly string[]
  readonly cc: readonly string[]
  /** A mailbox or a comma list of them. */
  readonly replyTo?: string
  readonly subject: string
  readonly date: Date
  /** With its angle brackets. */
  readonly messageId: string
  /** Further fields, in this order; values without CR, LF and NUL. Names that this function or MIME sets are refused. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly text?: EncodedPart
  readonly html?: EncodedPart
  readonly attachments: readonly Attachment[]
  /** The boundaries derive from it. */
  readonly boundarySeed: string
}

const RESERVED_NAME = /^(?:from|to|cc|bcc|subject|date|message-id|mime-version|content-.*)$/i
/** Fields that the caller may give and that hold mailboxes (RFC 5322 §3.6.2, §3.6.6, RFC 8098 §2.1, and what mail programs use). */
const MAILBOX_FIELD =
  /^(?:reply-to|disposition-notification-to|return-receipt-to|errors-to|mail-(?:followup|reply)-to|resent-(?:from|sender|to|cc|bcc|reply-to))$/i
/** Fields of URLs, which may look like an encoded word: `?a=?b?q?c`. */
const URL_FIELD = /^list-(?:unsubscribe|help|subscribe|post|owner|archive)(?:-post)?$/i
const MESSAGE_ID_FIELD = /^(?:in-reply-to|references|otp-token)$/i
/** RFC 5322 §2.2 ftext. */
const FIELD_NAME = /^[!-9;-~]{1,128}$/
const FORBIDDEN_IN_VALUE = /[\r\n\0]/
/** RFC 5322 §3.6.4, as far as it matters for the header's shape; the bound keeps the line under 998 octets. */
const MESSAGE_ID = /^<[!-;=?-~]{1,900}>$/
const ASCII_ONLY = /^[\0-\x7f]*$/
/** No body can hold a boundary: `=_` comes out of neither quoted-printable nor base64, `=_T` is in no 7-bit part. */
const BOUNDARY_PREFIX = '=_T'
/** What folds into no line of 998 octets (RFC 5322 §2.1.1). */
const LONG_WORD = /[^ \t]{900}/

/**
 * The message without a DKIM signature; large parts are in its body themselves, not copies. Throws when the input breaks a
 * rule its type cannot state (an unparsable mailbox, a line break in a field): a bug of the caller.
 */
export function composeMessage(input: ComposeInput): SerialisedMessage {
  if (!MESSAGE_ID.test(input.messageId)) throw new Error('the Message-ID is not of the form <id> in ASCII')
  if (Number.isNaN(input.date.getTime())) throw new Error('the Date is not a valid date')
  for (const [name, value] of input.headers) assertField(name, value)
  assertField('X-Subject', input.subject)

  const { replyTo, headers } = extractReplyTo(input)
  const leaves: EncodedPart[] = []
  const customNames = new Map(input.headers.map(([name]) => [name.toLowerCase(), name]))
  /** MailComposer has the number of a part in place of its content, which it would look through. */
  const addLeaf = (part: EncodedPart) => ({
    content: part.pieces.length === 0 ? '' : String(leaves.push(part) - 1),
    contentTransferEncoding: part.encoding === '7bit' ? (false as const) : part.encoding,
  })
  const composer = new MailComposer({
    from: parseMailboxes([input.from]),
    to: parseMailboxes(input.to),
    cc: parseMailboxes(input.cc),
    ...(replyTo === undefined ? {} : { replyTo: parseMailboxes([replyTo]) }),
    subject: makeFoldable(input.subject),
    date: input.date,
    messageId: input.messageId,
    headers: headers.map(([key, value]) => ({ key, value: encodeFieldValue(key, value) })),
    alternatives: listBodies(input).map(([contentType, part]) => ({ contentType, ...addLeaf(part) })),
    attachments: input.attachments.map(({ filename, contentType, content }) => ({
      filename: sanitiseFilename(filename),
      contentType: sanitiseContentType(contentType),
      contentDisposition: 'attachment',
      ...addLeaf(content),
    })),
    boundaryPrefix: BOUNDARY_PREFIX,
    baseBoundary: createHash('sha256').update(input.boundarySeed).digest('hex').slice(0, 24),
    disableFileAccess: true,
    disableUrlAccess: true,
    // MailComposer writes names in its own case; the caller's is kept.
    normalizeHeaderKey: (name: string) => customNames.get(name.toLowerCase()) ?? name,
  })
  const root = composer.compile()
  extendEncoders(root)
  return serialiseTree(root, ({ content }) => (content === '' ? undefined : leaves[Number(content)]))
}

/** Whether the value of a header is one mailbox or a comma list of them. */
export const isMailboxField = (name: string): boolean => MAILBOX_FIELD.test(name)

/** What MimeNode has and its type does not say. */
interface Encoders {
  _encodeWords(value: string): string
  _encodeAddressName(name: string): string
  readonly childNodes: readonly Encoders[]
}

/**
 * Makes the nodes of a tree encode what a reader would decode though nobody encoded it, and what does not fold: in subjects, header values, names of
 * people and of files.
 */
function extendEncoders(node: object): void {
  const encoders = node as Encoders
  const { _encodeWords: encodeWords, _encodeAddressName: encodeName } = encoders
  const isEncoded = (text: string) => text.includes('=?') || (LONG_WORD.test(text) && ASCII_ONLY.test(text))
  encoders._encodeWords = (text) => (isEncoded(text) ? encodeAsWords(text) : encodeWords.call(encoders, text))
  encoders._encodeAddressName = (name) => (isEncoded(name) ? encodeAsWords(name) : encodeName.call(encoders, name))
  for (const child of encoders.childNodes) extendEncoders(child)
}

const encodeAsWords = (text: string): string => encodeWord(text, 'Q', 52)

function assertField(name: string, value: string): void {
  if (!FIELD_NAME.test(name) || RESERVED_NAME.test(name))
    throw new Error(`${JSON.stringify(name)} cannot be a custom header`)
  if (typeof value !== 'string' || FORBIDDEN_IN_VALUE.test(value))
    throw new Error(`the value of the header ${name} has a line break or a NUL`)
}

/** Reply-To may be given as a header as well: MailComposer takes mailboxes as objects only where it expects them. */
function extractReplyTo({ replyTo, headers }: ComposeInput): Pick<ComposeInput, 'replyTo' | 'headers'> {
  const replyToField = headers.find(([name]) => /^reply-to$/i.test(name))
  if (replyTo !== undefined || !replyToField || parseMailboxList(replyToField[1]).kind === 'invalid')
    return { ...(replyTo !== undefined && { replyTo }), headers }
  return { replyTo: replyToField[1], headers: headers.filter((field) => field !== replyToField) }
}

/** As objects, so that no second parser has a say in what the addresses are. */
function parseMailboxes(texts: readonly string[]): { name: string; address: string }[] {
  return texts.flatMap((text) => {
    const result = parseMailboxList(text)
    if (result.kind === 'invalid') throw new Error(`a mailbox was not validated: ${result.reason}`)
    return result.mailboxes.map(({ name, address }) => ({ name: name ?? '', address }))
  })
}

/**
 * A field value that folds into lines of which none is blank: a run of white space longer than a line would be one, and a blank line ends the header
 * for some readers.
 */
const makeFoldable = (value: string): string => value.replace(/[ \t]{20,}/g, ' ').trim()

/** A value that is written as it is, folded. */
const toPreparedValue = (value: string) => ({ value, prepared: true, foldLines: true })

/** The value of a further field: encoded by MailComposer, but for those whose form it does not know. */
function encodeFieldValue(name: string, value: string): string | ReturnType<typeof toPreparedValue> {
  const isAscii = ASCII_ONLY.test(value)
  // It does not encode these; what is not ASCII has no meaning in them but must not reach the wire raw.
  if (MESSAGE_ID_FIELD.test(name) && !isAscii) return encodeAsWords(value)
  if (URL_FIELD.test(name) && isAscii && !LONG_WORD.test(value)) return toPreparedValue(makeFoldable(value))
  const list = MAILBOX_FIELD.test(name) ? parseMailboxList(value) : undefined
  if (list?.kind === 'ok') return toPreparedValue(MimeNode.encodeHeaderValue('Reply-To', parseMailboxes([value])))
  return makeFoldable(value)
}

/** text/plain before text/html (RFC 2046 §5.1.4: the best last); an empty text when there is neither. */
function listBodies({ text, html }: ComposeInput): (readonly [contentType: string, part: EncodedPart])[] {
  return [
    ...(text === undefined && html !== undefined ? [] : [['text/plain; charset=utf-8', text ?? EMPTY_PART] as const]),
    ...(html === undefined ? [] : [['text/html; charset=utf-8', html] as const]),
  ]
}

const EMPTY_PART: EncodedPart = { encoding: '7bit', pieces: [] }
