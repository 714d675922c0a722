/**
 * @module From a send request to a draft: everything that can be decided without the database. Pure; throws AppError 422 with the field at fault.
 */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { sha256 } from '#platform/crypto.ts'
import { invalid } from '#platform/errors.ts'
import { days, KiB, minutes } from '#platform/units.ts'
import { formatMailbox, normaliseAddress, parseMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import type { SendRequest } from './model.ts'
import type { RecipientKind } from './status.ts'

export interface DraftRecipient {
  readonly kind: RecipientKind
  readonly address: string
  /** A-label, lower case: where it is routed. */
  readonly domain: string
  /** Header form when it says more than the address. */
  readonly mailbox: string | undefined
}

export interface DraftAttachment {
  readonly filename: string
  readonly contentType: string
  readonly content: Uint8Array
}

export interface Draft {
  readonly from: string
  readonly fromDomain: string
  readonly recipients: readonly DraftRecipient[]
  readonly subject: string
  readonly html: Uint8Array | undefined
  readonly text: Uint8Array | undefined
  readonly attachments: readonly DraftAttachment[]
  /** Undefined: now. */
  readonly scheduledAt: Millis | undefined
  readonly stream: string
  readonly tracking: boolean | undefined
  readonly transactional: boolean
  readonly idempotency:
    | { readonly key: string; readonly keyHash: Uint8Array; readonly bodyHash: Uint8Array }
    | undefined
  readonly extra: DraftExtra
}

/** What few emails have; kept as JSON. */
export interface DraftExtra {
  readonly reply_to?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly metadata?: unknown
  readonly tags?: readonly string[]
  readonly idempotency_key?: string
  readonly template_data?: unknown
}

const MOST_SUBJECT_CHARACTERS = 998
const LONGEST_HEADER_OCTETS = 998
const MOST_HEADERS = 50
const MOST_TAGS = 20
const LONGEST_TAG = 128
const MOST_METADATA_BYTES = 16 * KiB
const PAST_TOLERANCE_MS = minutes(5)
const FURTHEST_MS = days(366)

/** Attachments that receivers refuse outright, and that no sender of ours should be known for. */
const FORBIDDEN_EXTENSIONS = new Set(['exe', 'bat', 'cmd', 'scr', 'com', 'msi', 'js', 'vbs', 'ws', 'ps1'])

/** Headers that the service writes itself. RFC 5322 §3.6, RFC 6376, RFC 2369. */
const RESERVED_HEADER =
  /^(from|to|cc|bcc|subject|date|message-id|return-path|received|sender|mime-version|dkim-.*|content-.*|list-unsubscribe.*)$/i

const FORBIDDEN_CHARACTERS = /[\r\n\0]/

/**
 * Checks a send request and gives the draft of it.
 * @param idempotencyHeader value of the header `Idempotency-Key`, which means the same as the body's field
 */
export function draftOf(app: App, request: SendRequest, idempotencyHeader: string | undefined): Draft {
  if (request.template_alias)
    throw invalid(
      'template_alias',
      `There is no template with the alias "${request.template_alias}".`,
      'template_not_found',
    )
  const from = senderOf(request.from)
  const recipients = recipientsOf(request, app.config.maxRecipients)
  const subject = request.subject ?? ''
  if (request.subject === undefined || request.subject === null)
    throw invalid('subject', 'A subject is required unless a template gives one.')
  headerSafe('subject', subject)
  if (subject.length > MOST_SUBJECT_CHARACTERS)
    throw invalid(
      'subject',
      `The subject has ${subject.length} characters; at most ${MOST_SUBJECT_CHARACTERS} are allowed.`,
    )
  const html = request.html_body ?? undefined
  const text = request.text_body ?? undefined
  if (html === undefined && text === undefined)
    throw invalid('text_body', 'A body is required: give text_body, html_body or both.')
  return {
    from: from.mailbox,
    fromDomain: from.domain,
    recipients,
    subject,
    html: html === undefined ? undefined : Buffer.from(html),
    text: text === undefined ? undefined : Buffer.from(text),
    attachments: attachmentsOf(request, app.config.maxAttachmentBytes),
    scheduledAt: scheduledAtOf(request.send_at ?? undefined, app.clock.now()),
    stream: request.stream ?? 'transactional',
    tracking: request.tracking ?? undefined,
    transactional: request.transactional ?? true,
    idempotency: idempotencyOf(request, idempotencyHeader),
    extra: extraOf(request),
  }
}

function headerSafe(field: string, value: string): void {
  if (FORBIDDEN_CHARACTERS.test(value)) throw invalid(field, `${field} must not contain line breaks or NUL characters.`)
}

function mailboxOf(field: string, text: string) {
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid(field, `${field}: ${parsed.reason}`, 'invalid_address')
  return parsed
}

function senderOf(text: string): { mailbox: string; domain: string } {
  const parsed = mailboxOf('from', text)
  return { mailbox: formatMailbox(parsed), domain: parsed.domain }
}

/** All recipients, To first; an address that comes twice keeps its first place. */
function recipientsOf(request: SendRequest, most: number): DraftRecipient[] {
  const lists: [RecipientKind, readonly string[]][] = [
    ['to', typeof request.to === 'string' ? [request.to] : request.to],
    ['cc', request.cc ?? []],
    ['bcc', request.bcc ?? []],
  ]
  const given = lists.reduce((sum, [, list]) => sum + list.length, 0)
  // Ten times as many as allowed may be duplicates of each other; more are not even parsed.
  if (given > most * 10) throw tooManyRecipients(given, most)
  const byKey = new Map<string, DraftRecipient>()
  for (const [kind, list] of lists) {
    for (const [index, text] of list.entries()) {
      const field = kind === 'to' && typeof request.to === 'string' ? 'to' : `${kind}.${index}`
      const parsed = mailboxOf(field, text)
      const key = normaliseAddress(parsed.address)
      if (byKey.has(key)) continue
      byKey.set(key, {
        kind,
        address: parsed.address,
        domain: parsed.domain,
        mailbox: parsed.name === undefined ? undefined : formatMailbox(parsed),
      })
    }
  }
  if (byKey.size > most) throw tooManyRecipients(byKey.size, most)
  return [...byKey.values()]
}

const tooManyRecipients = (given: number, most: number) =>
  invalid(
    'to',
    `The email has ${given} recipients in to, cc and bcc; at most ${most} are allowed. Send several emails or a batch.`,
    'too_many_recipients',
  )

function attachmentsOf(request: SendRequest, mostBytes: number): DraftAttachment[] {
  let total = 0
  return (request.attachments ?? []).map((attachment, index) => {
    const field = `attachments.${index}`
    headerSafe(`${field}.filename`, attachment.filename)
    headerSafe(`${field}.content_type`, attachment.content_type)
    const extension = attachment.filename.split('.').pop()?.trim().toLowerCase() ?? ''
    if (attachment.filename.includes('.') && FORBIDDEN_EXTENSIONS.has(extension)) {
      throw invalid(
        `${field}.filename`,
        `Files of type .${extension} are not accepted, because receivers refuse them; send a link or an archive.`,
        'attachment_type_forbidden',
      )
    }
    if (!isBase64(attachment.content))
      throw invalid(`${field}.content`, 'The content is not valid base64.', 'invalid_base64')
    const content = Buffer.from(attachment.content, 'base64')
    total += content.length
    if (total > mostBytes)
      throw invalid(
        'attachments',
        `The attachments are larger than ${mostBytes} bytes together.`,
        'attachments_too_large',
      )
    return { filename: attachment.filename, contentType: attachment.content_type, content }
  })
}

const BASE64_CHARACTERS = /^[A-Za-z0-9+/\s]*={0,2}\s*$/
const WHITE_SPACE = /\s/

/** RFC 4648 §4, with line breaks as MIME encoders make them. */
function isBase64(text: string): boolean {
  if (!BASE64_CHARACTERS.test(text)) return false
  const digits = WHITE_SPACE.test(text) ? text.replace(/\s+/g, '') : text
  return digits.length % 4 === 0
}

function scheduledAtOf(text: string | undefined, now: Millis): Millis | undefined {
  if (text === undefined) return undefined
  const at = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})$/i.test(text)
    ? Date.parse(text.replace(' ', 'T'))
    : Number.NaN
  if (Number.isNaN(at))
    throw invalid(
      'send_at',
      'send_at must be a date and time with a zone, such as 2026-11-21T09:30:00Z.',
      'invalid_send_at',
    )
  if (at < now - PAST_TOLERANCE_MS)
    throw invalid('send_at', 'send_at is in the past; omit it to send now.', 'invalid_send_at')
  if (at > now + FURTHEST_MS) throw invalid('send_at', 'send_at is more than a year ahead.', 'invalid_send_at')
  return at <= now ? undefined : at
}

function idempotencyOf(request: SendRequest, header: string | undefined): Draft['idempotency'] {
  const fromBody = request.idempotency_key ?? undefined
  if (header !== undefined && fromBody !== undefined && header !== fromBody) {
    throw invalid(
      'idempotency_key',
      'The header Idempotency-Key and the field idempotency_key differ; give one of them.',
      'idempotency_key_mismatch',
    )
  }
  const key = fromBody ?? header
  if (key === undefined) return undefined
  if (key.length === 0 || key.length > 256)
    throw invalid('idempotency_key', 'An idempotency key has 1 to 256 characters.')
  const { idempotency_key: _, ...rest } = request
  return { key, keyHash: sha256(key).slice(0, 16), bodyHash: sha256(canonicalJson(rest)).slice(0, 16) }
}

/** JSON with sorted keys and without what is null or missing: equal for requests that mean the same. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, v: unknown) =>
    typeof v === 'object' && v !== null && !Array.isArray(v)
      ? Object.fromEntries(
          Object.entries(v)
            .filter(([, item]) => item !== null)
            .sort(([a], [b]) => (a < b ? -1 : 1)),
        )
      : v,
  )
}

function extraOf(request: SendRequest): DraftExtra {
  const headers = headersOf(request.headers)
  const tags = tagsOf(request.tags ?? [])
  const metadata = metadataOf(request.metadata)
  return {
    ...(request.reply_to ? { reply_to: replyToOf(request.reply_to) } : {}),
    ...(headers ? { headers } : {}),
    ...(metadata === undefined ? {} : { metadata }),
    ...(tags.length > 0 ? { tags } : {}),
    ...(request.idempotency_key ? { idempotency_key: request.idempotency_key } : {}),
    ...(isFilledMap(request.template_data) ? { template_data: request.template_data } : {}),
  }
}

/** PHP sends an empty map as `[]`. */
const isFilledMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0

const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || (typeof value === 'object' && Object.keys(value).length === 0)

function replyToOf(text: string): string {
  headerSafe('reply_to', text)
  const parsed = parseMailboxList(text)
  if (parsed.kind === 'invalid') throw invalid('reply_to', `reply_to: ${parsed.reason}`, 'invalid_address')
  return parsed.mailboxes.map(formatMailbox).join(', ')
}

function headersOf(value: unknown): Record<string, string> | undefined {
  if (isNothing(value)) return undefined
  if (!isFilledMap(value)) throw invalid('headers', 'headers must be a map of header names to values.')
  const entries = Object.entries(value)
  if (entries.length > MOST_HEADERS)
    throw invalid('headers', `There are ${entries.length} headers; at most ${MOST_HEADERS} are allowed.`)
  const seen = new Set<string>()
  return Object.fromEntries(
    entries.map(([name, given]) => {
      const field = `headers.${name.slice(0, 80)}`
      // RFC 5322 §2.2: printable ASCII but colon and space.
      if (!/^[!-9;-~]{1,76}$/.test(name))
        throw invalid('headers', 'A header name is 1 to 76 printable ASCII characters without colon or space.')
      if (RESERVED_HEADER.test(name))
        throw invalid(
          field,
          `The header ${name} is written by the service; use the field for it instead.`,
          'reserved_header',
        )
      if (seen.has(name.toLowerCase())) throw invalid(field, `The header ${name} is given twice.`)
      seen.add(name.toLowerCase())
      if (typeof given !== 'string' && typeof given !== 'number' && typeof given !== 'boolean') {
        throw invalid(field, 'A header value must be a string, a number or a boolean.')
      }
      const text = String(given)
      headerSafe(field, text)
      if (Buffer.byteLength(text) + name.length + 2 > LONGEST_HEADER_OCTETS)
        throw invalid(field, `The header is longer than ${LONGEST_HEADER_OCTETS} octets.`)
      return [name, text]
    }),
  )
}

function tagsOf(tags: readonly string[]): string[] {
  if (tags.length > MOST_TAGS) throw invalid('tags', `There are ${tags.length} tags; at most ${MOST_TAGS} are allowed.`)
  tags.forEach((tag, index) => {
    if (tag.length === 0 || tag.length > LONGEST_TAG)
      throw invalid(`tags.${index}`, `A tag has 1 to ${LONGEST_TAG} characters.`)
    headerSafe(`tags.${index}`, tag)
  })
  return [...new Set(tags)]
}

function metadataOf(value: unknown): unknown {
  if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return undefined
  if (typeof value !== 'object' || Array.isArray(value)) throw invalid('metadata', 'metadata must be a JSON object.')
  if (Buffer.byteLength(JSON.stringify(value)) > MOST_METADATA_BYTES)
    throw invalid('metadata', `metadata is larger than ${MOST_METADATA_BYTES} bytes of JSON.`)
  return value
}
