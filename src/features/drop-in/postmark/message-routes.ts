/** @module /postmark/messages/outbound: stored emails in the form of Postmark's messages, and their events. */
import type { Database } from 'bun:sqlite'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import type { EventData } from '#features/core/events/record.ts'
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
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { createQueryReader, type Query, readTimes, readWindow } from './fields.ts'

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
    MessageID: id,
    Tag: tags[0] ?? '',
    To: ofKind('to'),
    Cc: ofKind('cc'),
    Bcc: ofKind('bcc'),
    Recipients: email.recipients.map(({ address }) => address),
    ReceivedAt: isoTime(email.createdAt),
    From: email.from,
    Subject: email.subject,
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

const parseData = ({ data }: RecordedEvent) => JSON.parse(data ?? '{}') as EventData

function toDeliveryDetails({ smtp_response, reason, remote_mta }: EventData): object {
  const [, name = '', address = ''] = SERVER.exec(remote_mta ?? '') ?? []
  return { DeliveryMessage: smtp_response ?? reason ?? '', DestinationServer: name, DestinationIP: address }
}

/** Type and details of an event in Postmark's form; undefined for an event that Postmark does not have. */
function toTypeAndDetails(event: RecordedEvent): { readonly Type: string; readonly Details: object } | undefined {
  const data = parseData(event)
  switch (event.type) {
    case 'delivered':
      return { Type: 'Delivered', Details: toDeliveryDetails(data) }
    case 'deferred':
      return { Type: 'Transient', Details: toDeliveryDetails(data) }
    case 'bounced':
      return { Type: 'Bounced', Details: { Summary: data.smtp_response ?? data.reason ?? '', BounceID: event.seq } }
    case 'complained':
      return { Type: 'Bounced', Details: { Summary: 'Spam complaint', BounceID: event.seq } }
    case 'opened':
      return { Type: 'Opened', Details: { Summary: data.user_agent ?? '' } }
    case 'clicked':
      return {
        Type: 'LinkClicked',
        Details: { Summary: data.user_agent ?? '', Link: data.link_url ?? '', ClickLocation: 'HTML' },
      }
    case 'unsubscribed':
      return { Type: 'SubscriptionChanged', Details: { Origin: 'Recipient', SuppressSending: 'True' } }
    default:
      return undefined
  }
}

const toMessageEvents = (events: readonly RecordedEvent[]) =>
  events.flatMap((event) => {
    const found = toTypeAndDetails(event)
    return found ? [{ Recipient: event.recipient ?? '', ReceivedAt: isoTime(event.at), ...found }] : []
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

function readStatus(text: string | undefined): Status | undefined {
  if (text === undefined) return undefined
  const status = STATUSES[text.toLowerCase()]
  if (!status) throw invalid('status', 'status must be queued or sent.', INVALID_QUERY)
  return status
}

async function findMessages(app: App, accountId: number, query: Query) {
  const read = createQueryReader(query)
  const window = readWindow(read, INVALID_QUERY)
  const { from = ANY_TIME.from, to = ANY_TIME.to } = readTimes(read, INVALID_QUERY)
  const filter = { status: readStatus(read('status')), from, to }
  const stream = read('messagestream')
  const search = parseSearch(app.db, accountId, {
    to: read('recipient'),
    from: read('fromemail'),
    subject: read('subject'),
    tag: read('tag'),
    stream: stream && toSlug(stream),
  })
  return search
    ? searchEmails(app, accountId, { filter, search }, window)
    : listEmails(app.db, accountId, filter, window)
}

export const postmarkMessageRoutes = (app: App, { readSource, renderedBodies }: PostmarkMessageOptions) => {
  const detail = requires('emails:read')
  const sourceOf = async (actor: Actor, email: StoredEmail): Promise<string | null> =>
    (await readSource(email.id, { isContentHidden: isBodyHidden(actor, email) })).source
  return new Elysia({ prefix: `${POSTMARK_PREFIX}/messages/outbound` })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query, request }) => {
        await yieldFairly(request)
        const { emails, total } = await findMessages(app, actor.accountId, query)
        app.workBudget.charge(actor.accountId, emails.length)
        return { TotalCount: total, Messages: emails.map((email) => toOutboundMessage(app.db, email)) }
      },
      { detail },
    )
    .get(
      '/:id/details',
      async ({ actor, params }) => {
        const email = getEmail(app.db, actor.accountId, params.id)
        const { html, text } = await readEmailBodies(app, email, renderedBodies)
        const content = { html, text, source: await sourceOf(actor, email) }
        return toMessageDetails(app, email, content, readEmailEvents(app, actor.accountId, email.id))
      },
      { detail },
    )
    .get(
      '/:id/dump',
      async ({ actor, params }) => ({
        Body: (await sourceOf(actor, getEmail(app.db, actor.accountId, params.id))) ?? '',
      }),
      { detail },
    )
}
