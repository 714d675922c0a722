/** @module /postmark/messages: stored emails with their events, and received ones, in the form of Postmark's messages. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import type { EventData } from '#features/core/events/record.ts'
import {
  getInbound,
  type InboundEmail,
  inboundStatusName,
  listInbound,
} from '#features/receiving/inbound/api/inbound-emails.ts'
import {
  getEmail,
  listEmails,
  readEmailEvents,
  type StoredEmail,
  type StoredRecipient,
} from '#features/sending/emails/read.ts'
import { parseSearch, searchEmails } from '#features/sending/emails/search-list.ts'
import { emailRowWire, isBodyHidden, type RenderBodies, readEmailBodies } from '#features/sending/emails/wire.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import { isOpen, type Status } from '#features/sending/queue/status.ts'
import { toMetadataTexts, toSlug, toStreamName } from '#features/webhooks/webhooks/payload/postmark.ts'
import { prepareStatements, type RowKey } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import { parseMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { type Call, isInTime, on, readTimes, readWindow } from './route.ts'

const sql = prepareStatements((db) => ({
  // Deleted streams keep their row.
  slug: db.prepare<{ slug: string }, [Uint8Array]>('SELECT slug FROM streams WHERE uuid = ?'),
}))

/** The name of a stream as clients of Postmark know it; empty for none. */
const readStreamName = (db: Database, uuid: Uint8Array | null): string =>
  uuid === null ? '' : toStreamName(sql(db).slug.get(uuid)?.slug ?? '')

function toRecipient({ address, mailbox }: StoredRecipient) {
  const parsed = mailbox === null ? undefined : parseMailbox(mailbox)
  return { Email: address, Name: parsed?.kind === 'ok' ? (parsed.name ?? '') : '' }
}

/** Postmark knows no status of an email that bounced: it was sent, and has a bounce. */
function toStatus({ status }: StoredEmail): string {
  if (isOpen(status)) return 'Queued'
  if (status === 'cancelled') return 'Cancelled'
  return status === 'failed' || status === 'rejected' ? 'Failed' : 'Sent'
}

export function toOutboundMessage(db: Database, email: StoredEmail) {
  // The number of attempts is not shown.
  const { id, tags, metadata, attachments } = emailRowWire(email, () => 0)
  const ofKind = (kind: StoredRecipient['kind']) => email.recipients.filter((r) => r.kind === kind).map(toRecipient)
  const { opens = false, clicks = false } = email.trackingOverride ?? {}
  return {
    ...{ MessageID: id, ReceivedAt: isoTime(email.createdAt), Tag: tags[0] ?? '' },
    ...{ From: email.from, To: ofKind('to'), Cc: ofKind('cc'), Bcc: ofKind('bcc'), Subject: email.subject },
    Recipients: email.recipients.map(({ address }) => address),
    Attachments: attachments?.map(({ filename }) => filename) ?? [],
    Status: toStatus(email),
    TrackOpens: opens,
    TrackLinks: clicks ? ('HtmlAndText' as const) : ('None' as const),
    Metadata: toMetadataTexts(metadata),
    MessageStream: readStreamName(db, email.streamUuid),
    Sandboxed: email.sandbox,
  }
}

/** `name [address]`. */
const SERVER = /^([^ ]*) \[([^\]]*)\]$/

function toDeliveryDetails({ smtp_response, reason, remote_mta }: EventData) {
  const [, name = '', address = ''] = SERVER.exec(remote_mta ?? '') ?? []
  return { DeliveryMessage: smtp_response ?? reason ?? '', DestinationServer: name, DestinationIP: address }
}

/** Type and details of the events that Postmark has. */
const EVENTS: Readonly<Record<string, readonly [Type: string, toDetails: (data: EventData, seq: number) => object]>> = {
  delivered: ['Delivered', toDeliveryDetails],
  deferred: ['Transient', toDeliveryDetails],
  bounced: ['Bounced', (data, BounceID) => ({ Summary: data.smtp_response ?? data.reason ?? '', BounceID })],
  complained: ['Bounced', (_, BounceID) => ({ Summary: 'Spam complaint', BounceID })],
  opened: ['Opened', ({ user_agent = '' }) => ({ Summary: user_agent })],
  clicked: [
    'LinkClicked',
    ({ user_agent: Summary = '', link_url: Link = '' }) => ({ Summary, Link, ClickLocation: 'HTML' }),
  ],
  unsubscribed: ['SubscriptionChanged', () => ({ Origin: 'Recipient', SuppressSending: 'True' })],
}

const toMessageEvents = (events: readonly RecordedEvent[]) =>
  events.flatMap(({ type, seq, at, recipient, data }) => {
    const [Type, toDetails] = EVENTS[type] ?? []
    const Details = toDetails?.(JSON.parse(data ?? '{}') as EventData, seq)
    return Type && Details ? [{ Recipient: recipient ?? '', ReceivedAt: isoTime(at), Type, Details }] : []
  })

export const toMessageDetails = (
  app: App,
  email: StoredEmail,
  { html, text, source }: Readonly<Record<'html' | 'text' | 'source', string | null>>,
  events: readonly RecordedEvent[],
) => ({
  ...toOutboundMessage(app.db, email),
  TextBody: text ?? '',
  HtmlBody: html ?? '',
  Body: source ?? '',
  MessageEvents: toMessageEvents(events),
})

/** Functions of features that this one does not import; `src/app` passes them. */
export interface PostmarkMessageOptions {
  readonly renderedBodies: RenderBodies
  /** Composes the message of an email, by row id, again. */
  readonly readSource: (
    emailId: number,
    options: { readonly isContentHidden: boolean },
  ) => Promise<{ readonly source: string | null }>
}

const INVALID_QUERY = 'invalid_message_query'
const STATUSES: Readonly<Record<string, Status>> = { queued: 'queued', sent: 'sent', processed: 'sent' }

async function listOutbound(call: Call) {
  const { app, accountId, read, request } = call
  await yieldFairly(request)
  const window = readWindow(call, INVALID_QUERY)
  const { from = ANY_TIME.from, to = ANY_TIME.to } = readTimes(call, INVALID_QUERY)
  const wanted = read('status')
  const status = wanted === undefined ? undefined : STATUSES[wanted.toLowerCase()]
  if (wanted !== undefined && !status) throw invalid('status', 'status must be queued or sent.', INVALID_QUERY)
  const filter = { status, from, to }
  const stream = read('messagestream')
  const search = parseSearch(app.db, accountId, {
    ...{ to: read('recipient'), from: read('fromemail'), subject: read('subject'), tag: read('tag') },
    stream: stream && toSlug(stream),
  })
  const { emails, total } = search
    ? await searchEmails(app, accountId, { filter, search }, window)
    : listEmails(app.db, accountId, filter, window)
  app.workBudget.charge(accountId, emails.length)
  return { TotalCount: total, Messages: emails.map((email) => toOutboundMessage(app.db, email)) }
}

/** The newest received emails, among which a list searches. */
const MAX_EXAMINED = 10_000
const BATCH_SIZE = 100

async function listReceived(call: Call) {
  const { app, accountId, read, request } = call
  const { limit, offset } = readWindow(call, INVALID_QUERY)
  const times = readTimes(call, INVALID_QUERY)
  const has = (name: string, text: string) => text.toLowerCase().includes(read(name)?.toLowerCase() ?? '')
  const isWanted = (email: InboundEmail, { From, Subject, MailboxHash, Status, Tag }: InboundMessage) =>
    has('recipient', email.rcptTo.join(' ')) &&
    has('fromemail', From) &&
    has('subject', Subject) &&
    has('mailboxhash', MailboxHash) &&
    has('tag', Tag) &&
    has('status', Status) &&
    isInTime(email.receivedAt, times)
  const messages: InboundMessage[] = []
  let found = 0
  let after: RowKey | undefined
  for (let examined = 0; examined < MAX_EXAMINED; examined += BATCH_SIZE) {
    const { emails } = listInbound(app.db, accountId, {}, { limit: BATCH_SIZE, offset: 0, after })
    for (const email of emails) {
      const message = toInboundMessage(email)
      if (!isWanted(email, message)) continue
      if (found >= offset && messages.length < limit) messages.push(message)
      found++
    }
    if (emails.length < BATCH_SIZE) break
    after = [emails.at(-1)?.id ?? 0]
    await yieldFairly(request)
  }
  return { TotalCount: found, InboundMessages: messages }
}

const INBOUND_STATUSES = { received: 'Queued', delivered: 'Processed', failed: 'Failed', no_route: 'Blocked' } as const

/** What is between the first "+" and "@". */
const toHash = (address: string): string => address.split('@')[0]?.split('+').slice(1).join('+') ?? ''

function toMailboxes(header: string | null) {
  const parsed = header === null ? undefined : parseMailboxList(header)
  const mailboxes = parsed?.kind === 'ok' ? parsed.mailboxes : []
  return mailboxes.map(({ address, name }) => ({ Email: address, Name: name ?? '', MailboxHash: toHash(address) }))
}

type InboundMessage = ReturnType<typeof toInboundMessage>

export function toInboundMessage(email: InboundEmail) {
  const sender = { Email: email.fromAddress ?? '', Name: '', MailboxHash: '' }
  const [from = sender] = toMailboxes(email.fromHeader)
  const [recipient = ''] = email.rcptTo
  return {
    ...{ From: from.Email, FromName: from.Name, FromFull: from, To: email.toHeader ?? '' },
    ...{ ToFull: toMailboxes(email.toHeader), Cc: email.ccHeader ?? '', CcFull: toMailboxes(email.ccHeader) },
    ...{ Bcc: '', BccFull: [], ReplyTo: '', OriginalRecipient: recipient, MailboxHash: toHash(recipient), Tag: '' },
    ...{ Subject: email.subject ?? '', Date: isoTime(email.receivedAt), MessageID: formatUuid(email.uuid) },
    Status: INBOUND_STATUSES[inboundStatusName(email.status)],
    Attachments: email.attachments.map(({ filename, content_type, content_id, size }) => ({
      ...{ Name: filename ?? '', Content: '', ContentID: content_id ?? '' },
      ...{ ContentType: content_type, ContentLength: size },
    })),
    MessageStream: 'inbound',
  }
}

export function toInboundDetails(app: App, email: InboundEmail) {
  const { read } = createBodyReader(app)
  const headers = JSON.parse(read(email.headersRef) ?? '[]') as [string, string][]
  return {
    ...toInboundMessage(email),
    ...{ TextBody: read(email.textRef) ?? '', HtmlBody: read(email.htmlRef) ?? '', StrippedTextReply: '' },
    Headers: headers.map(([Name, Value]) => ({ Name, Value })),
    BlockedReason: email.errorMessage ?? '',
  }
}

export function messageRoutes({ readSource, renderedBodies }: PostmarkMessageOptions) {
  const findEmail = ({ app, accountId, id }: Call) => getEmail(app.db, accountId, id)
  const readMessage = async (call: Call) => {
    const email = findEmail(call)
    return (await readSource(email.id, { isContentHidden: isBodyHidden(call.actor, email) })).source
  }
  return [
    on('GET /messages/outbound', 'emails:read', listOutbound),
    on('GET /messages/outbound/:id/details', 'emails:read', async (call) => {
      const email = findEmail(call)
      const { html, text } = await readEmailBodies(call.app, email, renderedBodies)
      const events = readEmailEvents(call.app, call.accountId, email.id)
      return toMessageDetails(call.app, email, { html, text, source: await readMessage(call) }, events)
    }),
    on('GET /messages/outbound/:id/dump', 'emails:read', async (call) => ({ Body: (await readMessage(call)) ?? '' })),
    on('GET /messages/inbound', 'inbound:read', listReceived),
    on('GET /messages/inbound/:id/details', 'inbound:read', ({ app, accountId, id }) =>
      toInboundDetails(app, getInbound(app.db, accountId, id)),
    ),
  ]
}
