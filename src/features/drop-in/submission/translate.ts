/**
 * @module Translates a submitted message (RFC 6409) into a send request: the message is not passed on but rebuilt, so
 * that it has one form, our signature and our tracking. Pure; throws AppError 422 with the header field.
 */
import addressparser from 'nodemailer/lib/addressparser'
import { detectExtension } from 'nodemailer/lib/mime-funcs'
import type { Draft } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { formatMailbox, type Mailbox, normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import type { ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'
import { type Fields, HOPS_FIELD, isControlField, readControls } from './control-headers.ts'

export interface Translation {
  readonly request: SendRequest
  readonly idempotencyKey: string | undefined
  /** Adds to the draft what a request cannot say. */
  complete(draft: Draft): Draft
}

/** More Received fields mean that the message goes in circles (RFC 5321 §6.3). */
const MAX_HOPS = 100
/** Mailboxes of To and of Cc that are read. */
const MAX_MAILBOXES = 1000
/** Of a line with its name (RFC 5322 §2.1.1). */
const MAX_REFERENCES_LENGTH = 998 - 'References: '.length
const MAX_FILENAME_LENGTH = 255
const NO_SUBJECT = '(no subject)'

/** Fields that may occur once (RFC 5322 §3.6); with two, readers would disagree about which counts. */
const SINGLE_FIELDS = ['from', 'subject', 'date', 'message-id', 'reply-to', 'content-type']
/**
 * Fields that the service writes, and traces of the way to it: they are not passed on. A signature of the client's does
 * not fit the new message.
 */
const DROPPED_FIELD =
  /^(?:from|sender|to|cc|bcc|subject|date|message-id|reply-to|mime-.*|content-.*|received|received-spf|return-path|delivered-to|x-original-to|resent-.*|dkim-signature|domainkey-signature|arc-.*|authentication-results)$/i
/** A message in one of these forms is worthless once it is rebuilt. */
const SEALED_TYPE = /^\s*(multipart\/(?:signed|encrypted)|application\/(?:x-)?pkcs7-mime)\b/i
/** The form that composing accepts; RFC 5322 §3.6.4. */
const MESSAGE_ID = /^<[!-;=?-~]{1,250}>$/
/** Of a part that the HTML can refer to. */
const CONTENT_ID = /^[!-;=?-~]{1,255}$/

/** @param envelope recipients of the session, each once, at least one */
export function translateMessage(message: ParsedMessage, envelope: readonly string[]): Translation {
  const { headers } = message
  const hops = countHops(headers)
  requireRebuildable(headers)
  const { idempotencyKey, ...controls } = readControls(headers)
  const hasTemplate = controls.template_alias !== undefined
  const recipients = assignRecipients(message, envelope)
  const request: SendRequest = {
    ...controls,
    ...readBodies(message, hasTemplate),
    from: readFrom(message),
    to: recipients.to,
    cc: recipients.cc,
    bcc: recipients.bcc,
    subject: message.subject || (hasTemplate ? '' : NO_SUBJECT),
    ...(message.replyTo && { reply_to: message.replyTo }),
    headers: readHeaders(headers),
    attachments: toAttachments(message.attachments),
  }
  return {
    request,
    idempotencyKey,
    complete: (draft) => ({
      ...draft,
      extra: {
        ...draft.extra,
        headers: { ...draft.extra.headers, [HOPS_FIELD]: String(hops + 1) },
        ...(message.messageId && MESSAGE_ID.test(message.messageId) && { message_id: message.messageId }),
        ...(message.dateMs !== null && { date: message.dateMs }),
        ...(recipients.alsoTo.length > 0 && { also_to: recipients.alsoTo }),
        ...(recipients.alsoCc.length > 0 && { also_cc: recipients.alsoCc }),
      },
    }),
  }
}

const valuesOf = (fields: Fields, lowerName: string): string[] =>
  fields.filter(([name]) => name.toLowerCase() === lowerName).map(([, value]) => value)

/** Throws if the message is in a loop. */
function countHops(fields: Fields): number {
  const passed = valuesOf(fields, HOPS_FIELD.toLowerCase()).map(Number).filter(Number.isSafeInteger)
  const hops = valuesOf(fields, 'received').length + Math.max(0, ...passed)
  if (hops > MAX_HOPS) throw new AppError(422, 'mail_loop', `Too many hops: the message has passed ${hops} servers.`)
  return hops
}

function requireRebuildable(fields: Fields): void {
  for (const name of SINGLE_FIELDS)
    if (valuesOf(fields, name).length > 1) throw invalid(name, `The header ${name} must be set only once.`)
  const [, type] = SEALED_TYPE.exec(valuesOf(fields, 'content-type')[0] ?? '') ?? []
  if (type !== undefined)
    throw invalid(
      'content-type',
      `A message of type ${type} cannot be sent, because the service rebuilds messages, which breaks their seal; send it unsealed, or the sealed part as an attachment.`,
    )
}

/** The one mailbox of From (RFC 5322 §3.6.2). */
function readFrom({ from, fromAddresses }: ParsedMessage): string {
  if (from === null || from === '') throw invalid('from', 'The header From is missing; it must be one address.')
  if (fromAddresses.length > 1)
    throw invalid('from', `The header From has ${fromAddresses.length} addresses; it must have one.`)
  return from
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

interface AssignedRecipients {
  readonly to: string[]
  readonly cc: string[]
  readonly bcc: string[]
  /** Mailboxes in the header that are not in the envelope: they get the message otherwise. */
  readonly alsoTo: string[]
  readonly alsoCc: string[]
}

/** The envelope decides who gets the message, the header what To and Cc show. */
function assignRecipients(message: ParsedMessage, envelope: readonly string[]): AssignedRecipients {
  const remaining = new Map(envelope.map((address) => [normaliseAddress(address), address]))
  const shown = new Set<string>()
  const assign = (text: string | null): { own: string[]; also: string[] } => {
    const own: string[] = []
    const also: string[] = []
    for (const mailbox of readMailboxes(text)) {
      const key = normaliseAddress(mailbox.address)
      if (shown.has(key)) continue
      shown.add(key)
      const target = remaining.delete(key) ? own : also
      target.push(formatMailbox(mailbox))
    }
    return { own, also }
  }
  const to = assign(message.to)
  const cc = assign(message.cc)
  const hidden = [...remaining.values()]
  // A header without any address, such as "To: root", would leave To empty: a single recipient is shown there.
  const isAlone = shown.size === 0 && hidden.length === 1
  return {
    to: isAlone ? hidden : to.own,
    cc: cc.own,
    bcc: isAlone ? [] : hidden,
    alsoTo: to.also,
    alsoCc: cc.also,
  }
}

/** Leaves out what is no address, such as `undisclosed-recipients:;` and local names. */
function readMailboxes(text: string | null): Mailbox[] {
  if (text === null) return []
  return addressparser(text, { flatten: true })
    .slice(0, MAX_MAILBOXES)
    .flatMap(({ name, address = '' }) => {
      const named = parseMailbox(name ? `"${name.replaceAll(/["\\]/g, '\\$&')}" <${address}>` : address)
      const parsed = named.kind === 'ok' ? named : parseMailbox(address)
      return parsed.kind === 'ok' ? [parsed] : []
    })
}

/** The client's other fields; of a repeated field the first. */
function readHeaders(fields: Fields): Record<string, string> {
  const kept = new Map<string, readonly [name: string, value: string]>()
  for (const [name, value] of fields) {
    const key = name.toLowerCase()
    if (DROPPED_FIELD.test(name) || isControlField(name) || kept.has(key) || value === '') continue
    kept.set(key, [name, key === 'references' ? shortenReferences(value) : value])
  }
  return Object.fromEntries(kept.values())
}

/** A long thread does not fit a line: the first id, which names the thread, and the last ones stay. */
function shortenReferences(value: string): string {
  const [first = '', ...ids] = value.split(/\s+/)
  let length = first.length
  const last: string[] = []
  for (const id of ids.toReversed()) {
    length += id.length + 1
    if (length > MAX_REFERENCES_LENGTH) break
    last.unshift(id)
  }
  return [first, ...last].join(' ')
}

function toAttachments(parts: readonly ParsedAttachment[]): NonNullable<SendRequest['attachments']> {
  const ids = new Set<string>()
  return parts.map((part, index) => {
    const { contentId } = part
    const hasId = contentId !== null && CONTENT_ID.test(contentId) && !ids.has(contentId)
    if (hasId) ids.add(contentId)
    return {
      filename: toFilename(part, index),
      content: Buffer.from(part.content.buffer, part.content.byteOffset, part.content.length).toString('base64'),
      content_type: part.contentType,
      ...(hasId && { content_id: contentId }),
    }
  })
}

function toFilename({ filename, contentType }: ParsedAttachment, index: number): string {
  const name = filename?.slice(0, MAX_FILENAME_LENGTH) ?? ''
  if (name !== '') return name
  const extension = contentType === 'message/rfc822' ? 'eml' : detectExtension(contentType)
  return `attachment-${index + 1}.${extension || 'bin'}`
}
