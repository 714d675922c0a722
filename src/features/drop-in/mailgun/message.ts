/**
 * @module Translates a message in Mailgun's form into send requests. With `recipient-variables` each recipient in `to`
 * gets an email of its own, in which the variables are replaced; without, all are in one email. Throws AppError 422.
 */
import { type Draft, isReservedHeader } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { invalid } from '#platform/errors.ts'
import { measureJson } from '#platform/http/json.ts'
import { isJsonObject, type JsonObject, parseJsonObject, withoutUndefined } from '#platform/json-object.ts'
import type { Millis } from '#platform/units.ts'
import {
  domainOfMailbox,
  formatMailbox,
  type Mailbox,
  normaliseAddress,
  parseMailbox,
  parseMailboxList,
} from '#protocols/address/parse.ts'
import { parseDate } from '#protocols/mime/header-fields.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { translateMessage } from '../submission/translate.ts'
import type { Call } from './route.ts'

const MAX_BATCH = 1000
/** In the metadata of an email: the domain of the request, where that is not the one of From. */
export const REQUEST_DOMAIN = 'mailgun-domain'

const OPTIONS =
  'to recipient-variables o:tag o:tracking o:tracking-opens o:tracking-clicks o:deliverytime o:testmode o:require-tls'
const FIELDS = new Set(`${OPTIONS} from cc bcc subject text html template t:variables attachment inline`.split(' '))
const MIME_FIELDS = new Set(`${OPTIONS} message`.split(' '))
/** Links and addresses that Mailgun makes, by which readers leave. */
const UNSUBSCRIBE = /%(?:mailing_list_|tag_)?unsubscribe_(?:url|email)%/
const VARIABLE = /%recipient(?:\.([\w.-]{1,100})|_(email|name|fname|lname))?%/g
/** Of newsletters of Ghost, which repeats batches after an error: ids of MongoDB. */
const GHOST_ID = /^[0-9a-f]{24}$/
/** Fields of a request that may have several lines. */
const WITH_LINES = ['html_body', 'text_body', 'template_data', 'metadata']

export interface BatchRecipient {
  /** By which acceptance counts recipients. */
  readonly to: string
  readonly mailbox: Mailbox
  readonly variables: JsonObject
}

export interface Message {
  /** What all emails share; in a batch without recipients, and with variables. */
  readonly request: SendRequest
  /** Undefined: one email to all. */
  readonly batch: readonly BatchRecipient[] | undefined
  /** The client's Message-ID, with variables; undefined: one of ours. */
  readonly messageId: string | undefined
  readonly isTest: boolean
  /** Of one email that came as a whole message: adds its header, in place of `headers`. */
  readonly complete: ((draft: Draft) => Draft) | undefined
}

/** The texts of a field, without empty ones. */
const textsOf = (form: FormData, name: string): string[] =>
  (form.getAll(name) as (string | File)[]).filter((value) => typeof value === 'string').filter((text) => text !== '')

/** The last text of a field, as in Mailgun. */
const textOf = (form: FormData, name: string): string | undefined => textsOf(form, name).at(-1)

/** @param parsed the message, if it came as a whole: the form has its recipients and options */
export async function readMessage(call: Call, form: FormData, parsed?: ParsedMessage): Promise<Message> {
  const { app, domain, request: http, ignored } = call
  if (readFlag(form, 'o:require-tls'))
    throw invalid('o:require-tls', 'o:require-tls is not available; MTA-STS and DANE of the recipients demand TLS.')
  const to = readMailboxes(form, 'to')
  if (to.length === 0) throw invalid('to', 'Set "to" to at least one address.')
  if (to.length > MAX_BATCH) throw invalid('to', `"to" has ${to.length} addresses; at most ${MAX_BATCH} are allowed.`)
  const mime = parsed && translateMessage(parsed, { mailFrom: '', recipients: to.map(({ address }) => address) })
  for (const name of mime?.dropped ?? []) ignored.add(name)
  const { headers, metadata, replyTo, messageId, variables, idempotencyKey } = readPrefixed(form, ignored, !mime)
  const content = mime?.request ?? (await readContent(form, to, variables))
  const unavailable = UNSUBSCRIBE.exec(content.html_body ?? '') ?? UNSUBSCRIBE.exec(content.text_body ?? '')
  if (unavailable)
    throw invalid(
      'html',
      `${unavailable[0]} is not available; put a link of your own there, or set h:List-Unsubscribe.`,
    )
  if (content.from !== '' && domainOfMailbox(content.from) !== domain) metadata[REQUEST_DOMAIN] = domain
  const batch = readBatch(form, to)
  if (batch && !mime && [content.cc, content.bcc].flat().length > 0)
    throw invalid('cc', 'cc and bcc cannot be combined with recipient-variables; put every recipient into "to".')
  const tags = [...(content.tags ?? []), ...textsOf(form, 'o:tag')]
  const id = metadata['email-id'] ?? ''
  const isOfGhost = batch && tags.includes('ghost-email') && tags.includes('bulk-email') && GHOST_ID.test(id)
  const ghostKey = isOfGhost ? `ghost ${domain} ${id}` : undefined
  const request = withoutUndefined<SendRequest>({
    ...{ ...content, ...(batch && { to: [], cc: [], bcc: [] }), tags },
    ...{ reply_to: content.reply_to ?? replyTo, headers: content.headers ?? headers },
    ...{
      metadata: { ...(content.metadata as JsonObject), ...metadata },
      tracking: readTracking(form) ?? content.tracking,
    },
    send_at: readTime(form, app.clock.now()) ?? content.send_at,
    idempotency_key: http.headers.get('idempotency-key') ?? idempotencyKey ?? mime?.idempotencyKey ?? ghostKey,
  })
  return {
    ...{
      request,
      batch,
      messageId: messageId ?? (batch && mime?.messageId),
      complete: batch ? undefined : mime?.complete,
    },
    isTest: readFlag(form, 'o:testmode') ?? false,
  }
}

/** What a message is that comes in fields. */
async function readContent(form: FormData, to: readonly Mailbox[], variables?: JsonObject): Promise<SendRequest> {
  const [html, text, template] = ['html', 'text', 'template'].map((name) => textOf(form, name))
  const [from] = readMailboxes(form, 'from')
  const [cc = [], bcc = []] = ['cc', 'bcc'].map((name) => readMailboxes(form, name).map(formatMailbox))
  return {
    ...{ from: from ? formatMailbox(from) : '', to: to.map(formatMailbox), cc, bcc },
    ...{ subject: textOf(form, 'subject') ?? '', attachments: await readFiles(form) },
    ...(html !== undefined && { html_body: html }),
    ...(text !== undefined && { text_body: text }),
    ...(template && { template_alias: template, template_data: { ...readJson(form, 't:variables'), ...variables } }),
  }
}

/** Counts characters of filled texts; throws when there are too many. */
type Take = (characters: number) => void

/** The send request of one recipient of a batch. */
export function fillMessage({ request }: Message, recipient: BatchRecipient, take: Take): SendRequest {
  const { attachments = [], idempotency_key: key, ...rest } = request
  const { mailbox } = recipient
  for (const { content } of attachments ?? []) take(content.length)
  const fill = createFill(recipient, take)
  const filled = Object.entries(rest).map(([field, value]) => [field, fill(value, WITH_LINES.includes(field))])
  return {
    ...{ ...(Object.fromEntries(filled) as SendRequest), attachments, to: [formatMailbox(mailbox)] },
    idempotency_key: key ? `mailgun:${sha256(`${key}\n${normaliseAddress(mailbox.address)}`).toHex()}` : null,
  }
}

/**
 * Creates a function that replaces the variables in all texts of a value, as they are: nothing is escaped in HTML, as in
 * Mailgun. Those without a value stay. Without `hasLines`, line ends become blanks, since a header must not have any.
 */
export function createFill({ mailbox, variables }: BatchRecipient, take: Take) {
  const { address: email, name = '' } = mailbox
  const [fname = '', ...rest] = name.split(' ')
  const own: JsonObject = { recipient: formatMailbox(mailbox), email, name, fname, lname: rest.join(' ') }
  const fill = (value: unknown, hasLines = false): unknown => {
    if (Array.isArray(value)) return value.map((item) => fill(item, hasLines))
    if (isJsonObject(value))
      return Object.fromEntries(Object.entries(value).map(([field, item]) => [field, fill(item, hasLines)]))
    if (typeof value !== 'string') return value
    take(value.length)
    return value.replace(VARIABLE, (literal, named: string | undefined, system: string | undefined) => {
      const known =
        named === undefined ? own[system ?? 'recipient'] : Object.hasOwn(variables, named) ? variables[named] : literal
      const text = typeof known === 'object' && known !== null ? JSON.stringify(known) : String(known ?? '')
      take(text.length)
      return hasLines ? text : toLine(text)
    })
  }
  return fill
}

const toLine = (text: string): string => text.replace(/[\r\n]+/g, ' ')

/** The recipients with their variables; undefined without `recipient-variables`. */
function readBatch(form: FormData, to: readonly Mailbox[]): BatchRecipient[] | undefined {
  const given = readJson(form, 'recipient-variables')
  if (!given) return undefined
  const field = 'recipient-variables'
  const none: JsonObject = {}
  const recipients = new Map(
    to.map((mailbox) => [normaliseAddress(mailbox.address), { to: mailbox.address, mailbox, variables: none }]),
  )
  for (const [address, variables] of Object.entries(given)) {
    const recipient = recipients.get(normaliseAddress(address.trim()))
    const name = address.slice(0, 100)
    if (!recipient) throw invalid(field, `${field} has "${name}", which is not in "to".`)
    if (!isJsonObject(variables)) throw invalid(field, `${field}: the value of "${name}" must be a JSON object.`)
    recipient.variables = variables
  }
  return [...recipients.values()]
}

/** The mailboxes of a field: each value is one, or several separated by commas. */
const readMailboxes = (form: FormData, field: string): Mailbox[] =>
  textsOf(form, field).flatMap((text) => {
    const parsed = parseMailboxList(text)
    if (parsed.kind === 'ok') return parsed.mailboxes
    // A list may be longer than one of a header. Without quotes every comma ends an address.
    return (text.includes('"') ? [text] : text.split(',', MAX_BATCH + 1)).map((part) => {
      const mailbox = parseMailbox(part.trim())
      if (mailbox.kind === 'ok') return mailbox
      throw invalid(field, `'${field}' parameter is not a valid address. ${mailbox.reason}`, 'invalid_address')
    })
  })

/** The fields of which a client chooses the name: headers (`h:`), and its own data (`v:`). */
function readPrefixed(form: FormData, ignored: Set<string>, hasFields: boolean) {
  // Any name is a field, also `__proto__`.
  const headers: Record<string, string> = Object.create(null)
  const metadata: Record<string, string> = Object.create(null)
  let [replyTo, messageId, idempotencyKey, variables]: [string?, string?, string?, JsonObject?] = []
  for (const field of new Set(form.keys())) {
    const value = textOf(form, field)
    const name = field.slice(2)
    const key = name.toLowerCase()
    if (field.startsWith('v:')) metadata[name] = value ?? ''
    else if (!field.startsWith('h:')) (hasFields ? FIELDS : MIME_FIELDS).has(field) || ignored.add(field)
    else if (value === undefined) continue
    else if (key === 'x-tassis-idempotency-key') idempotencyKey = value
    else if (!hasFields) ignored.add(field)
    else if (key === 'reply-to') replyTo = value
    else if (key === 'message-id') messageId = value.trim()
    else if (key === 'x-mailgun-variables') variables = readJson(form, field)
    else if (isReservedHeader(name) || /^x-(?:tassis|mailgun)-/.test(key)) ignored.add(field)
    else {
      // Ghost adds an address of Mailgun's own to its link.
      const urls = key === 'list-unsubscribe' ? value.split(',').filter((url) => !UNSUBSCRIBE.test(url)) : [value]
      if (urls.length > 0) headers[name] = toLine(urls.join(',')).trim()
    }
  }
  return { headers, metadata, replyTo, messageId, variables, idempotencyKey }
}

function readJson(form: FormData, name: string): JsonObject | undefined {
  const text = textOf(form, name)
  if (text !== undefined) measureJson(text)
  const value = text === undefined ? undefined : parseJsonObject(text)
  if (text !== undefined && !value) throw invalid(name, `${name} must be a JSON object, such as {"name": "Ada"}.`)
  return value
}

function readFlag(form: FormData, name: string, allowsHtmlOnly = false): boolean | undefined {
  const text = textOf(form, name)?.toLowerCase()
  if (text === undefined) return undefined
  if (text === 'yes' || text === 'true' || (allowsHtmlOnly && text === 'htmlonly')) return true
  if (text === 'no' || text === 'false') return false
  throw invalid(name, `${name} must be yes, no, true${allowsHtmlOnly ? ', false or htmlonly' : ' or false'}.`)
}

/** Undefined: as the account is set. Links of a text are never tracked, so `htmlonly` is the same as `yes`. */
function readTracking(form: FormData): SendRequest['tracking'] {
  const all = readFlag(form, 'o:tracking', true)
  const [opens = all, clicks = all] = [readFlag(form, 'o:tracking-opens'), readFlag(form, 'o:tracking-clicks', true)]
  if (all === false || opens === clicks) return all === false ? false : opens
  return { ...(opens !== undefined && { opens }), ...(clicks !== undefined && { clicks }) }
}

/** RFC 3339. Undefined for a time that has passed, too, since a repeated request may come later than planned. */
function readTime(form: FormData, now: Millis): string | undefined {
  const text = textOf(form, 'o:deliverytime')
  if (text === undefined) return undefined
  const at = /^\d{9,11}$/.test(text) ? Number(text) * 1000 : parseDate(text)
  if (at === null) throw invalid('o:deliverytime', 'o:deliverytime must be like Fri, 14 Oct 2011 23:10:10 +0000.')
  return at <= now ? undefined : new Date(at).toISOString()
}

async function readFiles(form: FormData): Promise<NonNullable<SendRequest['attachments']>> {
  const parts = ['attachment', 'inline'].flatMap((field) => form.getAll(field).map((part) => ({ field, part })))
  return await Promise.all(
    parts.map(async ({ field, part }) => {
      if (typeof part === 'string') throw invalid(field, `${field} must be a file: a part with a file name.`)
      const { name, type } = part as File
      const content = Buffer.from(await (part as File).arrayBuffer()).toString('base64')
      const content_id = field === 'inline' ? name : null
      return { filename: name || 'file', content, content_type: type || null, content_id }
    }),
  )
}
