/**
 * @module Writes the outcome of an attempt: one transaction with the delivery, the webhook's failure count and cursor,
 * and the deactivation of a webhook that failed too often. The only writer of a delivery after its first attempt.
 * Owners get at most one mail a day about a webhook that failures deactivated; webhooks that fail together, perhaps
 * because they share a server, are in one mail. Erases a person from the history; pending deliveries need nothing,
 * because their bodies are built from rows that are already erased.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { auditChange, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { markInboundDelivered, markInboundUndeliverable } from '#features/receiving/inbound/api/model.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, newUuid, randomFraction, type UuidBytes } from '#platform/ids.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import { type DeliveryStatus, deliveryStatusCode, TEST_EVENT } from '../event-names.ts'
import { DEACTIVATION_REASON, MAX_CONSECUTIVE_FAILURES } from '../manage/pending.ts'
import type { Webhook } from '../manage/webhooks.ts'
import type { webhookDeliveries } from '../tables.ts'
import type { AttemptResult } from './attempt.ts'
import { computeRetryDelayMs, MAX_ATTEMPTS } from './failures.ts'
import type { Task } from './webhook-queue.ts'

type DeliveryTarget = Pick<Webhook, 'id' | 'accountId' | 'routeId'>

type State = Pick<Webhook, 'accountId' | 'uuid' | 'failureCount' | 'routeId' | 'updatedAt'> & {
  readonly accountUuid: UuidBytes
  readonly isActive: number
}

const sql = prepareStatements((db) => ({
  state: db.prepare<State, [number]>(
    `SELECT account_id AS accountId, accounts.uuid AS accountUuid, webhooks.uuid, is_active AS isActive, failure_count AS failureCount,
       route_id AS routeId, webhooks.updated_at AS updatedAt
     FROM webhooks JOIN accounts ON accounts.id = account_id WHERE webhooks.id = ? AND webhooks.deleted_at IS NULL`,
  ),
  isWaiting: db.prepare<{ id: number }, [number]>(
    'SELECT id FROM webhook_deliveries WHERE id = ? AND next_at IS NOT NULL',
  ),
  insert: db.prepare(
    `INSERT INTO webhook_deliveries (uuid, webhook_id, seq, event, status, attempts, next_at, attempted_at, duration_ms, status_code, response, error, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
  update: db.prepare(
    `UPDATE webhook_deliveries SET status = ?, attempts = ?, next_at = ?, attempted_at = ?, duration_ms = ?, status_code = ?, response = ?, error = ?
     WHERE id = ?`,
  ),
  give: db.prepare('UPDATE webhook_deliveries SET status = ?, next_at = NULL, error = ? WHERE id = ?'),
  succeeded: db.prepare(
    'UPDATE webhooks SET failure_count = 0, failing_since = NULL, last_success_at = ?, cursor_seq = max(cursor_seq, ?) WHERE id = ?',
  ),
  failed: db.prepare<unknown, [number, Millis, string | null, number, number]>(
    `UPDATE webhooks SET failure_count = ?1, failing_since = iif(?1 = 0, NULL, coalesce(failing_since, ?2)), last_failure_at = ?2,
     last_failure_reason = ?3, cursor_seq = max(cursor_seq, ?4) WHERE id = ?5`,
  ),
  switchOff: db.prepare(
    'UPDATE webhooks SET is_active = 0, off_by_failures = 1, last_failure_reason = ?, updated_at = max(?, updated_at + 1) WHERE id = ?',
  ),
  moveCursor: db.prepare('UPDATE webhooks SET cursor_seq = max(cursor_seq, ?) WHERE id = ? AND is_active = 1'),
  // Returns no row when the webhook was reactivated or deleted since then.
  webhook: db.prepare<DeactivatedWebhook, [number, Millis]>(
    `SELECT uuid, url, route_id IS NOT NULL AS isOfRoute, last_failure_at AS since FROM webhooks
     WHERE id = ? AND off_by_failures = 1 AND deleted_at IS NULL AND last_failure_at > ?`,
  ),
  sentAt: db.prepare<{ at: Millis | null }, [number]>('SELECT notice_sent_at AS at FROM webhooks WHERE id = ?'),
  setSentAt: db.prepare('UPDATE webhooks SET notice_sent_at = ? WHERE id = ?'),
  webhooks: db.prepare<{ id: number }, [number]>('SELECT id FROM webhooks WHERE account_id = ?'),
  eraseOfEvent: db.prepare(
    `UPDATE webhook_deliveries SET response = NULL, error = NULL, payload = NULL WHERE webhook_id = ? AND seq = ?
     AND (response IS NOT NULL OR error IS NOT NULL OR payload IS NOT NULL)`,
  ),
  after: db.prepare<Row, [number, number, number]>(
    `SELECT d.id, w.id IS NOT NULL AS isOwn, payload, response, error FROM webhook_deliveries d
     LEFT JOIN webhooks w ON w.id = webhook_id AND account_id = ?2 WHERE d.id > ?1 ORDER BY d.id LIMIT ?3`,
  ),
  // An attempt takes seconds, so the person or mail that its event is about may be erased before the response arrives.
  isGone: db.prepare<{ isGone: number }, [string, number, number]>(
    `SELECT EXISTS (SELECT 1 FROM recipients WHERE email_id = events.email_id AND address = ?1) OR (json_valid(data) AND (
     (data ->> 'inbound_email_id' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inbound_emails WHERE uuid = unhex(data ->> 'inbound_email_id', '-')))
     OR (data ->> 'mailbox_message_id' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM mailbox_messages WHERE uuid = unhex(data ->> 'mailbox_message_id', '-')))))
     AS isGone FROM events WHERE account_id = ?2 AND seq = ?3`,
  ),
  // A stored payload is replaced by `{}`, not by NULL: its delivery has no event from which a body could be built.
  erase: db.prepare(
    `UPDATE webhook_deliveries SET response = NULL, error = NULL, payload = iif(payload IS NULL, NULL, '{}') WHERE id = ?`,
  ),
}))

/**
 * Writes the outcome of an attempt. Returns whether it deactivates the webhook.
 * @param webhook its state when the attempt began
 * @param isFailure whether it counts as another consecutive failure, as `Streak` decides
 * @param cursor all events of the account up to it have a delivery, or are not subscribed
 */
export function writeAttempt(
  app: App,
  tx: Tx,
  { id: webhookId, accountId, routeId, updatedAt }: DeliveryTarget & Pick<Webhook, 'updatedAt'>,
  task: Task,
  result: AttemptResult,
  isFailure: boolean,
  cursor: number,
): boolean {
  const webhook = sql(tx.db).state.get(webhookId)
  // The webhook was deleted during the attempt.
  if (!webhook) return false
  const attempts = task.kind === 'event' ? 1 : task.attempts + 1
  // A test never changes the failure count and is not retried.
  const isTest = task.event === TEST_EVENT
  const isActive = webhook.isActive === 1
  const failures = webhook.failureCount + (isFailure ? 1 : 0)
  // An attempt does not count for a webhook that was changed since then, because it used the old URL or secret.
  const isCounted = isActive && !isTest && webhook.updatedAt === updatedAt
  const isDeactivated = isCounted && isFailure && failures >= MAX_CONSECUTIVE_FAILURES
  const isEnded = task.kind === 'stored' && !sql(tx.db).isWaiting.get(task.id)
  const canRetry = result.kind === 'transient' && isActive && !isTest && !isDeactivated && !isEnded
  const delayMs = canRetry ? computeRetryDelayMs(attempts, randomFraction()) : undefined
  const nextAt = delayMs === undefined ? undefined : app.clock.now() + Math.max(delayMs, result.retryAfterMs)
  writeDelivery(app, tx, { id: webhookId, accountId, routeId }, task, attempts, result, nextAt)
  if (!isCounted) {
    if (!isTest) moveCursor(tx, webhookId, cursor)
    return false
  }
  if (result.kind === 'delivered') sql(tx.db).succeeded.run(result.at, cursor, webhookId)
  else sql(tx.db).failed.run(failures, result.at, result.error, cursor, webhookId)
  if (isDeactivated) deactivate(app, tx, webhookId, webhook, result.error)
  return isDeactivated
}

function writeDelivery(
  app: App,
  tx: Tx,
  webhook: DeliveryTarget,
  task: Task,
  attempts: number,
  result: AttemptResult,
  nextAt: Millis | undefined,
): void {
  const status: DeliveryStatus =
    result.kind === 'delivered' ? 'delivered' : nextAt === undefined ? 'undeliverable' : 'pending'
  const isGivenUp = result.kind === 'transient' && attempts >= MAX_ATTEMPTS
  const error = isGivenUp ? `${result.error} That was the last of ${MAX_ATTEMPTS} attempts.` : result.error
  updateInboundEmail(app, tx, webhook, task.seq, { status, at: result.at, error: error ?? '' })
  const isErased = task.seq !== null && isAboutErased(tx.db, webhook.accountId, task.seq)
  const response = isErased ? null : result.response
  const state = [deliveryStatusCode(status), attempts, nextAt ?? null]
  const columns = [...state, result.at, result.durationMs, result.statusCode, response, error]
  if (task.kind === 'event') sql(tx.db).insert.run(newUuid(), webhook.id, task.seq, task.event, ...columns, result.at)
  else sql(tx.db).update.run(...columns, task.id)
}

/** Updates the inbound email with the result of its route's webhook. Does nothing for other webhooks and events. */
function updateInboundEmail(
  app: App,
  tx: Tx,
  { accountId, routeId }: DeliveryTarget,
  seq: number | null,
  { status, at, error }: { readonly status: DeliveryStatus; readonly at: Millis; readonly error: string },
): void {
  if (routeId === null || seq === null) return
  if (status === 'delivered') markInboundDelivered(tx, accountId, seq, at)
  if (status === 'undeliverable') markInboundUndeliverable(app, tx, accountId, seq, error)
}

/** Deactivates a webhook after too many consecutive failures. The dispatcher then ends its pending deliveries. */
function deactivate(app: App, tx: Tx, webhookId: number, webhook: State, error: string | null): void {
  sql(tx.db).switchOff.run(DEACTIVATION_REASON, app.eventTime(), webhookId)
  scheduleDeactivationNotice(app, tx, webhook.accountId, webhookId, error)
  const action = webhook.routeId === null ? 'webhook.deactivated' : 'inbound_route.webhook_deactivated'
  auditChange(app, tx, createSystemActor(webhook), action, webhook.uuid, { reason: DEACTIVATION_REASON })
}

/** Ends a delivery that cannot be made, because its event was deleted. */
export function endDelivery(
  app: App,
  tx: Tx,
  webhook: DeliveryTarget,
  { id, seq }: { readonly id: number; readonly seq: number | null },
  error: string,
): void {
  sql(tx.db).give.run(deliveryStatusCode('undeliverable'), error, id)
  updateInboundEmail(app, tx, webhook, seq, { status: 'undeliverable', at: app.clock.now(), error })
}

/** Stores the cursor of a webhook that skipped events, so that a restart need not examine them again. */
export const moveCursor = (tx: Tx, webhookId: number, cursor: number): void =>
  void sql(tx.db).moveCursor.run(cursor, webhookId)

interface DeactivatedWebhook {
  readonly uuid: UuidBytes
  readonly url: string
  readonly isOfRoute: number
  /** Time of the failure that deactivated it, which does not change while it is inactive. */
  readonly since: Millis
}

/** So that one mail has all webhooks that fail together. */
const DELAY_MS = minutes(1)
const REPEAT_INTERVAL_MS = days(1)
/** Per account, so that creating failing webhooks does not cause more mail. */
const ACCOUNT_INTERVAL_MS = hours(3)
/** Older deactivations cause no notice: users know of them by now. */
const MAX_NEWS_AGE_MS = days(2)
/** Maximum number of webhooks described in one mail; the list of webhooks shows the others. */
const MAX_DESCRIBED = 3
const KIND = 'webhook_deactivated'

/** Schedules the mail about a webhook that a failure deactivates in this transaction. @param error the last failure */
export function scheduleDeactivationNotice(
  app: App,
  tx: Tx,
  accountId: number,
  webhookId: number,
  error: string | null,
): void {
  const now = app.clock.now()
  const sentAt = sql(tx.db).sentAt.get(webhookId)?.at ?? 0
  // At most a day ahead, because the clock may have been ahead when the last mail was sent.
  const dueAt = Math.min(Math.max(now + DELAY_MS, sentAt + REPEAT_INTERVAL_MS), now + REPEAT_INTERVAL_MS)
  scheduleNotice(app, tx, { accountId, kind: KIND, topic: webhookId, data: error, dueAt })
}

export const DEACTIVATION_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: ACCOUNT_INTERVAL_MS,
  aheadMs: DELAY_MS,
  compose({ clock, db }, { name }, notices) {
    const after = clock.now() - MAX_NEWS_AGE_MS
    const webhooks = notices.flatMap(({ topic, data }) => {
      const webhook = sql(db).webhook.get(topic, after)
      return webhook ? [{ ...webhook, error: data }] : []
    })
    const [first] = webhooks
    if (!first) return undefined
    const one = first.isOfRoute === 1 ? 'The webhook of an inbound route was deactivated' : 'A webhook was deactivated'
    const more = webhooks.length - MAX_DESCRIBED
    return {
      subject: webhooks.length === 1 ? one : `${webhooks.length} webhooks were deactivated`,
      text: [
        ...webhooks.slice(0, MAX_DESCRIBED).map((webhook) => formatWebhook(name, webhook)),
        ...(more > 0 ? [`And ${more} more; GET /v1/webhooks and GET /v1/inbound-routes list them.`] : []),
      ].join('\n\n'),
      onSent: (tx, { topic }) => void sql(tx.db).setSentAt.run(clock.now(), topic),
    }
  },
}

function formatWebhook(
  name: string,
  { uuid, url, isOfRoute, since, error }: DeactivatedWebhook & { readonly error: string | null },
): string {
  const time = `${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC`
  const { origin, pathname } = new URL(url)
  const what = isOfRoute === 1 ? 'The webhook of an inbound route' : `The webhook ${formatUuid(uuid)}`
  return [
    `${what} of the account ${name} was deactivated on ${time} after ten consecutive failed attempts. Its URL is:`,
    `${origin}${pathname}`,
    ...(error === null ? [] : [`The last failure: ${error}`]),
    'No events are lost: they are kept, but none is sent to this URL until the webhook is reactivated. Mail is sent and received as before.',
    isOfRoute === 1
      ? 'When your server responds again, update the route (PUT /v1/inbound-routes/{id}, even without a change), then replay missed mail (POST /v1/inbound-routes/{id}/replay).'
      : `When your server responds again: PUT /v1/webhooks/${formatUuid(uuid)} with its url, events and is_active reactivates it; POST /v1/webhooks/${formatUuid(uuid)}/replay sends missed events. GET /v1/webhooks/${formatUuid(uuid)}/deliveries shows the responses of your server.`,
  ].join('\n\n')
}

type Row = Pick<typeof webhookDeliveries.$inferSelect, 'id' | 'payload' | 'response' | 'error'> & {
  readonly isOwn: number
}

/** Erases the stored responses to some events of an account. Returns the number of deliveries. */
export function eraseEventDeliveries(tx: Tx, accountId: number, seqs: readonly number[]): number {
  if (seqs.length === 0) return 0
  let erased = 0
  for (const { id } of sql(tx.db).webhooks.all(accountId))
    for (const seq of seqs) erased += sql(tx.db).eraseOfEvent.run(id, seq).changes
  return erased
}

/** Whether an event is about an erased person or deleted mail, whose data a response may repeat. */
export const isAboutErased = (db: Database, accountId: number, seq: number): boolean =>
  sql(db).isGone.get(ERASED_ADDRESS, accountId, seq)?.isGone === 1

/** Rows examined in one transaction: some 3 ms. */
const BATCH_SIZE = 500

/** Erases matching deliveries of the account in a batch after a row; `next` is undefined at the end. */
export function eraseDeliveries(
  tx: Tx,
  scan: { readonly accountId: number; readonly after: number; readonly matches: (text: string) => boolean },
): { readonly rows: number; readonly next: number | undefined } {
  const rows = sql(tx.db).after.all(scan.after, scan.accountId, BATCH_SIZE)
  const matching = rows.filter(
    ({ isOwn, payload, response, error }) =>
      isOwn === 1 && [payload, response, error].some((text) => text !== null && scan.matches(text)),
  )
  for (const { id } of matching) sql(tx.db).erase.run(id)
  return { rows: matching.length, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
