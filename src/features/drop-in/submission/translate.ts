/**
 * @module Translates a submitted message (RFC 6409) into a send request: the message is not passed on but rebuilt, so
 * that it has one form, our signature and our tracking. Pure; throws AppError 422 with the header field.
 */
import { detectExtension } from 'nodemailer/lib/mime-funcs'
import type { SubmittedMessage } from '#features/receiving/inbound/listener/protocol.ts'
import { isForbiddenFile, MAX_ATTACHMENTS } from '#features/sending/accept/attachments.ts'
import { type Draft, EMAIL_LIMITS } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { AppError } from '#platform/errors.ts'
import { formatMailbox, normaliseAddress } from '#protocols/address/parse.ts'
import type { ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'
import { parseStructuredField } from '#protocols/mime/structured-field.ts'
import { type Fields, HOPS_FIELD, readControls } from './control-headers.ts'
import { dropRepeated, readFields, readMailboxes, readSender, readSubject, valuesOf } from './header.ts'

/** More Received fields mean that the message goes in circles (RFC 5321 §6.3). */
const MAX_HOPS = 100
const MAX_FILENAME_LENGTH = 255
/** Of a name in the reply, whose line is short. */
const MAX_SHOWN_LENGTH = 80
const NO_SUBJECT = '(no subject)'

/** The form that composing accepts; RFC 5322 §3.6.4. */
const MESSAGE_ID = /^<[!-;=?-~]{1,250}>$/
/** Of a part that the HTML can refer to. */
const CONTENT_ID = /^[!-;=?-~]{1,255}$/

/** @param envelope its recipients, each once, at least one */
export function translateMessage(message: ParsedMessage, envelope: Pick<SubmittedMessage, 'mailFrom' | 'recipients'>) {
  const dropped = new Set<string>()
  const hops = countHops(message.headers)
  const { idempotencyKey, ...controls } = readControls(message.headers, EMAIL_LIMITS.tagCharacters, dropped)
  const hasTemplate = controls.template_alias !== undefined
  const recipients = assignRecipients(message, envelope.recipients, dropped)
  const maxOctets = EMAIL_LIMITS.headers * EMAIL_LIMITS.headerOctets
  const isTransactional = controls.transactional ?? true
  const headers = readFields(message.headers, { isTransactional, maxOctets }, dropped)
  const reportType = readReportType(message.headers)
  const request: SendRequest = {
    ...controls,
    ...readBodies(message, hasTemplate),
    ...readSender(message, envelope.mailFrom, dropped),
    to: recipients.to,
    cc: recipients.cc,
    bcc: recipients.bcc,
    subject: readSubject(message, dropped) || (hasTemplate ? '' : NO_SUBJECT),
    headers,
    attachments: toAttachments(message.attachments, dropped),
  }
  dropRepeated(message.headers, dropped)
  const messageId = message.messageId && MESSAGE_ID.test(message.messageId) ? message.messageId : undefined
  if (messageId === undefined && valuesOf(message.headers, 'message-id').length > 0) dropped.add('Message-ID')
  if (message.dateMs === null && valuesOf(message.headers, 'date').length > 0) dropped.add('Date')
  return {
    /** Its headers may be more and longer than acceptance allows; `complete` adds them. */
    request,
    idempotencyKey,
    messageId,
    /** Names of what is not sent. */
    dropped: Array.from(dropped, (name) => name.slice(0, MAX_SHOWN_LENGTH)),
    /** Adds to the draft what a request cannot say. */
    complete: (draft: Draft): Draft => ({
      ...draft,
      extra: {
        ...draft.extra,
        headers: { ...headers, [HOPS_FIELD]: String(hops + 1) },
        ...(messageId !== undefined && { message_id: messageId }),
        ...(message.dateMs !== null && { date: message.dateMs }),
        ...(reportType && { report_type: reportType }),
        ...(recipients.alsoTo.length > 0 && { also_to: recipients.alsoTo }),
        ...(recipients.alsoCc.length > 0 && { also_cc: recipients.alsoCc }),
      },
    }),
  }
}

/** Throws if the message is in a loop. */
function countHops(fields: Fields): number {
  const passed = valuesOf(fields, HOPS_FIELD.toLowerCase()).map(Number).filter(Number.isSafeInteger)
  const hops = valuesOf(fields, 'received').length + Math.max(0, ...passed)
  if (hops > MAX_HOPS) throw new AppError(422, 'mail_loop', `Too many hops: the message has passed ${hops} servers.`)
  return hops
}

/** The type of a report (RFC 6522), whose readers look for it. */
function readReportType(fields: Fields): string | undefined {
  const { value, parameters } = parseStructuredField(valuesOf(fields, 'content-type')[0] ?? '')
  const { octets = '' } = parameters.get('report-type') ?? {}
  return value.toLowerCase() === 'multipart/report' && /^[\w-]{1,60}$/.test(octets) ? octets : undefined
}

/** Empty bodies are left to a template; without one, mail without text is sent as such. */
function readBodies({ text, html }: ParsedMessage, hasTemplate: boolean): Pick<SendRequest, 'text_body' | 'html_body'> {
  const isEmpty = (body: string | null): boolean => body === null || body.trim() === ''
  if (isEmpty(text) && isEmpty(html)) return hasTemplate ? {} : { text_body: '\n' }
  return {
    ...(text !== null && !isEmpty(text) && { text_body: text }),
    ...(html !== null && !isEmpty(html) && { html_body: html }),
  }
}

/** The envelope decides who gets the message, the header what To and Cc show. */
function assignRecipients(message: ParsedMessage, envelope: readonly string[], dropped: Set<string>) {
  const remaining = new Map(envelope.map((address) => [normaliseAddress(address), address]))
  const shown = new Set<string>()
  const assign = (field: string, text: string | null): { own: string[]; also: string[] } => {
    const own: string[] = []
    const also: string[] = []
    for (const mailbox of readMailboxes(field, text, dropped)) {
      const key = normaliseAddress(mailbox.address)
      if (shown.has(key)) continue
      shown.add(key)
      const target = remaining.delete(key) ? own : also
      target.push(formatMailbox(mailbox))
    }
    return { own, also }
  }
  const to = assign('To', message.to)
  const cc = assign('Cc', message.cc)
  const hidden = [...remaining.values()]
  // A header without any address, such as "To: root", would leave To empty: a single recipient is shown there.
  const isAlone = shown.size === 0 && hidden.length === 1
  return {
    to: isAlone ? hidden : to.own,
    cc: cc.own,
    bcc: isAlone ? [] : hidden,
    // Mailboxes in the header that are not in the envelope: they get the message otherwise.
    alsoTo: to.also,
    alsoCc: cc.also,
  }
}

function toAttachments(
  parts: readonly ParsedAttachment[],
  dropped: Set<string>,
): NonNullable<SendRequest['attachments']> {
  const ids = new Set<string>()
  for (const [index, part] of parts.entries()) if (index >= MAX_ATTACHMENTS) dropped.add(toFilename(part, index))
  return parts.slice(0, MAX_ATTACHMENTS).map((part, index) => {
    const { contentId } = part
    const hasId = contentId !== null && CONTENT_ID.test(contentId) && !ids.has(contentId)
    if (hasId) ids.add(contentId)
    return {
      filename: mendFilename(toFilename(part, index), part.contentType, dropped),
      content: Buffer.from(part.content.buffer, part.content.byteOffset, part.content.length).toString('base64'),
      content_type: part.form?.contentType ?? part.contentType,
      ...(part.form?.isAlternative && { alternative: true }),
      ...(hasId && { content_id: contentId }),
    }
  })
}

function toFilename({ filename, contentType }: ParsedAttachment, index: number): string {
  const name = filename?.slice(0, MAX_FILENAME_LENGTH) ?? ''
  if (name !== '') return name
  return `attachment-${index + 1}.${toExtension(contentType)}`
}

function toExtension(contentType: string): string {
  const extension = contentType === 'message/rfc822' ? 'eml' : detectExtension(contentType)
  return /^\w+$/.test(extension) && !isForbiddenFile(`.${extension}`) ? extension : 'bin'
}

/** Receivers reject a name that looks like a program; with another extension the file arrives, and runs nowhere. */
function mendFilename(name: string, contentType: string, dropped: Set<string>): string {
  if (!isForbiddenFile(name)) return name
  dropped.add(`the name ${name}`)
  return `${name.slice(0, MAX_FILENAME_LENGTH - 20)}.${toExtension(contentType)}`
}
