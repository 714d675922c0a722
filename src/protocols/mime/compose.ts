/**
 * @module Composes one message (RFC 5322, MIME) from encoded parts: mail without attachments itself (`plain.ts`), other
 * mail by nodemailer's MailComposer (`mail-composer.ts`), with the same bytes where both can. Deterministic: the same
 * input gives the same bytes, so a retry sends the same message. Lines end in CRLF and have at most 998 octets.
 * Everything is 7-bit, except the headers of a message with an SMTPUTF8 address. Never opens a file or a URL, never
 * reads the clock, never writes Bcc.
 */
import { createHash } from 'node:crypto'
import { parseMailboxList } from '../address/parse.ts'
import { type Attachment, isAlternativePart, SEALED_TYPE, sanitiseContentType } from './attachment.ts'
import type { EncodedPart } from './encode.ts'
import { type Bodies, type MessageFields, makeFoldable, parseMailboxes } from './fields.ts'
import { composeByMailComposer } from './mail-composer.ts'
import { composePlain } from './plain.ts'
import type { SerialisedMessage } from './serialise.ts'

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

/**
 * Returns the message without a DKIM signature. Its body contains large parts themselves, not copies. Throws when the
 * input breaks a rule that its type cannot express (an unparsable mailbox, a line break in a field), which is a bug in
 * the caller.
 */
export function composeMessage(input: ComposeInput): SerialisedMessage {
  const fields = readFields(input)
  const bodies = listBodies(input)
  const attachments = input.attachments.filter((part) => !isAlternativePart(part))
  const plain = attachments.length === 0 ? composePlain(fields, bodies) : undefined
  return plain ?? composeByMailComposer(fields, bodies, { ...input, attachments })
}

/** Checks the fields of a message; throws as `composeMessage` does. */
export function readFields(input: ComposeInput): MessageFields {
  if (!MESSAGE_ID.test(input.messageId)) throw new Error('the Message-ID must have the form <id> in ASCII')
  if (Number.isNaN(input.date.getTime())) throw new Error('the Date is not a valid date')
  for (const [name, value] of input.headers) assertField(name, value)
  assertField('X-Subject', input.subject)
  const { replyTo, headers } = extractReplyTo(input)
  return {
    from: parseMailboxes([input.from]),
    to: parseMailboxes(input.to),
    cc: parseMailboxes(input.cc),
    replyTo: replyTo === undefined ? undefined : parseMailboxes([replyTo]),
    subject: makeFoldable(input.subject),
    date: input.date,
    messageId: input.messageId,
    headers,
    spellings: new Map(input.headers.map(([name]) => [name.toLowerCase(), name])),
    baseBoundary: createHash('sha256').update(input.boundarySeed).digest('hex').slice(0, 24),
  }
}

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

/**
 * Lists text/plain before text/html, because the best alternative comes last (RFC 2046 §5.1.4); other forms of the text
 * come between them, except an invitation, which comes last. Without any body, lists an empty text. A sealed message is
 * the only body.
 */
export function listBodies({
  text,
  html,
  attachments = [],
}: Pick<ComposeInput, 'text' | 'html'> & Partial<Pick<ComposeInput, 'attachments'>>): Bodies {
  const others = attachments.filter(isAlternativePart).map((part) => [sanitiseContentType(part), part.content] as const)
  const sealed = others.find(([type]) => SEALED_TYPE.test(type))
  if (sealed) return [sealed]
  const isInvitation = ([type]: Bodies[number]): boolean => type.startsWith('text/calendar')
  return [
    ...(text === undefined && html !== undefined ? [] : [['text/plain; charset=utf-8', text ?? EMPTY_PART] as const]),
    ...others.filter((body) => !isInvitation(body)),
    ...(html === undefined ? [] : [['text/html; charset=utf-8', html] as const]),
    ...others.filter(isInvitation),
  ]
}

const EMPTY_PART: EncodedPart = { encoding: '7bit', pieces: [] }
