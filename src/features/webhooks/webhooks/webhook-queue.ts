/**
 * @module One webhook's way through its account's events: which is next, which are under way, how far everything is told. The webhook of an inbound
 * route goes through the mail of its route alone. Reads the database, sends and writes nothing.
 *
 * The events after the cursor are told in order, several at the same time, but those of one recipient one after the other. Whoever starts again
 * at the cursor may find events after it that have a row already: they are left out.
 */
import type { Database } from 'bun:sqlite'
import { toEventType } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { seconds } from '#platform/units.ts'
import { deliveryStatusCode } from './event-names.ts'
import { MAX_DELAY_MS } from './retry-schedule.ts'
import type { Streak } from './streak.ts'
import type { Webhook } from './webhooks.ts'

/** Clients store the id of an email before they can make sense of its events. */
const NEW_EMAIL_HOLD_MS = seconds(2)
const PAGE_SIZE = 200
/** Pages of events that nobody wants are passed over so many at a time. */
const PAGES_PER_BATCH = 10
const STORED_PAGE_SIZE = 10
/** What waits for others of its recipient, beyond which no more is read. */
const MAX_WAITING = 1000

interface EventRow {
  seq: number
  type: number
  emailId: number | null
  recipientId: number | null
  createdAt: number | null
}

interface StoredRow {
  id: number
  seq: number | null
  event: string
  payload: string | null
  attempts: number
  emailId: number | null
  recipientId: number | null
}

const sql = prepareStatements((db) => ({
  events: db.prepare<EventRow, [number, number, number, number]>(
    `SELECT seq, type, email_id AS emailId, recipient_id AS recipientId, emails.created_at AS createdAt
     FROM events LEFT JOIN emails ON emails.id = email_id WHERE events.account_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
  ),
  ofRoute: db.prepare<{ seq: number }, [number, number, number, number]>(
    'SELECT event_seq AS seq FROM inbound_emails WHERE route_id = ? AND event_seq > ? AND event_seq <= ? ORDER BY event_seq LIMIT ?',
  ),
  told: db.prepare<{ seq: number }, [number, number]>(
    'SELECT DISTINCT seq FROM webhook_deliveries WHERE webhook_id = ? AND seq > ?',
  ),
  due: db.prepare<StoredRow, [number, number, number, number]>(
    `SELECT id, webhook_deliveries.seq, event, payload, attempts, email_id AS emailId, recipient_id AS recipientId
     FROM webhook_deliveries LEFT JOIN events ON events.account_id = ? AND events.seq = webhook_deliveries.seq
     WHERE webhook_id = ? AND next_at <= ? AND event <> 'test' ORDER BY next_at, id LIMIT ?`,
  ),
  // By event and status, never through all that is due: replays may have left 100,000.
  dueTests: db.prepare<StoredRow, [number, number, number]>(
    `SELECT id, seq, event, payload, attempts, NULL AS emailId, NULL AS recipientId FROM webhook_deliveries INDEXED BY webhook_deliveries_filter
     WHERE webhook_id = ? AND event = 'test' AND status = ${deliveryStatusCode('pending')} AND next_at <= ? ORDER BY next_at, id LIMIT ?`,
  ),
  firstDue: db.prepare<{ at: number | null }, [number]>(
    'SELECT MIN(next_at) AS at FROM webhook_deliveries WHERE webhook_id = ? AND next_at IS NOT NULL',
  ),
}))

/** An event that waits for its first attempt. */
export interface WaitingEvent {
  readonly seq: number
  readonly event: string
  /** Events with the same key are told one after the other. */
  readonly key: string
  /** Not begun before. */
  readonly notBefore: Millis
}

/** A delivery that is due (again). */
export interface DueDelivery {
  readonly id: number
  readonly seq: number | null
  readonly event: string
  readonly payload: string | null
  readonly attempts: number
  /** As that of its event. */
  readonly key: string
}

/** How the last attempt was answered: well and soon, well but late, or not well, or not yet. It decides how many may be under way. */
export type LatencyClass = 'fast' | 'slow' | 'unproven'

export class WebhookQueue {
  webhook: Webhook
  secret: string
  /** Tests say nothing of it. */
  latencyClass: LatencyClass = 'unproven'
  /** A new one when the webhook leads elsewhere or is switched on again: what began before says nothing of it. */
  streak: Streak
  /** When it last took an event; null: never. */
  lastSuccessAt: Millis | null
  /** Stored deliveries and new events take turns. */
  isStoredNext = true
  /** Attempts under way. */
  running = 0
  /** Events that were read so far, also those that nobody wants: what it costs. */
  rowsRead = 0
  readonly #db: Database
  /** Read up to here. */
  #readSeq: number
  #waiting: WaitingEvent[] = []
  /** First attempts that are under way, or whose outcome is not on disk yet. */
  readonly #begun = new Set<number>()
  readonly #busyKeys = new Set<string>()
  /** After the cursor, but told already. */
  #recordedSeqs: Set<number>
  /** Stored deliveries under way. */
  readonly #storedInFlight = new Set<number>()

  constructor(db: Database, webhook: Webhook, secret: string, streak: Streak) {
    this.#db = db
    this.webhook = webhook
    this.secret = secret
    this.streak = streak
    this.lastSuccessAt = webhook.lastSuccessAt
    this.#readSeq = webhook.cursorSeq
    this.#recordedSeqs = new Set(findSeqsAfter(db, webhook.id, webhook.cursorSeq))
  }

  /** The webhook was changed. What it no longer wants, or was switched off for, is not told. */
  update(webhook: Webhook, secret: string, streak: Streak): void {
    const before = this.webhook
    this.webhook = webhook
    this.secret = secret
    if (webhook.url !== before.url || webhook.isActive !== before.isActive) this.streak = streak
    if (!webhook.isActive) this.#waiting = []
    else if (!before.isActive) {
      this.#readSeq = webhook.cursorSeq
      this.latencyClass = 'unproven'
    } else if (webhook.events.some((event) => !before.events.includes(event))) this.#readAgain()
    else this.#waiting = this.#waiting.filter(({ event }) => webhook.events.includes(event))
  }

  /** From the cursor on, for what was passed over: replays leave to the lane what comes after the cursor. */
  #readAgain(): void {
    const from = this.cursor
    this.#waiting = []
    this.#readSeq = from
    this.#recordedSeqs = new Set([...findSeqsAfter(this.#db, this.webhook.id, from), ...this.#begun])
  }

  /** Every event up to it has its row, or is not wanted here. */
  get cursor(): number {
    let first = this.#waiting[0]?.seq ?? this.#readSeq + 1
    for (const seq of this.#begun) first = Math.min(first, seq)
    return first - 1
  }

  /**
   * The next event that may be begun now; a time when there is one that has to wait until then, or `now` when there is so much to pass over that others
   * should have their turn first; undefined when there is none, or none before one that is under way is over.
   * @param durableSeq the account's events up to here are on disk
   */
  nextEvent(durableSeq: number, now: Millis): WaitingEvent | Millis | undefined {
    for (let pages = 0; ; pages++) {
      const found = this.#takeFirstReady(now)
      if (typeof found === 'object') return found
      // As much as is remembered waits, for its time or for what is under way: the rest is left where it is.
      if (this.#waiting.length >= MAX_WAITING) return found
      if (pages === PAGES_PER_BATCH) return now
      if (!this.#read(durableSeq, now)) return found
    }
  }

  /**
   * Takes the first event that waits neither for its time nor for another of its recipient. An email's first events hold up nothing else: an open of
   * an older one is told before them.
   * @returns when the next may be begun where there is none; undefined: not before one that is under way is over
   */
  #takeFirstReady(now: Millis): WaitingEvent | Millis | undefined {
    let soonest: Millis | undefined
    for (const [index, event] of this.#waiting.entries()) {
      if (this.#busyKeys.has(event.key)) continue
      // Made anew, since the clock may have been set back after it was read. Of a recipient none is held longer than what comes after it.
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

  /** Reads a page; false when there is nothing more. */
  #read(durableSeq: number, now: Millis): boolean {
    if (this.#readSeq >= durableSeq) return false
    const { accountId, events, routeId } = this.webhook
    if (routeId !== null) return this.#readRoute(routeId, durableSeq)
    const rows = sql(this.#db).events.all(accountId, this.#readSeq, durableSeq, PAGE_SIZE)
    this.rowsRead += rows.length
    for (const row of rows) {
      const event = toEventType(row.type)
      if (!events.includes(event) || this.#recordedSeqs.delete(row.seq)) continue
      this.#waiting.push({
        seq: row.seq,
        event,
        key: toOrderKey(row),
        // Event times are held while a clock that was ahead is corrected; nothing waits for that.
        notBefore: row.createdAt === null ? 0 : Math.min(row.createdAt, now) + NEW_EMAIL_HOLD_MS,
      })
    }
    this.#readSeq = rows.length < PAGE_SIZE ? durableSeq : (rows.at(-1)?.seq ?? durableSeq)
    return true
  }

  /** The same of the mail of a route, whatever else happened in the account. */
  #readRoute(routeId: number, durableSeq: number): true {
    const rows = sql(this.#db).ofRoute.all(routeId, this.#readSeq, durableSeq, PAGE_SIZE)
    this.rowsRead += rows.length
    for (const { seq } of rows)
      if (!this.#recordedSeqs.delete(seq))
        this.#waiting.push({
          seq,
          event: 'email.inbound',
          key: toOrderKey({ seq, emailId: null, recipientId: null }),
          notBefore: 0,
        })
    this.#readSeq = rows.length < PAGE_SIZE ? durableSeq : (rows.at(-1)?.seq ?? durableSeq)
    return true
  }

  begin({ seq, key }: WaitingEvent): void {
    this.#begun.add(seq)
    this.#busyKeys.add(key)
  }

  /** The attempt is over: the next event of the recipient may be told. */
  freeKey({ key }: Pick<WaitingEvent, 'key'>): void {
    this.#busyKeys.delete(key)
  }

  /** Its outcome is on disk. */
  end({ seq }: WaitingEvent): void {
    this.#begun.delete(seq)
  }

  /** It was not told, and nothing is stored of it: it is the next again, unless the webhook no longer wants it. */
  putBack(event: WaitingEvent): void {
    this.#begun.delete(event.seq)
    const { isActive, events, cursorSeq } = this.webhook
    // Not after the webhook was off: what happened before is not told then.
    if (!isActive || !events.includes(event.event) || event.seq <= cursorSeq) return
    const index = this.#waiting.findIndex(({ seq }) => seq > event.seq)
    this.#waiting.splice(index === -1 ? this.#waiting.length : index, 0, event)
  }

  /**
   * The next stored delivery that may be begun now: tests first, since somebody waits for them, then what is longest due and of no recipient that is
   * under way. Of a webhook that is off or rests only tests.
   */
  nextStored(now: Millis, isBackingOff = false): DueDelivery | undefined {
    const { id, accountId } = this.webhook
    const isActive = this.webhook.isActive && !isBackingOff
    const until = this.#dueUntil(now)
    const findFree = (rows: readonly StoredRow[]): StoredRow | undefined =>
      rows.find((row) => !this.#storedInFlight.has(row.id) && !this.#busyKeys.has(toOrderKey(row)))
    // One more than are under way is enough to find one that is not.
    const page = this.#storedInFlight.size + STORED_PAGE_SIZE
    const test = findFree(sql(this.#db).dueTests.all(id, until, page))
    if (test) return { ...test, key: toOrderKey(test) }
    // Mostly among the first; only where many are of a recipient that is under way it is looked for among more.
    for (const limit of isActive ? [page, MAX_WAITING] : []) {
      const rows = sql(this.#db).due.all(accountId, id, until, limit)
      const found = findFree(rows)
      if (found) return { ...found, key: toOrderKey(found) }
      if (rows.length < limit) break
    }
    return undefined
  }

  /** When the next stored delivery is due, at `now` or before if it is; undefined: there is none. */
  firstDue(now: Millis): Millis | undefined {
    const at = sql(this.#db).firstDue.get(this.webhook.id)?.at ?? undefined
    return at !== undefined && isBeyondRetrySchedule(at, now) ? now : at
  }

  /** A time that no ladder gives was stored under a clock that was ahead: it is due. */
  #dueUntil(now: Millis): Millis {
    const at = sql(this.#db).firstDue.get(this.webhook.id)?.at
    return typeof at === 'number' && isBeyondRetrySchedule(at, now) ? at : now
  }

  beginStored({ id, key }: DueDelivery): void {
    this.#storedInFlight.add(id)
    this.#busyKeys.add(key)
  }

  endStored(id: number): void {
    this.#storedInFlight.delete(id)
  }
}

/** Events after one that have a row already. */
const findSeqsAfter = (db: Database, webhookId: number, seq: number): number[] =>
  sql(db)
    .told.all(webhookId, seq)
    .map((row) => row.seq)

const isBeyondRetrySchedule = (at: Millis, now: Millis): boolean => at - now > MAX_DELAY_MS

/** Events of one recipient have the same key, and those of an email that are of no recipient; what is of no email stands alone. */
const toOrderKey = ({
  seq,
  id,
  emailId,
  recipientId,
}: {
  seq: number | null
  id?: number
  emailId: number | null
  recipientId: number | null
}) =>
  recipientId !== null
    ? `recipient ${recipientId}`
    : emailId !== null
      ? `email ${emailId}`
      : seq !== null
        ? `event ${seq}`
        : `delivery ${id}`
