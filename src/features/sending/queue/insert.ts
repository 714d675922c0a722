/** @module Stores the content of a new email, and inserts its rows, key, events and counters. Its callers check it. */
import type { Actor, App } from '#features/core/app/app.ts'
import { countDaily } from '#features/core/events/daily-stats.ts'
import { type EventData, record } from '#features/core/events/record.ts'
import { findNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { consumeDailyLimit } from '#features/setup/api-keys/limits.ts'
import { countForStream } from '#features/setup/streams/reputation.ts'
import type { StreamPriority } from '#features/setup/streams/streams.ts'
import type { PutOptions } from '#platform/content/store.ts'
import { insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
import { type NewEmail, NOT_TRACKED, type TrackedParts, toTrackingCode } from './email.ts'
import { laneOf, simulatorDomain } from './lanes.ts'
import type { StoredAttachment } from './retire.ts'
import { countStatus } from './settle.ts'
import { DRAFTS_KIND, deriveEmailStatus, recipientKindCode, type Status, statusCode } from './status.ts'

/** What is stored of an email; the other columns have defaults. */
const EMAIL_FIELDS =
  'uuid accountId domainId streamId operationId templateId broadcastId listId status sandbox transactional trackingOverride tracked fromAddress subject htmlRef textRef attachments extra recipientCount sizeBytes quotaMonth scheduledAt createdAt updatedAt'

const sql = prepareStatements((db) => ({
  insertEmail: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('emails', EMAIL_FIELDS)} RETURNING id`,
  ),
  insertRecipient: db.prepare(
    insertSql('recipients', 'emailId kind address mailbox status lane nextAt lastError expiresAt'),
  ),
  insertKey: db.prepare('INSERT INTO idempotency_keys (account_id, key_hash, email_id, body_hash) VALUES (?, ?, ?, ?)'),
}))

export interface StoredContent {
  readonly htmlRef: number | null
  readonly textRef: number | null
  readonly attachments: readonly (StoredAttachment & { readonly ref: number })[]
  readonly sizeBytes: number
}

export async function storeContent(app: App, email: NewEmail, options?: PutOptions): Promise<StoredContent> {
  const bodies = [email.html, email.text].filter((part) => part !== undefined)
  const parts = [...bodies, ...email.attachments.map((a) => a.content)]
  const refs = await app.content.put(parts, app.clock.now(), options)
  let position = 0
  const nextRef = () => refs[position++] ?? null
  return {
    htmlRef: email.html ? nextRef() : null,
    textRef: email.text ? nextRef() : null,
    attachments: email.attachments.map(({ filename, contentType, contentId, isAlternative, content }) => ({
      filename,
      content_type: contentType,
      ...(contentId !== undefined && { content_id: contentId }),
      ...(isAlternative && { alternative: true as const }),
      size: content.length,
      ref: nextRef() ?? 0,
    })),
    sizeBytes: parts.reduce((sum, part) => sum + part.length, 0),
  }
}

export const refsOf = ({ htmlRef, textRef, attachments }: StoredContent): (number | null)[] => [
  htmlRef,
  textRef,
  ...attachments.map(({ ref }) => ref),
]

export interface Placement {
  readonly domainId: number
  readonly streamId: number
  /** `expires_in` of the stream, for an email without its own. */
  readonly streamExpiresIn?: number | null
  /** Of the stream; default: normal. */
  readonly priority?: StreamPriority
  /** Whether the stream has a pool of outgoing addresses; default: false. */
  readonly hasPool?: boolean
  readonly sandbox: boolean
  readonly tracked: TrackedParts
  readonly suppressions: readonly (string | undefined)[]
  readonly quotaMonth: number | null
  readonly operationId: number | null
  /** Row id of the email's broadcast. Mail of broadcasts never goes ahead of other mail. */
  readonly broadcastId?: number
}

/** Inserts an email with its recipients, events and counters; wakes its lanes after the commit. */
export function insertEmail(
  app: App,
  tx: Tx,
  actor: Actor,
  provided: NewEmail,
  content: StoredContent,
  placement: Placement,
) {
  const uuid = newUuid()
  const now = app.eventTime()
  const expiresIn = provided.extra.expires_in ?? placement.streamExpiresIn ?? undefined
  // Stored with the email, because a retried dead letter gets the same time again.
  const email =
    expiresIn === undefined ? provided : { ...provided, extra: { ...provided.extra, expires_in: expiresIn } }
  const dueAt = email.scheduledAt ?? app.clock.now()
  // Here, because every email passes here, whatever interface it came by.
  consumeDailyLimit(app, tx, actor, email.recipients.length)
  const isDraft = email.isDraft === true || actor.limits?.drafts === true
  const accepted = isDraft || email.scheduledAt !== undefined ? 'scheduled' : 'queued'
  const waiting = isDraft ? 'draft' : accepted
  const status = deriveEmailStatus(
    placement.suppressions.map((reason) => (reason === undefined ? waiting : 'rejected')),
  )
  const emailId = insertEmailRow(tx, actor, email, content, placement, { uuid, now, status })
  if (email.idempotency)
    sql(tx.db).insertKey.run(actor.accountId, email.idempotency.keyHash, emailId, email.idempotency.bodyHash)
  const event = { accountId: actor.accountId, at: now, emailId }
  record(tx, { ...event, type: accepted, ...(isDraft && { data: { reason: 'draft' } }) })
  const lanes = new Set<string>()
  const mail = {
    accountId: actor.accountId,
    sandbox: placement.sandbox,
    laneClass: placement.broadcastId === undefined ? (placement.priority ?? 'normal') : 'bulk',
    simulatorDomain: simulatorDomain(app.config),
    streamId: placement.hasPool ? placement.streamId : undefined,
  } as const
  for (const [index, { kind, address, domain, mailbox }] of email.recipients.entries()) {
    const reason = placement.suppressions[index]
    const outcome = reason === undefined ? undefined : suppressedOutcome(reason)
    const lane = laneOf({ ...mail, domain })
    const { lastInsertRowid } = sql(tx.db).insertRecipient.run({
      ...{ emailId, kind: recipientKindCode(kind), address, mailbox: mailbox ?? null },
      status: statusCode(outcome ? 'rejected' : waiting),
      lane: outcome ? null : lane,
      nextAt: outcome || isDraft ? null : dueAt,
      lastError: outcome?.lastError ?? null,
      expiresAt: expiresIn === undefined ? null : dueAt + seconds(expiresIn),
    })
    if (outcome) {
      record(tx, { ...event, type: 'rejected', recipientId: Number(lastInsertRowid), data: outcome.data })
      continue
    }
    lanes.add(lane)
    if (placement.sandbox) continue
    countForStream(tx, { accountId: actor.accountId, streamId: placement.streamId }, 'sent', now, 1)
    countDaily(tx, { accountId: actor.accountId, domain, at: now }, 'sent', 1)
  }
  countStatus(tx, { accountId: actor.accountId, createdAt: now, sandbox: placement.sandbox ? 1 : 0 }, status, 1)
  tx.afterCommit(() => {
    const kind = placement.sandbox ? 'sandbox' : placement.broadcastId === undefined ? 'single' : 'broadcast'
    app.metrics.emailAccepted(kind, email.recipients.length)
    if (!isDraft) for (const lane of lanes) app.mailDue.emit({ lane, at: dueAt })
  })
  // One mail for a burst: a notice that waits stays due at its time, however many drafts follow.
  const notice = { accountId: actor.accountId, kind: DRAFTS_KIND, topic: actor.accountId }
  if (status === 'draft' && !findNotice(tx.db, notice.kind, notice.topic))
    scheduleNotice(app, tx, { ...notice, dueAt: app.clock.now() + minutes(1) })
  return { uuid, status, sandbox: placement.sandbox, createdAt: now }
}

/** Returns the row id. */
function insertEmailRow(
  tx: Tx,
  { accountId }: Actor,
  email: NewEmail,
  { htmlRef, textRef, attachments, sizeBytes }: StoredContent,
  { domainId, streamId, operationId, broadcastId, sandbox, tracked, quotaMonth }: Placement,
  { uuid, now, status }: { readonly uuid: UuidBytes; readonly now: Millis; readonly status: Status },
): number {
  const { templateId = null, listId = null, scheduledAt = null, subject, extra, recipients } = email
  const row = sql(tx.db).insertEmail.get({
    ...{ uuid, accountId, domainId, streamId, operationId, templateId, listId, subject, htmlRef, textRef, sizeBytes },
    ...{ quotaMonth, scheduledAt, createdAt: now, updatedAt: now },
    broadcastId: broadcastId ?? null,
    fromAddress: email.from,
    status: statusCode(status),
    sandbox: sandbox ? 1 : 0,
    transactional: email.transactional ? 1 : 0,
    trackingOverride: toTrackingCode(email.tracking),
    // Sandbox mail is not tracked, because its tracked links would let anyone create redirects under our name.
    tracked: toTrackingCode(sandbox ? NOT_TRACKED : tracked),
    attachments: attachments.length > 0 ? JSON.stringify(attachments) : null,
    extra: Object.keys(extra).length > 0 ? JSON.stringify(extra) : null,
    recipientCount: recipients.length,
  })
  if (!row) throw new Error('the email was not stored')
  return row.id
}

/** @param reason why the address is suppressed, such as `hard_bounce` */
export const suppressedOutcome = (reason: string): { lastError: string; data: EventData } => ({
  lastError: `The address is on the suppression list (${reason}), so nothing is sent to it.`,
  data: { reason: 'suppressed', suppression: reason },
})
