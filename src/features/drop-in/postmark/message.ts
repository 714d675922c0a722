/**
 * @module Translates a message in Postmark's form into a send request. Checks types and address lists; everything else
 * is checked at acceptance. Pure; throws AppError 422 with Postmark's names of the fields.
 */

import { type Static, Type } from '@sinclair/typebox'
import { isReservedHeader } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import type { TemplateName } from '#features/setup/templates/templates.ts'
import { isMarketingStream, toSlug } from '#features/webhooks/webhooks/payload/postmark.ts'
import { invalid } from '#platform/errors.ts'
import { FreeMap, mapFromPhp } from '#platform/http/schemas.ts'
import { createCheck, invalidFields } from '#platform/http/validation.ts'
import { isJsonObject, withoutUndefined } from '#platform/json-object.ts'
import { formatMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { createFieldReader } from './route.ts'

const MAX_SHOWN_LENGTH = 200
const TRACK_LINKS = ['None', 'HtmlAndText', 'HtmlOnly', 'TextOnly']
export const IDEMPOTENCY_HEADER = 'x-tassis-idempotency-key'

const Scalar = Type.Union([Type.String(), Type.Number(), Type.Boolean()], { errorMessage: 'a string' })

const Header = Type.Object({ Name: Type.String(), Value: Scalar })
const Attachment = Type.Object({
  Name: Type.String(),
  Content: Type.String(),
  ContentType: Type.Optional(Type.String()),
  ContentID: Type.Optional(Type.String()),
})

export const Message = Type.Partial(
  Type.Object({
    From: Type.String(),
    To: Type.String(),
    Cc: Type.String(),
    Bcc: Type.String(),
    ReplyTo: Type.String(),
    Subject: Type.String(),
    HtmlBody: Type.String(),
    TextBody: Type.String(),
    Tag: Type.String(),
    Metadata: FreeMap(),
    MessageStream: Type.String(),
    TrackOpens: Type.Boolean(),
    TrackLinks: Type.String(),
    Headers: Type.Array(Header),
    Attachments: Type.Array(Attachment),
    TemplateId: Type.Union([Type.Integer(), Type.String()], { errorMessage: 'a number' }),
    TemplateAlias: Type.String(),
    TemplateModel: FreeMap(),
    Locale: Type.String(),
  }),
)
type Message = Static<typeof Message>

const findProblems = createCheck(Message, 'message')
const readFields = createFieldReader(
  Object.keys(Message.properties),
  'A message must be a JSON object with From, To and Subject.',
)
const readHeader = createFieldReader(['Name', 'Value'], 'A header must be {"Name": "X-Own", "Value": "text"}.')
const readAttachment = createFieldReader(
  // The client sends its own count of octets, which the content shows as well.
  ['Name', 'Content', 'ContentType', 'ContentID', 'ContentLength'],
  'An attachment must be {"Name": "a.txt", "Content": "base64", "ContentType": "text/plain"}.',
)

/** What a result of Postmark repeats of an accepted message. */
export function readShown(value: unknown): Pick<Message, 'To' | 'Cc' | 'Bcc'> {
  const { To, Cc, Bcc } = readFields(value, new Set()) as Message
  return { ...(To && { To }), ...(Cc && { Cc }), ...(Bcc && { Bcc }) }
}

export interface TranslateOptions {
  readonly isTemplated: boolean
  readonly ignored: Set<string>
  /** Alias and locale of the account's template with a number; a text that is no number is taken as an alias. */
  readonly findTemplate: (templateId: number | string) => TemplateName
}

export function translateMessage(value: unknown, options: TranslateOptions): SendRequest {
  const { ignored, isTemplated } = options
  const message = readMessage(value, ignored)
  const { Subject, HtmlBody, TextBody, ReplyTo, Tag, Metadata, MessageStream } = message
  const { headers, idempotencyKey } = readHeaders(message, ignored)
  return withoutUndefined<SendRequest>({
    from: readSender(message.From),
    ...readRecipients(message),
    ...(isTemplated
      ? readTemplate(message, options)
      : { subject: Subject, html_body: HtmlBody || undefined, text_body: TextBody || undefined }),
    reply_to: ReplyTo ? readList('ReplyTo', ReplyTo).join(', ') : undefined,
    tags: Tag ? [Tag] : undefined,
    metadata: Metadata && mapFromPhp(Metadata),
    stream: MessageStream ? toSlug(MessageStream) : undefined,
    transactional: isMarketingStream(MessageStream) ? false : undefined,
    headers,
    idempotency_key: idempotencyKey,
    attachments: message.Attachments?.map(toAttachment),
    tracking: readTracking(message),
  })
}

function readMessage(value: unknown, ignored: Set<string>): Message {
  const fields = readFields(value, ignored)
  const { Headers, Attachments } = fields
  if (Array.isArray(Headers)) fields['Headers'] = Headers.map((item) => readHeader(item, ignored, 'Headers.'))
  if (Array.isArray(Attachments))
    fields['Attachments'] = Attachments.map((item) => readAttachment(item, ignored, 'Attachments.'))
  const problems = findProblems(fields)
  if (problems.length > 0) throw invalidFields(problems)
  return fields as Message
}

function readTemplate(
  { TemplateId, TemplateAlias, TemplateModel, Locale }: Message,
  { findTemplate }: TranslateOptions,
): Partial<SendRequest> {
  // Postmark prefers the number, too. Some clients send 0 for none.
  const { alias, locale } = TemplateId ? findTemplate(TemplateId) : { alias: TemplateAlias, locale: null }
  if (!alias) throw invalid('TemplateAlias', 'Set TemplateId or TemplateAlias.', 'template_missing')
  return {
    template_alias: alias,
    locale: Locale || locale,
    template_data: withoutNulls(mapFromPhp(TemplateModel ?? {})),
  }
}

/** A null in a model counts as left out in Postmark; here templates would print it. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, item]) => (item === null ? [] : [[name, withoutNulls(item)]])),
  )
}

const toAttachment = ({ Name, Content, ContentType, ContentID }: Static<typeof Attachment>) => ({
  filename: Name,
  content: Content,
  ...(ContentType && { content_type: ContentType }),
  ...(ContentID && { content_id: ContentID.replace(/^cid:/i, '') }),
})

const cut = (text: string): string => (text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}…` : text)

/** Clients find the address in this sentence. */
const invalidAddress = (field: string, text: string, reason: string) =>
  invalid(field, `Invalid '${field}' address: '${cut(text)}'. ${reason}`, 'invalid_address')

function readList(field: string, text: string | undefined): string[] {
  if (text === undefined || text.trim() === '') return []
  const parsed = parseMailboxList(text)
  if (parsed.kind === 'invalid') throw invalidAddress(field, text, parsed.reason)
  return parsed.mailboxes.map(formatMailbox)
}

function readSender(text = ''): string {
  const [from, ...others] = readList('From', text)
  if (from === undefined) throw invalidAddress('From', text, 'Set From to an address of one of your domains.')
  if (others.length > 0) throw invalidAddress('From', text, 'From must be one address.')
  return from
}

/**
 * The recipients by kind. A message needs somebody in To: without, the Cc recipients are put there, or a single Bcc
 * recipient, since nobody else sees that address.
 */
function readRecipients(message: Message): Pick<SendRequest, 'to' | 'cc' | 'bcc'> {
  const to = readList('To', message.To)
  const cc = readList('Cc', message.Cc)
  const bcc = readList('Bcc', message.Bcc)
  if (to.length > 0) return { to, cc, bcc }
  if (cc.length > 0) return { to: cc, bcc }
  if (bcc.length === 1) return { to: bcc }
  if (bcc.length === 0) throw invalid('To', 'Zero recipients specified: set To.')
  throw invalid('To', 'A message with several Bcc recipients needs an address in To, such as that of From.')
}

/** Undefined: as the account is set. Links of a text are never tracked. */
function readTracking({ TrackOpens: opens, TrackLinks }: Message): SendRequest['tracking'] {
  if (TrackLinks && !TRACK_LINKS.includes(TrackLinks))
    throw invalid('TrackLinks', `TrackLinks must be one of ${TRACK_LINKS.join(', ')}.`)
  if (opens === undefined && !TrackLinks) return undefined
  return { ...(opens !== undefined && { opens }), ...(TrackLinks && { clicks: TrackLinks.startsWith('Html') }) }
}

/**
 * The extra headers, and the idempotency key among them. Leaves out headers that the service writes itself: Postmark
 * writes them too.
 */
function readHeaders({ Headers = [], ReplyTo, MessageStream }: Message, ignored: Set<string>) {
  const isMarketing = isMarketingStream(MessageStream)
  const headers = new Map<string, string>()
  const seen = new Set<string>()
  let idempotencyKey: string | undefined
  for (const { Name, Value } of Headers) {
    const name = Name.toLowerCase()
    if (seen.has(name)) throw invalid('Headers', `The header ${cut(Name)} must be set only once.`)
    seen.add(name)
    const isWritten = isReservedHeader(Name, !isMarketing) || (name === 'reply-to' && Boolean(ReplyTo))
    if (name === IDEMPOTENCY_HEADER) idempotencyKey = String(Value)
    else if (isWritten) ignored.add(`Headers.${Name}`)
    else headers.set(Name, String(Value))
  }
  return { headers: Object.fromEntries(headers), idempotencyKey }
}
