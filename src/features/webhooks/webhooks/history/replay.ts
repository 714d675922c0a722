/**
 * @module Replays events to a webhook: one delivery, or all subscribed events of a range. A replay is a new delivery
 * with the same body and its own retry schedule. Also sends the test event: a delivery like others, but sent only on
 * request, not retried, and limited to a few a minute.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { EVENT_TYPES, readLastSeq, toEventCode, toEventType } from '#features/core/events/record.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, invalid, tooManyRequests } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { parseDateTime } from '#platform/time/date-time.ts'
import { type Millis, minutes } from '#platform/units.ts'
import { deliveryStatusCode, type PayloadFormat, requireBodyScopes, TEST_EVENT } from '../event-names.ts'
import { requireKnownEvent } from '../manage/change.ts'
import { countPending, insertPending } from '../manage/pending.ts'
import { auditedKindOf, type FindWebhook, getWebhook, type Webhook } from '../manage/webhooks.ts'
import { readPostedBody } from '../payload/payload.ts'
import { type Delivery, getDelivery } from './history.ts'
import { MAX_REPLAYED, type ReplayRange, type ReplayResult, type TestResult } from './model.ts'

/** Maximum number of pending deliveries per webhook, which limits what replays can accumulate. */
const MAX_PENDING = 100_000
const READ_BATCH_SIZE = 5000
/** Batches that one call scans. */
const MAX_BATCHES = 200
/** Deliveries inserted in one transaction: a few milliseconds. */
const WRITE_BATCH_SIZE = 200
/** How far an event's time may be before that of an earlier event, which waited longer for its transaction. */
const MAX_DISORDER_MS = minutes(1)

interface EventRow {
  readonly seq: number
  readonly type: number
}

const sql = prepareStatements((db) => ({
  atOrAfter: db.prepare<{ seq: number; at: Millis }, [number, number]>(
    'SELECT seq, at FROM events WHERE account_id = ? AND seq >= ? ORDER BY seq LIMIT 1',
  ),
  // Events after the cursor are excluded unless they have a delivery: the webhook has yet to get them anyway.
  wanted: db.prepare<EventRow, [number, number, number, Millis, Millis, string, number, number, number | null, number]>(
    `SELECT seq, type FROM events WHERE account_id = ?1 AND seq BETWEEN ?2 AND ?3 AND at BETWEEN ?4 AND ?5
     AND type IN (SELECT value FROM json_each(?6))
     AND (?9 IS NULL OR seq IN (SELECT event_seq FROM inbound_emails WHERE route_id = ?9 AND event_seq BETWEEN ?2 AND ?3))
     AND (seq <= ?7 OR EXISTS (SELECT 1 FROM webhook_deliveries WHERE webhook_id = ?8 AND webhook_deliveries.seq = events.seq))
     AND (?10 = 0 OR NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE webhook_id = ?8 AND webhook_deliveries.seq = events.seq
       AND status <> ${deliveryStatusCode('undeliverable')})) ORDER BY seq`,
  ),
  // Newest first and by index for each status, because a webhook may have a long history of tests.
  recent: db.prepare<{ createdAt: Millis }, [number, string, Millis, number]>(
    `SELECT created_at AS createdAt FROM (${[0, 1, 2]
      .map(
        (status) =>
          `SELECT * FROM (SELECT id, created_at FROM webhook_deliveries WHERE webhook_id = ?1 AND event = ?2 AND status = ${status} ORDER BY id DESC LIMIT ?4)`,
      )
      .join(' UNION ALL ')}) WHERE created_at > ?3 ORDER BY id DESC LIMIT ?4`,
  ),
}))

/**
 * Queues a delivery of the webhook again, due now. Throws 404, 403 when the actor may not read the mail that it
 * carries, 409 `webhook_inactive`, 409 `event_not_subscribed` when the webhook no longer subscribes to the event, 409
 * `event_gone` when the event was deleted, and 429 for a test event like `sendTestEvent`.
 * @param find finds the webhook of `id`
 */
export async function replayDelivery(
  app: App,
  actor: Actor,
  id: string,
  deliveryId: string,
  find: FindWebhook = getWebhook,
): Promise<Delivery> {
  requireReplayable(app, actor, find(app.db, actor.accountId, id), deliveryId)
  return await app.commit.write((tx) => {
    const webhook = find(tx.db, actor.accountId, id)
    const { seq, event, payload, uuid } = getDelivery(tx.db, webhook, deliveryId)
    requireActive(webhook)
    requireSubscribed(webhook, event)
    const now = app.clock.now()
    if (event === TEST_EVENT) requireTestAllowed(tx, webhook.id, now)
    requirePendingCapacity(tx, webhook, 1)
    const replayed = insertPending(tx, { webhookId: webhook.id, seq, event, payload }, now)
    auditChange(app, tx, actor, 'webhook_delivery.replayed', uuid, {
      [webhook.routeId === null ? 'webhook_id' : 'route_id']: formatUuid(webhook.uuid),
    })
    tx.afterCommit(() => app.webhookChanged.emit({ webhookId: webhook.id }))
    return getDelivery(tx.db, webhook, replayed)
  })
}

/** An attempt for an unsubscribed event would end before it began. */
function requireSubscribed(webhook: Webhook, event: string): void {
  if (event !== TEST_EVENT && !webhook.events.includes(event))
    throw conflict(
      'event_not_subscribed',
      `The webhook no longer subscribes to "${event}"; add it to its events with PUT, then replay again.`,
    )
}

/** Throws unless the delivery can be replayed. Before the transaction, because a payload may be read from files. */
function requireReplayable(app: App, actor: Actor, webhook: Webhook, deliveryId: string): void {
  const delivery = getDelivery(app.db, webhook, deliveryId)
  requireBodyScopes(actor, [delivery.event])
  requireActive(webhook)
  requireSubscribed(webhook, delivery.event)
  if (readPostedBody(app, webhook, delivery) === undefined)
    throw conflict('event_gone', 'The event of this delivery is no longer kept, so there is nothing to send again.')
}

/**
 * Queues the events of a range again, in order. Skips events whose first attempt is still to come. Throws 404, 409
 * `webhook_inactive` and `too_many_pending`, and 422 for an invalid range or one of more than MAX_REPLAYED events.
 * @param find finds the webhook of `id`
 */
export async function replayRange(
  app: App,
  actor: Actor,
  id: string,
  input: ReplayRange,
  find: FindWebhook = getWebhook,
): Promise<ReplayResult> {
  const webhook = find(app.db, actor.accountId, id)
  requireActive(webhook)
  const names = resolveEventNames(webhook, input.events)
  requireBodyScopes(actor, names)
  const events = await readReplayEvents(app, webhook, names, input)
  const result = toReplayResult(events)
  const { deliveries, ...range } = result
  // Runs at least once, because an empty replay is audited too.
  for (let start = 0; start === 0 || start < events.length; start += WRITE_BATCH_SIZE) {
    const batch = events.slice(start, start + WRITE_BATCH_SIZE)
    await app.commit.write((tx) => {
      // The webhook may have been deactivated or deleted since the last batch.
      requireActive(find(tx.db, actor.accountId, id))
      if (start === 0) {
        requirePendingCapacity(tx, webhook, events.length)
        auditChange(app, tx, actor, `${auditedKindOf(webhook)}.replayed`, webhook.uuid, { ...range, deliveries })
      }
      const now = app.clock.now()
      for (const { seq, type } of batch)
        insertPending(tx, { webhookId: webhook.id, seq, event: toEventType(type), payload: null }, now)
      tx.afterCommit(() => app.webhookChanged.emit({ webhookId: webhook.id }))
    })
  }
  return result
}

const toReplayResult = (events: readonly EventRow[]): ReplayResult => ({
  deliveries: events.length,
  from_seq: events[0]?.seq ?? null,
  to_seq: events.at(-1)?.seq ?? null,
})

/**
 * Counts what `replayRange` would queue, and stores nothing. For an inactive webhook: what it would queue if it were
 * activated now. Throws 404, and 422 like `replayRange`.
 */
export async function countReplay(
  app: App,
  actor: Actor,
  id: string,
  input: ReplayRange,
  find: FindWebhook = getWebhook,
): Promise<ReplayResult> {
  const webhook = find(app.db, actor.accountId, id)
  const names = resolveEventNames(webhook, input.events)
  const cursorSeq = webhook.isActive ? webhook.cursorSeq : readLastSeq(app.db, webhook.accountId)
  return toReplayResult(await readReplayEvents(app, { ...webhook, cursorSeq }, names, input))
}

async function readReplayEvents(
  app: App,
  webhook: Webhook,
  names: readonly string[],
  input: ReplayRange,
): Promise<EventRow[]> {
  const codes = JSON.stringify(EVENT_TYPES.filter((type) => names.includes(type)).map(toEventCode))
  const { fromSeq, toSeq, from, to } = resolveRange(app.db, webhook.accountId, input)
  const events: EventRow[] = []
  // Begins each batch at an event, because a restored backup skips many numbers.
  const findNext = (seq: number) => sql(app.db).atOrAfter.get(webhook.accountId, seq)?.seq ?? toSeq + 1
  let batches = 0
  for (let start = findNext(fromSeq); start <= toSeq; start = findNext(start + READ_BATCH_SIZE)) {
    if (++batches > MAX_BATCHES)
      throw invalid(
        'to_seq',
        `One call scans at most ${MAX_BATCHES * READ_BATCH_SIZE} events; end the range with to_seq ${start - 1}.`,
        'replay_too_large',
      )
    const end = Math.min(start + READ_BATCH_SIZE - 1, toSeq)
    const rows = sql(app.db).wanted.all(
      webhook.accountId,
      start,
      end,
      from,
      to,
      codes,
      webhook.cursorSeq,
      webhook.id,
      webhook.routeId,
      input.undelivered === true ? 1 : 0,
    )
    for (const row of rows) events.push(row)
    const lastAllowed = events[MAX_REPLAYED - 1]
    if (events.length > MAX_REPLAYED && lastAllowed)
      throw invalid(
        'to_seq',
        `The range holds more than ${MAX_REPLAYED} events, the maximum for one call; the first ${MAX_REPLAYED} end with to_seq ${lastAllowed.seq}.`,
        'replay_too_large',
      )
    // Lets requests run between batches.
    await yieldToEventLoop()
  }
  return events
}

/** The names to replay: the requested ones, or all that the webhook subscribes to. */
function resolveEventNames(webhook: Webhook, requested: readonly string[] | undefined): readonly string[] {
  if (requested === undefined) return webhook.events
  if (requested.length === 0) throw invalid('events', 'events must not be empty; omit it to replay all events.')
  const unsubscribed = requested.map(requireKnownEvent).find((name) => !webhook.events.includes(name))
  if (unsubscribed !== undefined)
    throw invalid(
      'events',
      `The webhook does not subscribe to "${unsubscribed}"; it subscribes to ${webhook.events.join(', ')}.`,
    )
  return requested
}

/** The range to scan: positions that cover the requested times, and the times themselves. */
function resolveRange(db: Database, accountId: number, input: ReplayRange) {
  if (input.from_seq === undefined && input.from === undefined)
    throw invalid('from_seq', 'Provide from_seq or from, the first event or time to replay.')
  const from = input.from === undefined ? 0 : parseTime('from', input.from)
  const to = input.to === undefined ? Number.MAX_SAFE_INTEGER : parseTime('to', input.to)
  if (from > to) throw invalid('to', 'to must not be before from.')
  if ((input.from_seq ?? 1) > (input.to_seq ?? Number.MAX_SAFE_INTEGER))
    throw invalid('to_seq', 'to_seq must not be less than from_seq.')
  const last = readLastSeq(db, accountId)
  const firstBy = input.from === undefined ? 1 : findFirstSeqAt(db, accountId, last, from - MAX_DISORDER_MS)
  const lastBy = input.to === undefined ? last : findFirstSeqAt(db, accountId, last, to + MAX_DISORDER_MS + 1) - 1
  return {
    fromSeq: Math.max(input.from_seq ?? 1, firstBy),
    toSeq: Math.min(input.to_seq ?? last, last, lastBy),
    from,
    to,
  }
}

export function parseTime(field: string, text: string): Millis {
  const time = parseDateTime(text, 'any')
  if (time === undefined) throw invalid(field, `${field} must be a date-time such as 2026-01-31T09:30:00Z.`)
  return time
}

/** The first position whose event happened at `time` or later; `last + 1`: none. Times grow with positions. */
function findFirstSeqAt(db: Database, accountId: number, last: number, time: Millis): number {
  let low = 1
  let high = last + 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const at = sql(db).atOrAfter.get(accountId, middle)?.at
    if (at === undefined || at >= time) high = middle
    else low = middle + 1
  }
  return low
}

function requireActive({ isActive, routeId }: Webhook): void {
  if (!isActive)
    throw conflict(
      'webhook_inactive',
      routeId === null
        ? 'The webhook is inactive; activate it first with PUT, with url, events and is_active true.'
        : 'The webhook of the route is inactive; activate it first with PUT, with is_active true and a webhook_url.',
    )
}

function requirePendingCapacity(tx: Tx, webhook: Webhook, count: number): void {
  if (countPending(tx.db, webhook.id) + count > MAX_PENDING)
    throw conflict(
      'too_many_pending',
      `At most ${MAX_PENDING} deliveries of a webhook may be pending; replay again later.`,
    )
}

/** Maximum number of test events per webhook and minute. */
export const MAX_TESTS = 5
const WINDOW_MS = minutes(1)

/**
 * Queues a test event for the webhook, active or not. Throws 404, and 429 `too_many_tests` for the sixth within a
 * minute, counting the tests of all users, keys and the operator.
 * @param find finds the webhook of `id`
 */
export function sendTestEvent(app: App, actor: Actor, id: string, find: FindWebhook = getWebhook): Promise<TestResult> {
  return app.commit.write((tx) => {
    const { id: webhookId, uuid, routeId, format } = find(tx.db, actor.accountId, id)
    const now = app.clock.now()
    requireTestAllowed(tx, webhookId, now)
    const payload: TestResult['payload'] = {
      event: TEST_EVENT,
      account_id: actor.accountUuid,
      timestamp: isoTime(now),
      data: { message: 'This is a test event: the webhook is set up, and its receiver can be reached.' },
    }
    const delivery = { webhookId, seq: null, event: TEST_EVENT, payload: JSON.stringify(toFormat(format, payload)) }
    const deliveryId = formatUuid(insertPending(tx, delivery, now))
    auditChange(app, tx, actor, `${auditedKindOf({ routeId })}.tested`, uuid, { delivery_id: deliveryId })
    tx.afterCommit(() => app.webhookChanged.emit({ webhookId, isTest: true }))
    const message = 'The test event is queued; the deliveries of the webhook show its result.'
    return { delivery_id: deliveryId, message, payload }
  })
}

/** The posted body. Other providers have no such event, but the receiver must find the fields that it reads first. */
function toFormat(format: PayloadFormat, { event, timestamp, data, ...rest }: TestResult['payload']): object {
  if (format === 'resend') return { type: event, created_at: timestamp, data }
  if (format === 'postmark') return { RecordType: 'Test', ServerID: 1, Message: data.message }
  return { event, ...rest, timestamp, data }
}

/** Throws 429 when the webhook has had its maximum of tests in the last minute. */
export function requireTestAllowed(tx: Tx, webhookId: number, now: Millis): void {
  const recent = sql(tx.db)
    .recent.all(webhookId, TEST_EVENT, now - WINDOW_MS, MAX_TESTS)
    // Tests from before the clock was set back do not count; otherwise no test could be sent until it catches up.
    .filter(({ createdAt }) => createdAt <= now)
  const oldest = recent.at(-1)
  if (!oldest || recent.length < MAX_TESTS) return
  const waitSeconds = Math.max(1, Math.ceil((oldest.createdAt + WINDOW_MS - now) / 1000))
  throw tooManyRequests(
    'too_many_tests',
    `A webhook is sent at most ${MAX_TESTS} test events a minute; try again in ${waitSeconds} s.`,
    waitSeconds,
  )
}
