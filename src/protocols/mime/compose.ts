/**
 * @module Composes one message (RFC 5322, MIME) from encoded parts; nodemailer's MailComposer creates the header and
 * the tree. Deterministic: the same input gives the same bytes, so a retry sends the same message. Lines end in CRLF
 * and have at most 998 octets. Everything is 7-bit, except the headers of a message with an SMTPUTF8 address. Never
 * opens a file or a URL, never reads the clock, never writes Bcc.
 *
 * Behaviour of MailComposer that its input does not show:
 * - Order: custom fields first, then From, To, Cc, Reply-To, Subject, Message-ID, Date, MIME-Version, Content-Type.
 * - MailComposer encodes a value with a character beyond ASCII or a double quote as a whole (RFC 2047). It would leave
 *   a value that looks like an encoded word unchanged; we encode such a value, so that the text arrives as the caller
 *   wrote it.
 * - Fields fold at 76 characters before white space; a long first word moves to a line of its own.
 * - With a UTF-8 local part the domain becomes U-labels again in the header, where SMTPUTF8 is needed anyway.
 * - MailComposer would send message/* parts unencoded and turn multipart/* into a branch of the tree; `attachment.ts`
 *   prevents both.
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
/**
 * Names of fields with mailboxes that the caller may set (RFC 5322 §3.6.2, §3.6.6, RFC 8098 §2.1, and others that mail
 * programs use).
 */
const MAILBOX_FIELD =
  /^(?:reply-to|disposition-notification-to|return-receipt-to|errors-to|mail-(?:followup|reply)-to|resent-(?:from|sender|to|cc|bcc|reply-to))$/i
/** Fields with URLs, which may look like an encoded word: `?a=?b?q?c`. */
const URL_FIELD = /^list-(?:unsubscribe|help|subscribe|post|owner|archive)(?:-post)?$/i
const MESSAGE_ID_FIELD = /^(?:in-reply-to|references|otp-token)$/i
/** A field name (ftext) as RFC 5322 §2.2 defines it. */
const FIELD_NAME = /^[!-9;-~]{1,128}$/
const FORBIDDEN_IN_VALUE = /[\r\n\0]/
/**
 * A Message-ID as RFC 5322 §3.6.4 defines it, as far as the header's form depends on it; the limit keeps the line under
 * 998 octets.
 */
const MESSAGE_ID = /^<[!-;=?-~]{1,900}>$/
const ASCII_ONLY = /^[\0-\x7f]*$/
/**
 * No body can contain a boundary: neither quoted-printable nor base64 produces `=_`, and a 7-bit part contains no
 * `=_T`.
 */
const BOUNDARY_PREFIX = '=_T'
/** A word that cannot be folded to fit a line of 998 octets (RFC 5322 §2.1.1). */
const LONG_WORD = /[^ \t]{900}/

/**
 * Returns the message without a DKIM signature. Its body contains large parts themselves, not copies. Throws when the
 * input breaks a rule that its type cannot express (an unparsable mailbox, a line break in a field), which is a bug in
 * the caller.
 */
export function composeMessage(input: ComposeInput): SerialisedMessage {
  if (!MESSAGE_ID.test(input.messageId)) throw new Error('the Message-ID must have the form <id> in ASCII')
  if (Number.isNaN(input.date.getTime())) throw new Error('the Date is not a valid date')
  for (const [name, value] of input.headers) assertField(name, value)
  assertField('X-Subject', input.subject)

  const { replyTo, headers } = extractReplyTo(input)
  const leaves: EncodedPart[] = []
  const customNames = new Map(input.headers.map(([name]) => [name.toLowerCase(), name]))
  /** MailComposer receives the index of a part instead of the content, because it would scan the content. */
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
    // Keeps the case of names as the caller wrote them; MailComposer would change it.
    normalizeHeaderKey: (name: string) => customNames.get(name.toLowerCase()) ?? name,
  })
  const root = composer.compile()
  if (input.reportType !== undefined)
    root.setHeader('Content-Type', `multipart/report; report-type=${input.reportType}`)
  extendEncoders(root)
  return serialiseTree(root, ({ content }) => (content === '' ? undefined : leaves[Number(content)]))
}

/** Whether the value of a field with this name is one mailbox or a comma-separated list of mailboxes. */
export const isMailboxField = (name: string): boolean => MAILBOX_FIELD.test(name)

/** Members of MimeNode that its type does not declare. */
interface Encoders {
  _encodeWords(value: string): string
  _encodeAddressName(name: string): string
  readonly childNodes: readonly Encoders[]
}

/**
 * Makes the nodes of a tree encode two more kinds of text: text that looks encoded, because a reader would decode it,
 * and text that does not fold. This applies to subjects, header values, and names of people and files.
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

/**
 * Moves Reply-To from the headers to its own property, because MailComposer accepts mailboxes as objects only there.
 */
function extractReplyTo({ replyTo, headers }: ComposeInput): Pick<ComposeInput, 'replyTo' | 'headers'> {
  const replyToField = headers.find(([name]) => /^reply-to$/i.test(name))
  if (replyTo !== undefined || !replyToField || parseMailboxList(replyToField[1]).kind === 'invalid')
    return { ...(replyTo !== undefined && { replyTo }), headers }
  return { replyTo: replyToField[1], headers: headers.filter((field) => field !== replyToField) }
}

/** Parses mailboxes into objects, so that MailComposer does not parse the addresses again. */
function parseMailboxes(texts: readonly string[]): { name: string; address: string }[] {
  return texts.flatMap((text) => {
    const result = parseMailboxList(text)
    if (result.kind === 'invalid') throw new Error(`a mailbox must be validated first: ${result.reason}`)
    return result.mailboxes.map(({ name, address }) => ({ name: name ?? '', address }))
  })
}

/**
 * Shortens runs of white space so that the value folds without a blank line, because some readers take a blank line for
 * the end of the header.
 */
const makeFoldable = (value: string): string => value.replace(/[ \t]{20,}/g, ' ').trim()

/** Marks a value to be folded but not encoded. */
const toPreparedValue = (value: string) => ({ value, prepared: true, foldLines: true })

/**
 * Prepares the value of a further field. MailComposer encodes the value, except in fields whose form it does not know.
 */
function encodeFieldValue(name: string, value: string): string | ReturnType<typeof toPreparedValue> {
  const isAscii = ASCII_ONLY.test(value)
  // MailComposer does not encode these fields; text beyond ASCII has no meaning there, but must not be sent raw.
  if (MESSAGE_ID_FIELD.test(name) && !isAscii) return encodeAsWords(value)
  if (URL_FIELD.test(name) && isAscii && !LONG_WORD.test(value)) return toPreparedValue(makeFoldable(value))
  const list = MAILBOX_FIELD.test(name) ? parseMailboxList(value) : undefined
  if (list?.kind === 'ok') return toPreparedValue(MimeNode.encodeHeaderValue('Reply-To', parseMailboxes([value])))
  return makeFoldable(value)
}

/**
 * Lists text/plain before text/html, because the best alternative comes last (RFC 2046 §5.1.4). Without any body, lists
 * an empty text.
 */
function listBodies({ text, html }: ComposeInput): (readonly [contentType: string, part: EncodedPart])[] {
  return [
    ...(text === undefined && html !== undefined ? [] : [['text/plain; charset=utf-8', text ?? EMPTY_PART] as const]),
    ...(html === undefined ? [] : [['text/html; charset=utf-8', html] as const]),
  ]
}

const EMPTY_PART: EncodedPart = { encoding: '7bit', pieces: [] }
