/**
 * @module Translates an email of Resend's interface into a send request of ours. Strict about what would change the
 * mail, lenient about what its clients send without need: unknown fields, headers that repeat a field. The response names
 * what is left out.
 */
import { parseDate } from 'chrono-node/en'
import { isReservedHeader } from '#features/sending/accept/draft.ts'
import { findTemplateById } from '#features/setup/templates/templates.ts'
import { splitTag } from '#features/webhooks/webhooks/payload/resend-payload.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { parseDateTime } from '#platform/time/date-time.ts'
import type { Millis } from '#platform/units.ts'
import { type Call, ignoreUnknown } from '../dialects/routes.ts'
import { requireTopic } from './contact-routes.ts'
import { missingField } from './dialect.ts'

export interface RemoteFile {
  readonly index: number
  readonly url: string
}

export interface TranslatedEmail {
  /** Not checked yet: our names of fields, with the values that the client sent. */
  readonly request: JsonObject & { readonly attachments?: readonly JsonObject[] }
  /** Files whose content is missing in `request`. */
  readonly remoteFiles: readonly RemoteFile[]
}

const FIELDS =
  'from to cc bcc reply_to subject html text headers tags attachments scheduled_at template topic_id'.split(' ')
const TEMPLATE_FIELDS = ['id', 'variables', 'locale']
const ATTACHMENT_FIELDS = ['filename', 'content', 'path', 'content_type', 'content_id']

/** Throws a 422 for what cannot be translated. Fields of a wrong type pass: the check of our request names them. */
export function translateEmail(email: unknown, call: Call): TranslatedEmail {
  if (!isJsonObject(email))
    throw invalid('email', 'An email must be a JSON object with from, to, subject and html or text.')
  const template = readTemplate(email['template'], call)
  requireFields(email, template !== undefined)
  const reply = toList(email['reply_to'])
  const topicId = isGiven(email['topic_id']) ? String(email['topic_id']) : undefined
  ignoreUnknown(call, email, FIELDS)
  const { headers, locale } = translateHeaders(email['headers'], call, reply !== undefined, topicId === undefined)
  const files = translateAttachments(email['attachments'], call)
  const sendAt = toSendAt(email['scheduled_at'], call.app.clock.now())
  const tags = translateTags(email['tags'])
  const request = {
    from: email['from'],
    to: email['to'],
    cc: toList(email['cc']),
    bcc: toList(email['bcc']),
    reply_to: Array.isArray(reply) && reply.every((one) => typeof one === 'string') ? reply.join(', ') : reply,
    subject: email['subject'],
    html_body: email['html'],
    text_body: email['text'],
    headers,
    tags,
    send_at: sendAt,
    template_alias: template?.alias,
    template_data: template?.variables,
    locale: template && (locale ?? template.locale),
    // Only such mail is stopped when its recipient leaves the stream.
    ...(topicId !== undefined && {
      stream: requireTopic(call.app, call.accountId, topicId).slug,
      transactional: false,
    }),
    ...(files && { attachments: files.attachments }),
  }
  return { request: withoutUndefined(request), remoteFiles: files?.remoteFiles ?? [] }
}

/** Longer than any phrase that a person writes; limits what the patterns of the parser may cost. */
const MAX_WORDS_LENGTH = 80

/**
 * The time of `scheduled_at` in the form of our own interface: a date and time, or English words such as "in 1 min" or
 * "tomorrow at 9am" (UTC); undefined for none. Throws a 422 for words that name no time.
 */
export function toSendAt(value: unknown, now: Millis): string | undefined {
  if (!isGiven(value)) return undefined
  const text = typeof value === 'string' ? value.trim() : ''
  const words = text.length <= MAX_WORDS_LENGTH ? text : ''
  const at =
    parseDateTime(text, 'any') ??
    parseDate(words, { instant: new Date(now), timezone: 'UTC' }, { forwardDate: true })?.getTime()
  if (at !== undefined) return isoTime(at)
  throw invalid(
    'scheduled_at',
    'scheduled_at must be a date and time with a zone, such as 2026-11-21T09:30:00Z, or words such as "in 1 min" or "tomorrow at 9am", which are read as UTC.',
  )
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null && value !== ''

/** Throws a 422 that names the first required field without a value. */
function requireFields(email: JsonObject, hasTemplate: boolean): void {
  const required = hasTemplate ? ['from', 'to'] : ['from', 'to', 'subject']
  const missing = required.find((name) => !isGiven(email[name]))
  if (missing !== undefined) throw missingField(missing, hasTemplate ? HINTS[missing] : undefined)
  if (!hasTemplate && !isGiven(email['html']) && !isGiven(email['text']))
    throw missingField('html', 'Set html, text or both, or name a template.')
}

const HINTS: Readonly<Record<string, string>> = { from: 'Templates of this service have no sender.' }

/** One value or several, without the empty ones; undefined for none. */
function toList(value: unknown): readonly unknown[] | undefined {
  const list = (Array.isArray(value) ? value : [value]).filter(isGiven)
  return list.length === 0 ? undefined : list
}

/** Chooses the language of a template: the client sends all headers, but no field of a template that it does not know. */
const LOCALE_HEADER = /^x-tassis-locale$/i

/**
 * Joins values that are lists. Drops the headers that the service writes itself, because clients repeat fields as
 * headers, and Reply-To if the field is set.
 */
function translateHeaders(
  value: unknown,
  { ignored }: Call,
  hasReplyTo: boolean,
  isTransactional: boolean,
): { headers: unknown; locale?: unknown } {
  if (!isJsonObject(value)) return { headers: value ?? undefined }
  const isDropped = (name: string) =>
    isReservedHeader(name, isTransactional) || (hasReplyTo && name.toLowerCase() === 'reply-to')
  const kept = Object.entries(value).filter(
    ([name, text]) => isGiven(text) && !isDropped(name) && !LOCALE_HEADER.test(name),
  )
  for (const name of Object.keys(value)) if (isDropped(name)) ignored.add(`headers.${name}`)
  return {
    headers: Object.fromEntries(kept.map(([name, text]) => [name, Array.isArray(text) ? text.join(', ') : text])),
    locale: Object.entries(value).find(([name]) => LOCALE_HEADER.test(name))?.[1],
  }
}

/** A tag with name and value is the text `name:value` here; `{header: value}`, from some clients, is the value. */
function translateTags(value: unknown): unknown {
  if (!Array.isArray(value)) return value ?? undefined
  return value.map((tag) => {
    if (!isJsonObject(tag)) return tag
    const { name, value: text } = tag
    if (typeof name === 'string' && typeof text !== 'object') return isGiven(text) ? `${name}:${text}` : name
    const values = Object.values(tag)
    return values.length === 1 ? values[0] : tag
  })
}

/** The tags of an email as this interface has them; see `translateTags`. */
export const toTagPairs = (tags: readonly string[]): { name: string; value: string }[] =>
  tags.map(splitTag).map(([name, value]) => ({ name, value }))

function readTemplate(
  value: unknown,
  call: Call,
): { readonly alias: string; readonly locale: unknown; readonly variables: unknown } | undefined {
  if (!isGiven(value)) return undefined
  const id = isJsonObject(value) ? value['id'] : undefined
  if (!isJsonObject(value) || typeof id !== 'string' || id === '')
    throw invalid('template.id', 'template must be an object with id, the id or alias of a template, and variables.')
  ignoreUnknown(call, value, TEMPLATE_FIELDS, 'template.')
  const named = findTemplateById(call.db, call.accountId, id)
  const locale = value['locale'] ?? named?.locale ?? undefined
  return { alias: named?.alias ?? id, locale, variables: value['variables'] ?? undefined }
}

function translateAttachments(
  value: unknown,
  call: Call,
): { attachments: Record<string, unknown>[]; remoteFiles: RemoteFile[] } | undefined {
  if (!isGiven(value)) return undefined
  if (!Array.isArray(value)) throw invalid('attachments', 'attachments must be an array of objects.')
  const remoteFiles: RemoteFile[] = []
  const attachments = value.map((attachment: unknown, index): Record<string, unknown> => {
    const field = `attachments.${index}`
    if (!isJsonObject(attachment)) throw invalid(field, `${field} must be an object with filename and content or path.`)
    const { content, path, filename, content_type: contentType, content_id: contentId } = attachment
    const isRemote = !isGiven(content) && typeof path === 'string' && path !== ''
    if (!isRemote && !isGiven(content))
      throw invalid(field, `${field} must have content, the file in base64, or path, its URL.`)
    if (isRemote) remoteFiles.push({ index, url: path })
    ignoreUnknown(call, attachment, ATTACHMENT_FIELDS, 'attachments.')
    return withoutUndefined({
      filename: filename || (isRemote ? lastSegment(path) : undefined) || `attachment-${index + 1}`,
      content: isRemote ? undefined : toBase64(content),
      content_type: contentType ?? undefined,
      content_id: contentId ?? undefined,
    })
  })
  return { attachments, remoteFiles }
}

function lastSegment(url: string): string | undefined {
  const segment = URL.parse(url)?.pathname.split('/').at(-1) ?? ''
  try {
    return decodeURIComponent(segment).slice(0, 255) || undefined
  } catch {
    return segment.slice(0, 255)
  }
}

/** Content in base64; clients also send the octets as a list, or as a serialised Buffer. */
function toBase64(content: unknown): unknown {
  const octets = isJsonObject(content) && content['type'] === 'Buffer' ? content['data'] : content
  return Array.isArray(octets) && octets.every((octet) => Number.isInteger(octet))
    ? Buffer.from(octets as number[]).toString('base64')
    : content
}

const withoutUndefined = <T extends Record<string, unknown>>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as T
