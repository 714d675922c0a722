/** @module Turns a send request into a draft: all checks without a database. Pure; throws 422 with the field. */
import type { App } from '#features/core/app/app.ts'
import type { DraftExtra, DraftRecipient, Idempotency, NewEmail } from '#features/sending/queue/email.ts'
import { parseLocale } from '#features/setup/templates/locale.ts'
import { serialiseData } from '#features/setup/templates/render.ts'
import type { TemplateName } from '#features/setup/templates/templates.ts'
import { invalid } from '#platform/errors.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import { parseDateTime } from '#platform/time/date-time.ts'
import { days, KiB, MiB, type Millis, minutes } from '#platform/units.ts'
import {
  formatMailbox,
  normaliseAddress,
  parseMailbox,
  parseMailboxList,
  unfoldWords,
} from '#protocols/address/parse.ts'
import { isMailboxField } from '#protocols/mime/fields.ts'
import { hasOneClickUrl, ONE_CLICK, readUnsubscribeUrls } from '#protocols/mime/list-unsubscribe.ts'
import { decodeAttachments, requireHeaderSafe } from './attachments.ts'
import type { SendRequest } from './model.ts'

export interface Draft extends NewEmail {
  readonly fromDomain: string
  readonly stream: string
  /** Renders the parts missing in the request (`renderDraft`); the draft must not be stored before that. */
  readonly template?: TemplateName | undefined
}

export const MAX_SUBJECT_LENGTH = 998
/** Of text and HTML each: such a body takes tens of milliseconds to compose, and Gmail clips messages at 102 KB. */
const MAX_BODY_BYTES = 2 * MiB
/** Of one email; an octet of a header counts with its name, a byte of the metadata as JSON. */
export const EMAIL_LIMITS = {
  headers: 50,
  headerOctets: 998,
  tags: 20,
  tagCharacters: 128,
  metadataBytes: 16 * KiB,
} as const
const PAST_TOLERANCE_MS = minutes(5)
const MAX_SEND_AT_AHEAD_MS = days(366)

/** RFC 5322 §3.6, RFC 6376. */
const RESERVED_HEADER =
  /^(from|to|cc|bcc|subject|date|message-id|return-path|received|sender|mime-.*|dkim-.*|content-.*|list-unsubscribe-(?!post$).*)$/i
const UNSUBSCRIBE_HEADER = /^list-unsubscribe(?:-post)?$/i
/**
 * Whether the service writes a header itself, from the fields of the request or without them. RFC 2369, RFC 8058: in
 * transactional mail the client may set the headers of unsubscription.
 */
export const isReservedHeader = (name: string, isTransactional = true): boolean =>
  RESERVED_HEADER.test(name) || (!isTransactional && UNSUBSCRIBE_HEADER.test(name))

/** To, Cc and Bcc of one email. */
export const MAX_RECIPIENTS = 50

/** RFC 5322 §2.2: printable ASCII except colon and space. */
export const HEADER_NAME = /^[!-9;-~]{1,76}$/

/** Checks a send request and creates its draft. */
export function createDraft(app: App, request: SendRequest, idempotency?: Idempotency): Draft {
  const from = requireMailbox('from', request.from)
  const recipients = parseRecipients(request)
  // Some clients send an empty string for an absent subject or body.
  const subject = request.subject ?? ''
  const html = request.html_body || undefined
  const text = request.text_body || undefined
  const alias = request.template_alias || undefined
  const locale = parseLocale(request.locale, alias !== undefined)
  const { tracking } = request
  if (alias === undefined) requireContent({ subject, html, text })
  else requireVariables(request.template_data)
  requireSubject(subject)
  return {
    from: formatMailbox(from),
    fromDomain: from.domain,
    recipients,
    subject,
    html: encodeBody('html_body', html),
    text: encodeBody('text_body', text),
    attachments: decodeAttachments(request, app.config.maxAttachmentBytes),
    scheduledAt: parseSendAt(request.send_at ?? undefined, app.clock.now()),
    stream: request.stream ?? 'transactional',
    tracking: typeof tracking === 'boolean' ? { opens: tracking, clicks: tracking } : (tracking ?? undefined),
    transactional: request.transactional ?? true,
    ...(alias === undefined ? {} : { template: { alias, locale } }),
    idempotency,
    extra: parseExtra(request, idempotency?.key),
  }
}

/** Fills the missing parts with rendered ones. Throws a 422 if subject or body is still missing or not allowed. */
export function fillDraft(draft: Draft, templateId: number, parts: RenderedParts): Draft {
  const { template, ...rest } = draft
  const filled = {
    ...rest,
    templateId,
    subject: draft.subject || (parts.subject ?? ''),
    html: draft.html ?? encodeBody('html_body', parts.html || undefined),
    text: draft.text ?? encodeBody('text_body', parts.text || undefined),
  }
  requireContent(filled, template)
  requireSubject(filled.subject)
  return filled
}

/** Throws if the body is too large. */
function encodeBody(field: 'html_body' | 'text_body', body: string | undefined): Buffer | undefined {
  if (body === undefined) return undefined
  const bytes = Buffer.from(body)
  if (bytes.length > MAX_BODY_BYTES)
    throw invalid(
      field,
      `${field} must have at most ${MAX_BODY_BYTES} bytes in UTF-8; it has ${bytes.length}. ` +
        'Shorten it, or attach the long part as a file.',
    )
  return bytes
}

/** Throws if the subject or body is missing. With `template`, the error says that this template renders none. */
function requireContent(
  { subject, html, text }: { readonly subject: string; readonly html: unknown; readonly text: unknown },
  template?: Draft['template'],
): void {
  const rendersNo = (part: string) => `The template "${template?.alias}" renders no ${part} with this template_data`
  if (subject === '')
    throw invalid(
      'subject',
      template ? `${rendersNo('subject')}.` : 'A subject is required unless a template renders one.',
    )
  if (html !== undefined || text !== undefined) return
  throw invalid(
    'text_body',
    template
      ? `${rendersNo('body')}; add one to it, or set text_body or html_body.`
      : 'A body is required: set text_body, html_body or both.',
  )
}

function requireSubject(subject: string): void {
  requireHeaderSafe('subject', subject)
  if (subject !== '' && subject.trim() === '')
    throw invalid(
      'subject',
      'The subject must not be only white space; set one, or omit it to use that of the template.',
    )
  if (subject.length > MAX_SUBJECT_LENGTH)
    throw invalid('subject', `The subject has ${subject.length} characters; at most ${MAX_SUBJECT_LENGTH} are allowed.`)
}

/** `template_data` is stored without a schema, but variables need names. */
function requireVariables(templateData: unknown): void {
  if (!isEmpty(templateData) && !isNonEmptyMap(templateData))
    throw invalid('template_data', 'template_data must be a JSON object: the names and values of the variables.')
}

function requireMailbox(field: string, text: string) {
  // Other interfaces take several recipients in one string. Here the first ones would count as a name of the last.
  const list = field !== 'from' && text.includes(',') ? parseMailboxList(text) : undefined
  const refuse = (problem: string) => invalid(field, `${field}: ${problem}`, 'invalid_address')
  if (list?.kind === 'ok' && list.mailboxes.length > 1)
    throw refuse('Several addresses must be an array of strings, with one address each.')
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw refuse(parsed.reason)
  return parsed
}

/** All recipients, To first; a repeated address keeps its first position. */
function parseRecipients(request: SendRequest): DraftRecipient[] {
  const lists = (['to', 'cc', 'bcc'] as const).map((kind) => {
    const given = request[kind] ?? []
    return typeof given === 'string'
      ? // Some clients send an empty string for none.
        { kind, list: given === '' && kind !== 'to' ? [] : [given], fieldAt: () => kind }
      : { kind, list: given, fieldAt: (index: number) => `${kind}.${index}` }
  })
  const count = lists.reduce((sum, { list }) => sum + list.length, 0)
  // A list may be ten times as long as the limit, because it may contain duplicates. A longer list is rejected before
  // it is parsed.
  if (count > MAX_RECIPIENTS * 10) throw createTooManyRecipientsError(count)
  const byKey = new Map<string, DraftRecipient>()
  for (const { kind, list, fieldAt } of lists) {
    for (const [index, text] of list.entries()) {
      const parsed = requireMailbox(fieldAt(index), text)
      const { address, domain, name } = parsed
      const key = normaliseAddress(address)
      const mailbox = name === undefined ? undefined : formatMailbox(parsed)
      if (!byKey.has(key)) byKey.set(key, { kind, address, domain, mailbox })
    }
  }
  if (byKey.size > MAX_RECIPIENTS) throw createTooManyRecipientsError(byKey.size)
  return [...byKey.values()]
}

const createTooManyRecipientsError = (count: number) =>
  invalid(
    'to',
    `The email has ${count} recipients in to, cc and bcc; at most ${MAX_RECIPIENTS} are allowed. Send several emails or a batch.`,
    'too_many_recipients',
  )

/** Returns undefined for now. Throws a 422 for a time that is not allowed. */
export function parseSendAt(text: string | undefined, now: Millis): Millis | undefined {
  if (text === undefined) return undefined
  const refuse = (problem: string) => invalid('send_at', problem, 'invalid_send_at')
  const at = parseDateTime(text, 'zoned')
  if (at === undefined) throw refuse('send_at must be a date and time with a zone, such as 2026-11-21T09:30:00Z.')
  if (at < now - PAST_TOLERANCE_MS) throw refuse('send_at is in the past; omit it to send now.')
  if (at > now + MAX_SEND_AT_AHEAD_MS) throw refuse('send_at must be within 366 days.')
  return at <= now ? undefined : at
}

function parseExtra(request: SendRequest, idempotencyKey: string | undefined): DraftExtra {
  const headers = parseHeaders(request.headers, request.transactional ?? true)
  const tags = parseTags(request.tags ?? [])
  const metadata = parseMetadata(request.metadata)
  const templateData = parseTemplateData(request.template_data)
  if (request.reply_to && headers) requireSingleReplyTo(headers)
  return {
    ...(request.reply_to ? { reply_to: parseMailboxes('reply_to', request.reply_to) } : {}),
    ...(headers ? { headers: requireValidUnsubscribe(headers) } : {}),
    ...(metadata === undefined ? {} : { metadata }),
    ...(tags.length > 0 ? { tags } : {}),
    ...(idempotencyKey === undefined ? {} : { idempotency_key: idempotencyKey }),
    ...(templateData ? { template_data: templateData } : {}),
    ...(typeof request.expires_in === 'number' ? { expires_in: request.expires_in } : {}),
  }
}

/** PHP sends an empty map as `[]`. */
const isNonEmptyMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)

function parseMailboxes(field: string, text: string): string {
  requireHeaderSafe(field, unfoldWords(text))
  const parsed = parseMailboxList(text)
  if (parsed.kind === 'invalid') throw invalid(field, `${field}: ${parsed.reason}`, 'invalid_address')
  return parsed.mailboxes.map(formatMailbox).join(', ')
}

function parseHeaders(value: unknown, isTransactional: boolean): Record<string, string> | undefined {
  if (isEmpty(value)) return undefined
  if (!isNonEmptyMap(value)) throw invalid('headers', 'headers must be a map of header names to values.')
  const entries = Object.entries(value)
  if (entries.length > EMAIL_LIMITS.headers)
    throw invalid('headers', `There are ${entries.length} headers; at most ${EMAIL_LIMITS.headers} are allowed.`)
  const seen = new Set<string>()
  return Object.fromEntries(
    entries.map(([name, headerValue]) => {
      const field = `headers.${name.slice(0, 80)}`
      if (!HEADER_NAME.test(name))
        throw invalid('headers', 'A header name must have 1 to 76 printable ASCII characters, without colon or space.')
      const own = `The header ${name} is written by the service`
      if (isReservedHeader(name)) throw invalid(field, `${own}; use the field for it instead.`, 'reserved_header')
      if (isReservedHeader(name, isTransactional))
        throw invalid(
          field,
          `${own} when transactional is false; omit it, or send with transactional: true.`,
          'reserved_header',
        )
      if (seen.has(name.toLowerCase())) throw invalid(field, `The header ${name} must be set only once.`)
      seen.add(name.toLowerCase())
      if (typeof headerValue !== 'string' && typeof headerValue !== 'number' && typeof headerValue !== 'boolean') {
        throw invalid(field, 'A header value must be a string, a number or a boolean.')
      }
      const given = String(headerValue)
      // RFC 2369 §2: clients fold it, as in a message.
      const text = UNSUBSCRIBE_HEADER.test(name) ? given.replaceAll(/\r?\n(?=[ \t])/g, '') : given
      requireHeaderSafe(field, text)
      if (Buffer.byteLength(text) + name.length + 2 > EMAIL_LIMITS.headerOctets)
        throw invalid(field, `The header must have at most ${EMAIL_LIMITS.headerOctets} octets.`)
      if (isMailboxField(name)) parseMailboxes(field, text)
      return [name, text]
    }),
  )
}

/** Returns headers with List-Unsubscribe in its usual form; throws if it or List-Unsubscribe-Post is not valid. */
function requireValidUnsubscribe(headers: Readonly<Record<string, string>>): Record<string, string> {
  const findHeader = (lowerName: string) =>
    Object.entries(headers).find(([name]) => name.toLowerCase() === lowerName) ?? []
  const [name = '', value] = findHeader('list-unsubscribe')
  const { urls, isValid } = readUnsubscribeUrls(value ?? '')
  if (value !== undefined && !isValid)
    throw invalid(
      `headers.${name}`,
      'List-Unsubscribe must be URLs in angle brackets, separated by commas, such as <https://example.com/leave?u=1>, <mailto:leave@example.com>.',
    )
  const [postName, post] = findHeader('list-unsubscribe-post')
  if (post !== undefined && post.trim() !== ONE_CLICK)
    throw invalid(`headers.${postName}`, `List-Unsubscribe-Post must be ${ONE_CLICK}.`)
  if (post !== undefined && !hasOneClickUrl(urls))
    throw invalid(
      `headers.${postName}`,
      'List-Unsubscribe-Post needs a List-Unsubscribe with an https URL; add one, or omit List-Unsubscribe-Post.',
    )
  return value === undefined ? headers : { ...headers, [name]: urls }
}

/** RFC 5322 §3.6: at most one Reply-To. */
function requireSingleReplyTo(headers: Readonly<Record<string, string>>): void {
  const name = Object.keys(headers).find((header) => header.toLowerCase() === 'reply-to')
  if (name !== undefined)
    throw invalid(`headers.${name}`, 'Set Reply-To only once: as the field reply_to or as a header.')
}

function parseTags(tags: readonly string[]): string[] {
  if (tags.length > EMAIL_LIMITS.tags)
    throw invalid('tags', `There are ${tags.length} tags; at most ${EMAIL_LIMITS.tags} are allowed.`)
  tags.forEach((tag, index) => {
    if (tag.length === 0 || tag.length > EMAIL_LIMITS.tagCharacters)
      throw invalid(`tags.${index}`, `Each tag must have 1 to ${EMAIL_LIMITS.tagCharacters} characters.`)
    requireHeaderSafe(`tags.${index}`, tag)
  })
  return [...new Set(tags)]
}

function parseMetadata(value: unknown): Record<string, unknown> | undefined {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return undefined
  if (typeof value !== 'object' || Array.isArray(value)) throw invalid('metadata', 'metadata must be a JSON object.')
  if (Buffer.byteLength(JSON.stringify(value)) > EMAIL_LIMITS.metadataBytes)
    throw invalid('metadata', `metadata must have at most ${EMAIL_LIMITS.metadataBytes} bytes of JSON.`)
  return value as Record<string, unknown>
}

function parseTemplateData(value: unknown): Record<string, unknown> | undefined {
  if (!isNonEmptyMap(value)) return undefined
  serialiseData(value)
  return value
}
