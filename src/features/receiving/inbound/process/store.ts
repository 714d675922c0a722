/**
 * @module Stores a received message: its parts as blobs, for the rows that will refer to them, and then, in the
 * transaction of its processing, an inbound email: its row, its counter, and the event for webhooks.
 */

import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { record } from '#features/core/events/record.ts'
import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { toAttachmentJson, truncateHeader, truncateOptionalHeader } from '#features/receiving/received/parts.ts'
import { insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { AttachmentFile, ParsedMessage } from '#protocols/mime/parsed.ts'
import {
  countInbound,
  eraseInbound,
  type ForwardState,
  type InboundEmail,
  type InboundStatus,
  inboundStatusCode,
} from '../api/inbound-emails.ts'
import type { inboundEmails } from '../tables.ts'

/** The message got its 250, so storing it may use the disk reserve. */
const FROM_RESERVE = { mayUseReserve: true }

type ContentApp = Pick<App, 'content' | 'clock'>

const BATCH_BYTES = 1 * MiB

/** The message with its parts stored as blobs; mail to our own addresses alone (reports, bounces) needs none. */
export async function storeParts(
  app: ContentApp,
  message: ParsedMessage,
  strippedText: string | null,
  isForTenants: boolean,
): Promise<StoredMessage> {
  const { headers, text, html } = message
  const texts = isForTenants ? [JSON.stringify(headers), text, html, strippedText] : []
  const attachments = isForTenants ? message.attachments : []
  const parts = [
    ...texts.filter((text) => text !== null).map((text) => Buffer.from(text)),
    ...attachments.map(({ content, file }) => file ?? content),
  ]
  const refs = await storeInBatches(app, parts)
  // The references come in the order of the texts; an absent text has none.
  const [headersRef = null, textRef = null, htmlRef = null, strippedRef = null] = texts.map((text) =>
    text === null ? null : (refs.shift() ?? null),
  )
  return {
    ...message,
    headersRef,
    textRef,
    htmlRef,
    strippedText,
    strippedRef,
    attachments: attachments.map(({ content, file, ...attachment }, index) => {
      const ref = refs[index]
      if (ref === undefined) throw new Error('an attachment was not stored')
      return { ...attachment, sizeBytes: file?.sizeBytes ?? content.length, ref }
    }),
  }
}

/** Stores all parts and returns their references in order. Batches limit both memory and the time without yielding. */
async function storeInBatches(
  { content, clock }: ContentApp,
  parts: readonly (Uint8Array | AttachmentFile)[],
): Promise<number[]> {
  const refs: number[] = []
  let batch: Uint8Array[] = []
  let batchBytes = 0
  const storeBatch = async (): Promise<void> => {
    if (batch.length > 0) refs.push(...(await content.put(batch, clock.now(), FROM_RESERVE)))
    batch = []
    batchBytes = 0
  }
  for (const part of parts) {
    if (part instanceof Uint8Array) {
      batch.push(part)
      batchBytes += part.length
      if (batchBytes >= BATCH_BYTES) await storeBatch()
    } else {
      await storeBatch()
      refs.push(await content.adopt(part, clock.now(), FROM_RESERVE))
    }
  }
  await storeBatch()
  return refs
}

export async function storeReportContent(
  app: ContentApp,
  report: AggregateReport,
): Promise<AggregateReport & { contentRef: number }> {
  const [contentRef] = await app.content.put([report.content], app.clock.now(), FROM_RESERVE)
  if (contentRef === undefined) throw new Error('a report was not stored')
  return { ...report, contentRef }
}

export interface NewInbound {
  readonly accountId: number
  readonly domainId: number
  /** Row of the route; undefined: none matched. */
  readonly routeId: number | undefined
  readonly rcptTo: readonly string[]
  /** Forwards the message, in the same transaction. @param id public id of the inbound email */
  readonly forward?: ((id: UuidBytes) => ForwardState) | undefined
}

/**
 * Limits on a domain's messages that match no route, since anyone can send to invented addresses. The oldest are
 * dropped for the newest; a catch_all route accepts everything.
 */
export const MAX_UNROUTED = 1000
export const MAX_UNROUTED_BYTES = 64 * MiB

/** What parsing finds. */
const PARSED =
  'fromAddress toAddresses fromHeader toHeader ccHeader subject messageId headersRef textRef htmlRef attachments spfResult authentication spam'
type ParsedColumns = ReturnType<typeof toParsedColumns>

const sql = prepareStatements((db) => ({
  domain: db.prepare<{ uuid: UuidBytes; domain: string }, [number]>('SELECT uuid, domain FROM domains WHERE id = ?'),
  insert: db.prepare<unknown, [Omit<typeof inboundEmails.$inferSelect, 'id' | 'webhookDeliveredAt'>]>(
    insertSql(
      'inbound_emails',
      `${PARSED} uuid accountId domainId domainUuid domain routeId status mailFrom rcptTo sourceIp helo tls rawRef sizeBytes forward errorMessage eventSeq receivedAt createdAt updatedAt`,
    ),
  ),
  // An email that matched a route has an event.
  amend: db.prepare<unknown, [ParsedColumns & Record<'updatedAt' | 'id', number>]>(
    `UPDATE inbound_emails SET status = CASE WHEN event_seq IS NULL THEN ${inboundStatusCode('no_route')}
       WHEN webhook_delivered_at IS NOT NULL THEN ${inboundStatusCode('delivered')} ELSE ${inboundStatusCode('received')} END,
       ${setSql(PARSED)}, error_message = NULL, updated_at = $updatedAt
     WHERE id = $id AND status = ${inboundStatusCode('failed')}`,
  ),
  unrouted: db.prepare<{ count: number; bytes: number }, [number]>(
    `SELECT count(*) AS count, total(size_bytes) AS bytes FROM (SELECT size_bytes FROM inbound_emails INDEXED BY inbound_emails_unrouted
     WHERE domain_id = ? AND route_id IS NULL LIMIT ${MAX_UNROUTED})`,
  ),
  oldestUnrouted: db.prepare<{ id: number; sizeBytes: number }, [number]>(
    `SELECT id, size_bytes AS sizeBytes FROM inbound_emails INDEXED BY inbound_emails_unrouted
     WHERE domain_id = ? AND route_id IS NULL ORDER BY id LIMIT ${MAX_UNROUTED}`,
  ),
}))

/** As many as an envelope may have; a To header can contain thousands. */
const MAX_TO_ADDRESSES = 100

/**
 * Stores a received message for one route of one domain. Returns its public id; undefined: the domain was deleted, or
 * no route matches and the message alone exceeds the limit for such mail.
 */
export function storeInbound(app: App, tx: Tx, target: NewInbound, received: ReceivedMail): UuidBytes | undefined {
  const { envelope, problem } = received
  const domain = sql(tx.db).domain.get(target.domainId)
  if (!domain) {
    dropContentOf(app, tx, received)
    const { accountId, domainId } = target
    const fields = { account: findAccountLogId(app.db, accountId), domainId, sourceIp: envelope.sourceIp }
    tx.afterCommit(() => app.log.warn(fields, 'received message dropped: its domain was deleted'))
    return undefined
  }
  if (target.routeId === undefined) {
    const isTooLarge = envelope.sizeBytes > MAX_UNROUTED_BYTES
    const dropped = isTooLarge ? 1 : dropOldestUnrouted(app, tx, target.domainId, envelope.sizeBytes)
    if (dropped > 0) tx.afterCommit(() => logUnrouted(app, target))
    if (isTooLarge) {
      dropContentOf(app, tx, received)
      return undefined
    }
  }
  const uuid = newUuid()
  const now = app.eventTime()
  const isRouted = target.routeId !== undefined
  const status: InboundStatus = problem !== undefined ? 'failed' : isRouted ? 'received' : 'no_route'
  const seq = isRouted
    ? record(tx, {
        accountId: target.accountId,
        type: 'email.inbound',
        at: now,
        data: { inbound_email_id: formatUuid(uuid) },
      })
    : null
  sql(tx.db).insert.run({
    ...envelope,
    ...toParsedColumns(received),
    uuid,
    accountId: target.accountId,
    domainId: target.domainId,
    domainUuid: domain.uuid,
    domain: domain.domain,
    routeId: target.routeId ?? null,
    status: inboundStatusCode(status),
    rcptTo: JSON.stringify(target.rcptTo),
    forward: target.forward ? JSON.stringify(target.forward(uuid)) : null,
    errorMessage: problem ?? null,
    eventSeq: seq,
    createdAt: now,
    updatedAt: now,
  })
  countInbound(tx, target.accountId, 1)
  return uuid
}

/**
 * Amends an unparsed message with the result of parsing it again. Its route and event stay: no second event is emitted.
 * Returns false when it was deleted or amended in the meantime.
 */
export function amendInbound(app: App, tx: Tx, before: InboundEmail, received: ReceivedMail): boolean {
  const columns = toParsedColumns(received)
  const { changes } = sql(tx.db).amend.run({ ...columns, updatedAt: app.eventTime(), id: before.id })
  if (changes === 0) return false
  dropContent(app, tx, { content: [before.headersRef] })
  return true
}

const toParsedColumns = ({ message, authentication, spam }: ReceivedMail) => ({
  fromAddress: truncateOptionalHeader(message.fromAddresses[0]),
  toAddresses: JSON.stringify(message.toAddresses.slice(0, MAX_TO_ADDRESSES)),
  fromHeader: truncateOptionalHeader(message.from),
  toHeader: truncateOptionalHeader(message.to),
  ccHeader: truncateOptionalHeader(message.cc),
  subject: truncateHeader(message.subject),
  messageId: message.messageId,
  headersRef: message.headersRef,
  textRef: message.textRef,
  htmlRef: message.htmlRef,
  attachments: JSON.stringify(message.attachments.map(toAttachmentJson)),
  spfResult: authentication.spf,
  authentication: JSON.stringify(authentication),
  spam: spam ? JSON.stringify(spam) : null,
})

/** Drops a domain's oldest unrouted messages until one of this size fits; returns their number. */
function dropOldestUnrouted(app: App, tx: Tx, domainId: number, sizeBytes: number): number {
  const stored = sql(tx.db).unrouted.get(domainId) ?? { count: 0, bytes: 0 }
  let excess = stored.count + 1 - MAX_UNROUTED
  let excessBytes = stored.bytes + sizeBytes - MAX_UNROUTED_BYTES
  if (excess <= 0 && excessBytes <= 0) return 0
  const ids: number[] = []
  for (const oldest of sql(tx.db).oldestUnrouted.all(domainId)) {
    if (excess <= 0 && excessBytes <= 0) break
    ids.push(oldest.id)
    excess--
    excessBytes -= oldest.sizeBytes
  }
  return eraseInbound(app, tx, ids)
}

function logUnrouted(app: App, { accountId, domainId }: NewInbound): void {
  app.log.warn(
    { account: findAccountLogId(app.db, accountId), domainId },
    'unrouted messages dropped, oldest first: their domain is at its limit',
  )
}

function dropContentOf(app: App, tx: Tx, { envelope, message }: ReceivedMail): void {
  const { headersRef, textRef, htmlRef, strippedRef, attachments } = message
  dropContent(app, tx, {
    content: [headersRef, textRef, htmlRef, strippedRef, ...attachments.map(({ ref }) => ref)],
    rawMail: [envelope.rawRef],
  })
}
