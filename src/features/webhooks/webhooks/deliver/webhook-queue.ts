/**
 * @module The progress of one webhook through its account's events: the next event, the attempts in flight, and the
 * cursor; and the webhooks that the dispatcher serves, by row id and by the events of an account. The webhook of an
 * inbound route sees only the mail of its route. Reads the database; sends and writes nothing.
 *
 * Events after the cursor are delivered in order, several concurrently, but those of one recipient one after another.
 * After a restart at the cursor, later events may already have a delivery; those are skipped.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { toEventCode, toEventType } from '#features/core/events/record.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Timer } from '#platform/time/clock.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { deliveryStatusCode } from '../event-names.ts'
import type { SigningSecrets } from '../manage/signature.ts'
import type { Webhook } from '../manage/webhooks.ts'
import type { webhookDeliveries } from '../tables.ts'
import { MAX_DELAY_MS, type Streak } from './failures.ts'

/** Gives clients time to store the id of an email before its first events arrive. */
const NEW_EMAIL_HOLD_MS = seconds(2)
const PAGE_SIZE = 200
/** Pages of unsubscribed events that are skipped before yielding. */
const PAGES_PER_BATCH = 10
const STORED_PAGE_SIZE = 10
/** Events that may wait for others of their recipient before reading stops. */
const MAX_WAITING = 1000

interface EventRow {
  seq: number
  type: number
  emailId: number | null
  recipientId: number | null
  createdAt: number | null
}

type DeliveryColumn = 'id' | 'uuid' | 'seq' | 'event' | 'payload' | 'attempts'

interface StoredRow extends Readonly<Pick<typeof webhookDeliveries.$inferSelect, DeliveryColumn>> {
  readonly emailId: number | null
  readonly recipientId: number | null
}

const sql = prepareStatements((db) => ({
  events: db.prepare<EventRow, [number, number, number, number]>(
    `SELECT seq, type, email_id AS emailId, recipient_id AS recipientId, emails.created_at AS createdAt
     FROM events LEFT JOIN emails ON emails.id = email_id WHERE events.account_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
  ),
  // The mail of a route, and nothing else, even if the account has many other events.
  ofRoute: db.prepare<EventRow, [number, number, number, number]>(
    `SELECT event_seq AS seq, ${toEventCode('email.inbound')} AS type, NULL AS emailId, NULL AS recipientId, NULL AS createdAt
     FROM inbound_emails WHERE route_id = ? AND event_seq > ? AND event_seq <= ? ORDER BY event_seq LIMIT ?`,
  ),
  withDelivery: db.prepare<{ seq: number }, [number, number]>(
    'SELECT DISTINCT seq FROM webhook_deliveries WHERE webhook_id = ? AND seq > ?',
  ),
  due: db.prepare<StoredRow, [number, number, number, number]>(
    `SELECT id, uuid, webhook_deliveries.seq, event, payload, attempts, email_id AS emailId, recipient_id AS recipientId
     FROM webhook_deliveries LEFT JOIN events ON events.account_id = ? AND events.seq = webhook_deliveries.seq
     WHERE webhook_id = ? AND next_at <= ? AND event <> 'test' ORDER BY next_at, id LIMIT ?`,
  ),
  // By event and status, without scanning all due deliveries: replays may have left 100,000.
  dueTests: db.prepare<StoredRow, [number, number, number]>(
    `SELECT id, uuid, seq, event, payload, attempts, NULL AS emailId, NULL AS recipientId FROM webhook_deliveries INDEXED BY webhook_deliveries_filter
     WHERE webhook_id = ? AND event = 'test' AND status = ${deliveryStatusCode('pending')} AND next_at <= ? ORDER BY next_at, id LIMIT ?`,
  ),
  firstDue: db.prepare<{ at: number | null }, [number]>(
    'SELECT MIN(next_at) AS at FROM webhook_deliveries WHERE webhook_id = ? AND next_at IS NOT NULL',
  ),
  // Finds the routes with mail among some events. Events are read by primary key, so the cost depends only on the
  // number of those events.
  routesWithMail: db.prepare<{ routeId: number }, [number, number, number, number]>(
    `SELECT DISTINCT route_id AS routeId FROM events JOIN inbound_emails ON uuid = unhex(data ->> 'inbound_email_id', '-')
     WHERE events.account_id = ? AND seq > ? AND seq <= ? AND type = ? AND route_id IS NOT NULL`,
  ),
}))

/** An event that waits for its first attempt, and has no delivery row yet. */
export interface WaitingEvent {
  readonly kind: 'event'
  readonly seq: number
  readonly event: string
  /** Events with the same key are delivered one after another. */
  readonly key: string
  /** When the attempt may begin at the earliest. */
  readonly notBefore: Millis
}

/** A stored delivery that is due, for the first time or again. */
export interface DueDelivery extends Pick<StoredRow, DeliveryColumn> {
  readonly kind: 'stored'
  /** The key of its event. */
  readonly key: string
}

export type Task = WaitingEvent | DueDelivery

/** How the last attempt ended, which limits the number of concurrent ones. */
export type LatencyClass = 'fast' | 'slow' | 'unproven'

export class WebhookQueue {
  webhook: Webhook
  secrets: SigningSecrets
  /** Tests do not change it. */
  latencyClass: LatencyClass = 'unproven'
  /** Replaced when the URL changes or the webhook is reactivated, because earlier attempts say nothing about it. */
  streak: Streak
  /** When the webhook last accepted an event; null: never. */
  lastSuccessAt: Millis | null
  /** Whether a stored delivery is next: stored deliveries and new events alternate. */
  isStoredNext = true
  running = 0
  /** Number of events read, including unsubscribed ones; a measure of cost. */
  rowsRead = 0
  readonly #db: Database
  /** Events are read up to here. */
  #readSeq: number
  #waiting: WaitingEvent[] = []
  /** Events whose first attempt is in flight or has no durable outcome yet. */
  readonly #begun = new Set<number>()
  readonly #busyKeys = new Set<string>()
  /** Events after the cursor that already have a delivery. */
  #recordedSeqs: Set<number>
  readonly #storedInFlight = new Set<number>()

  constructor(db: Database, webhook: Webhook, secrets: SigningSecrets, streak: Streak) {
    this.#db = db
    this.webhook = webhook
    this.secrets = secrets
    this.streak = streak
    this.lastSuccessAt = webhook.lastSuccessAt
    this.#readSeq = webhook.cursorSeq
    this.#recordedSeqs = new Set(findSeqsAfter(db, webhook.id, webhook.cursorSeq))
  }

  /** Applies a change of the webhook. Drops events that it no longer subscribes to, or all while it is inactive. */
  update(webhook: Webhook, secrets: SigningSecrets, streak: Streak): void {
    const before = this.webhook
    this.webhook = webhook
    this.secrets = secrets
    if (webhook.url !== before.url || webhook.isActive !== before.isActive) this.streak = streak
    if (!webhook.isActive) this.#waiting = []
    else if (!before.isActive) {
      this.#readSeq = webhook.cursorSeq
      this.latencyClass = 'unproven'
    } else if (webhook.events.some((event) => !before.events.includes(event))) this.#readAgain()
    else this.#waiting = this.#waiting.filter(({ event }) => webhook.events.includes(event))
  }

  /** Reads again from the cursor, because replays leave events after it to the queue. */
  #readAgain(): void {
    const from = this.cursor
    this.#waiting = []
    this.#readSeq = from
    this.#recordedSeqs = new Set([...findSeqsAfter(this.#db, this.webhook.id, from), ...this.#begun])
  }

  /** All events up to here have a delivery, or are not subscribed. */
  get cursor(): number {
    let first = this.#waiting[0]?.seq ?? this.#readSeq + 1
    for (const seq of this.#begun) first = Math.min(first, seq)
    return first - 1
  }

  /**
   * The next event that may begin now. When there is none, returns the time at which one may begin, or `now` when many
   * events were skipped and other work should run first. Undefined: there are no more events, or none may begin before
   * an attempt in flight has ended.
   * @param durableSeq the account's events up to here are durable
   */
  nextEvent(durableSeq: number, now: Millis): WaitingEvent | Millis | undefined {
    for (let pages = 0; ; pages++) {
      const found = this.#takeFirstReady(now)
      if (typeof found === 'object') return found
      // As many events as allowed wait for their time or for attempts in flight, so no more are read.
      if (this.#waiting.length >= MAX_WAITING) return found
      if (pages === PAGES_PER_BATCH) return now
      if (!this.#read(durableSeq, now)) return found
    }
  }

  /**
   * Takes the first event that waits neither for its time nor for another event of its recipient. Events of a new email
   * are held for a while, but delay no others: an open of an older email is delivered before them.
   * @returns when there is no such event, the time at which the next may begin; undefined: not before an attempt in
   * flight has ended
   */
  #takeFirstReady(now: Millis): WaitingEvent | Millis | undefined {
    let soonest: Millis | undefined
    for (const [index, event] of this.#waiting.entries()) {
      if (this.#busyKeys.has(event.key)) continue
      // Computed again, because the clock may have been set back since the event was read. The same limit applies to
      // all events, so none is held longer than a later one of its recipient.
      const notBefore = Math.min(event.notBefore, now + NEW_EMAIL_HOLD_MS)
      if (notBefore <= now) {
        this.#waiting.splice(index, 1)
        return { ...event, notBefore }
      }
      if (notBefore < event.notBefore) this.#waiting[index] = { ...event, notBefore }
      soonest = Math.min(soonest ?? notBefore, notBefore)
    }
    return soonest
  }

  /** Reads a page; false at the end. */
  #read(durableSeq: number, now: Millis): boolean {
    if (this.#readSeq >= durableSeq) return false
    const { accountId, events, routeId } = this.webhook
    const { events: all, ofRoute } = sql(this.#db)
    const rows =
      routeId === null
        ? all.all(accountId, this.#readSeq, durableSeq, PAGE_SIZE)
        : ofRoute.all(routeId, this.#readSeq, durableSeq, PAGE_SIZE)
    this.rowsRead += rows.length
    for (const row of rows) {
      const event = toEventType(row.type)
      if (!events.includes(event) || this.#recordedSeqs.delete(row.seq)) continue
      this.#waiting.push({
        kind: 'event',
        seq: row.seq,
        event,
        key: toOrderKey(row),
        // While a fast clock is corrected, event times stand still ahead of it. The event does not wait until the clock
        // catches up.
        notBefore: row.createdAt === null ? 0 : Math.min(row.createdAt, now) + NEW_EMAIL_HOLD_MS,
      })
    }
    this.#readSeq = rows.length < PAGE_SIZE ? durableSeq : (rows.at(-1)?.seq ?? durableSeq)
    return true
  }

  begin(task: Task): void {
    if (task.kind === 'event') this.#begun.add(task.seq)
    else this.#storedInFlight.add(task.id)
    this.#busyKeys.add(task.key)
  }

  /** The attempt has ended, so the next event of the recipient may begin. */
  freeKey({ key }: Task): void {
    this.#busyKeys.delete(key)
  }

  /** The outcome is durable. */
  end(task: Task): void {
    if (task.kind === 'event') this.#begun.delete(task.seq)
    else this.#storedInFlight.delete(task.id)
  }

  /** Puts back what has no stored outcome; it is next again, if the webhook still subscribes to it. */
  putBack(task: Task): void {
    this.end(task)
    const { isActive, events, cursorSeq } = this.webhook
    // Not after a deactivation: events from before are not sent then.
    if (task.kind === 'stored' || !isActive || !events.includes(task.event) || task.seq <= cursorSeq) return
    const index = this.#waiting.findIndex(({ seq }) => seq > task.seq)
    this.#waiting.splice(index === -1 ? this.#waiting.length : index, 0, task)
  }

  /**
   * The next stored delivery that may begin now. Tests come first, because a user waits for them; then comes the
   * delivery due longest whose recipient has no attempt in flight. A webhook that is inactive or backing off gets only
   * tests.
   */
  nextStored(now: Millis, isBackingOff = false): DueDelivery | undefined {
    const { id, accountId } = this.webhook
    const isActive = this.webhook.isActive && !isBackingOff
    const first = this.#findFirstDue() ?? now
    // A time beyond the retry schedule was stored under a fast clock, so it counts as due.
    const until = isBeyondRetrySchedule(first, now) ? first : now
    const findFree = (rows: readonly StoredRow[]): StoredRow | undefined =>
      rows.find((row) => !this.#storedInFlight.has(row.id) && !this.#busyKeys.has(toOrderKey(row)))
    // One row more than are in flight suffices to find one that is not in flight.
    const page = this.#storedInFlight.size + STORED_PAGE_SIZE
    const test = findFree(sql(this.#db).dueTests.all(id, until, page))
    if (test) return toDueDelivery(test)
    // Usually one of the first rows may begin. More are read only when many belong to a recipient with an attempt in
    // flight.
    for (const limit of isActive ? [page, MAX_WAITING] : []) {
      const rows = sql(this.#db).due.all(accountId, id, until, limit)
      const found = findFree(rows)
      if (found) return toDueDelivery(found)
      if (rows.length < limit) break
    }
    return undefined
  }

  /** When the next stored delivery is due, possibly before `now`; undefined when there is none. */
  firstDue(now: Millis): Millis | undefined {
    const at = this.#findFirstDue()
    return at !== undefined && isBeyondRetrySchedule(at, now) ? now : at
  }

  #findFirstDue(): Millis | undefined {
    return sql(this.#db).firstDue.get(this.webhook.id)?.at ?? undefined
  }
}

const toDueDelivery = (row: StoredRow): DueDelivery => ({ kind: 'stored', key: toOrderKey(row), ...row })

const findSeqsAfter = (db: Database, webhookId: number, seq: number): number[] =>
  sql(db)
    .withDelivery.all(webhookId, seq)
    .map((row) => row.seq)

const isBeyondRetrySchedule = (at: Millis, now: Millis): boolean => at - now > MAX_DELAY_MS

type OrderColumn = 'seq' | 'emailId' | 'recipientId'

/** Events of one recipient, or of an email without one, share a key; others have their own. */
const toOrderKey = ({ seq, id, emailId, recipientId }: Pick<StoredRow, OrderColumn> & { readonly id?: number }) =>
  recipientId !== null
    ? `recipient ${recipientId}`
    : emailId !== null
      ? `email ${emailId}`
      : seq !== null
        ? `event ${seq}`
        : `delivery ${id}`

export interface RegistryEntry {
  readonly queue: WebhookQueue
  timer: Timer | undefined
  storedCursor: number
  cursorTimer: Timer | undefined
}

export class WebhookRegistry {
  readonly #app: Pick<App, 'db' | 'log'>
  readonly #entries = new Map<number, RegistryEntry>()
  /** Webhooks that get any events of an account. */
  readonly #byAccount = new Map<number, Set<number>>()
  /** Route webhooks by the row id of the route. An account may have many, so each is woken only by its own mail. */
  readonly #routesOfAccount = new Map<number, Map<number, number>>()

  constructor(app: Pick<App, 'db' | 'log'>) {
    this.#app = app
  }

  get(id: number): RegistryEntry | undefined {
    return this.#entries.get(id)
  }

  /** A copy, so that entries may be added or removed during iteration. */
  all(): RegistryEntry[] {
    return [...this.#entries.values()]
  }

  add(queue: WebhookQueue): void {
    const { id, accountId, routeId, cursorSeq } = queue.webhook
    this.#entries.set(id, { queue, timer: undefined, storedCursor: cursorSeq, cursorTimer: undefined })
    if (routeId !== null)
      this.#routesOfAccount.set(accountId, (this.#routesOfAccount.get(accountId) ?? new Map()).set(routeId, id))
    else this.#byAccount.set(accountId, (this.#byAccount.get(accountId) ?? new Set()).add(id))
  }

  /** Removes a webhook and cancels its timers. Ignores an unknown id. */
  remove(id: number): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry.timer?.cancel()
    entry.cursorTimer?.cancel()
    this.#entries.delete(id)
    const { accountId, routeId } = entry.queue.webhook
    this.#byAccount.get(accountId)?.delete(id)
    if (routeId !== null) this.#routesOfAccount.get(accountId)?.delete(routeId)
  }

  /** Webhooks that events after `before`, up to `lastSeq`, may concern. Never throws. */
  findConcerned(accountId: number, before: number | undefined, lastSeq: number): readonly number[] {
    const ofAccount = this.#byAccount.get(accountId) ?? []
    const routes = this.#routesOfAccount.get(accountId) ?? new Map<number, number>()
    if (routes.size === 0 || before === undefined) return [...ofAccount, ...routes.values()]
    try {
      const withMail = sql(this.#app.db)
        .routesWithMail.all(accountId, before, lastSeq, toEventCode('email.inbound'))
        .flatMap(({ routeId }) => routes.get(routeId) ?? [])
      return [...ofAccount, ...withMail]
    } catch (error) {
      this.#app.log.error({ err: error }, 'routes with new mail not read; checking all routes of the account')
      return [...ofAccount, ...routes.values()]
    }
  }
}
