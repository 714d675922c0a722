/** @module Stored emails in the form of Postmark's outbound messages. Reads only. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import type { EventData } from '#features/core/events/record.ts'
import type { StoredEmail, StoredRecipient } from '#features/sending/emails/read.ts'
import { emailRowWire } from '#features/sending/emails/wire.ts'
import { isOpen } from '#features/sending/queue/status.ts'
import { toMetadataTexts, toStreamName } from '#features/webhooks/webhooks/payload/postmark.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

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
