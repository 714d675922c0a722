/**
 * @module Tells webhooks what happened: reads the events of their accounts, makes the attempts, has the outcomes written, and repeats what may be
 * repeated. An event is told at least once: what was under way when the process died is told again.
 *
 * A slow endpoint delays nobody else: it has few attempts of its own under way, one of them whatever the others do, and nothing of the mail waits
 * for it.
 */
import type { App } from '#features/app.ts'
import type { Millis, Timer } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes, seconds } from '#platform/units.ts'
import { lastSeqOf } from '../events/record.ts'
import { type AttemptResult, attempt } from './attempt.ts'
import { TEST_EVENT } from './event-names.ts'
import { type DueDelivery, Lane, type WaitingEvent } from './lane.ts'
import {
  ENDED_BY_FAILURES,
  endDelivery,
  moveCursor,
  OFF_REASON,
  type Tried,
  type Written,
  writeAttempt,
} from './outcome.ts'
import { payloadOf } from './payload.ts'
import { endPending } from './pending.ts'
import { activeWebhooks, findWebhookById, openSecret } from './webhooks.ts'

/** Attempts under way over all webhooks, beyond the one that each may always have. */
const MOST_RUNNING = 200
/** An endpoint that takes longer than this has one attempt at a time, as has one that failed. */
const SLOW_MS = seconds(2)
/** A timer that looks again at least this often, because the clock may have jumped. */
const LONGEST_SLEEP_MS = minutes(1)
const STORAGE_RETRY_MS = seconds(1)
/** How long a cursor that moved over unwanted events may stay unstored. */
const CURSOR_STORED_MS = seconds(10)
/** Stored deliveries that are looked up at a time. */
const DUE_AT_ONCE = 20
const STOP_GRACE_MS = seconds(8)

const sql = prepared((db) => ({
  withPending: db.prepare<{ id: number }, []>(
    'SELECT DISTINCT webhook_id AS id FROM webhook_deliveries WHERE next_at IS NOT NULL',
  ),
}))

interface Entry {
  readonly lane: Lane
  timer: Timer | undefined
  /** Where the cursor is stored. */
  storedCursor: number
  cursorTimer: Timer | undefined
}

/** What is under way for a lane: an event for the first time, or a stored delivery. */
type Task =
  | { readonly kind: 'event'; readonly event: WaitingEvent }
  | { readonly kind: 'stored'; readonly delivery: DueDelivery }

export class WebhookDispatcher {
  readonly #app: App
  readonly #entries = new Map<number, Entry>()
  readonly #byAccount = new Map<number, Set<number>>()
  /** The last event of an account that is known to be on disk. */
  readonly #durableSeq = new Map<number, number>()
  readonly #aborting = new AbortController()
  readonly #running = new Set<Promise<void>>()
  #attempts = 0
  /** Outcomes that the database has refused so far: while there are any, nothing more is begun. */
  #refused = 0
  #isStopping = false
  #stopListening: (() => void)[] = []

  constructor(app: App) {
    this.#app = app
  }

  /** Takes up what the last run left, then listens. Before anything else writes events, so that all there is is on disk. */
  start(): void {
    const { db, eventsRecorded, webhookChanged } = this.#app
    this.#stopListening = [
      eventsRecorded.listen(({ accountId, lastSeq }) => {
        this.#durableSeq.set(accountId, lastSeq)
        for (const id of this.#byAccount.get(accountId) ?? []) this.#pumpId(id)
      }),
      webhookChanged.listen(({ webhookId }) => this.#load(webhookId)),
    ]
    const active = activeWebhooks(db)
    for (const { accountId } of active) this.#durableSeq.set(accountId, lastSeqOf(db, accountId))
    const pending = sql(db).withPending.all()
    for (const id of new Set([...active, ...pending].map((row) => row.id))) this.#load(id)
  }

  /**
   * Begins nothing more and waits for the attempts under way; those that take longer than `graceMs` are given up, and made again after the next
   * start.
   */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#isStopping = true
    for (const stopListening of this.#stopListening) stopListening()
    for (const { timer, cursorTimer } of this.#entries.values()) {
      timer?.cancel()
      cursorTimer?.cancel()
    }
    const grace = this.#app.clock.after(graceMs, () => this.#aborting.abort())
    if (graceMs === 0) this.#aborting.abort()
    await Promise.all(this.#running)
    grace.cancel()
    await Promise.all([...this.#entries.values()].map((entry) => this.#storeCursor(entry)))
  }

  /** Attempts under way now. */
  get inFlight(): number {
    return this.#attempts
  }

  /** A webhook is new or was changed, or something of it is due. Never throws: it is called by a signal. */
  #load(id: number): void {
    const { db, keys, log } = this.#app
    try {
      const webhook = findWebhookById(db, id)
      if (!webhook || webhook.deletedAt !== null) {
        this.#forget(id)
        return
      }
      const secret = openSecret(keys, webhook)
      // Also what a crash left of it; nothing, for a webhook that its user switched off.
      if (webhook.offByFailures) this.#background(endPending(this.#app, id, ENDED_BY_FAILURES))
      const entry = this.#entries.get(id)
      if (entry) entry.lane.change(webhook, secret)
      else this.#add(new Lane(db, webhook, secret))
    } catch (error) {
      log.error(
        { err: error, webhook: id },
        'a webhook is told nothing, because it cannot be read or its secret not be opened',
      )
      this.#forget(id)
    }
    this.#pumpId(id)
  }

  #add(lane: Lane): void {
    const { id, accountId, cursorSeq } = lane.webhook
    this.#entries.set(id, { lane, timer: undefined, storedCursor: cursorSeq, cursorTimer: undefined })
    this.#byAccount.set(accountId, (this.#byAccount.get(accountId) ?? new Set()).add(id))
  }

  #forget(id: number): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry.timer?.cancel()
    entry.cursorTimer?.cancel()
    this.#entries.delete(id)
    this.#byAccount.get(entry.lane.webhook.accountId)?.delete(id)
  }

  /** Storage takes outcomes again: whatever waited for that goes on. */
  #pumpAll(): void {
    for (const entry of [...this.#entries.values()]) this.#pump(entry)
  }

  #pumpId(id: number): void {
    const entry = this.#entries.get(id)
    if (entry) this.#pump(entry)
  }

  /** Begins whatever may be begun now, and looks again when more may be. Never throws: it is called by signals and timers. */
  #pump(entry: Entry): void {
    if (this.#isStopping) return
    const { clock, log } = this.#app
    const { lane } = entry
    entry.timer?.cancel()
    let sleepMs: number | undefined
    try {
      const wakeAt = this.#beginDue(entry)
      sleepMs = wakeAt === undefined ? undefined : Math.min(wakeAt - clock.now(), LONGEST_SLEEP_MS)
    } catch (error) {
      log.error({ err: error, webhook: lane.webhook.id }, 'a webhook could not be told what is next; it is tried again')
      sleepMs = STORAGE_RETRY_MS
    }
    if (sleepMs !== undefined) entry.timer = clock.after(sleepMs, () => this.#pump(entry))
    this.#storeCursorLater(entry)
  }

  /** Stored deliveries that are due and new events, in turn. Gives when the next is due that is not yet; undefined: none is known. */
  #beginDue(entry: Entry): Millis | undefined {
    const { lane } = entry
    const now = this.#app.clock.now()
    const firstDue = lane.firstDue()
    const isDue = firstDue !== undefined && firstDue <= now
    const due = isDue ? lane.dueDeliveries(now, DUE_AT_ONCE) : []
    let wakeAt = isDue ? undefined : firstDue
    while (this.#hasRoom(lane)) {
      const delivery = due.shift()
      // One of the same recipient is begun when that is over, which looks again.
      if (delivery && !lane.isBusy(delivery)) this.#begin(entry, { kind: 'stored', delivery })
      if (!this.#hasRoom(lane)) break
      const next = lane.nextEvent(this.#durableSeq.get(lane.webhook.accountId) ?? 0, now)
      if (typeof next === 'object') this.#begin(entry, { kind: 'event', event: next })
      else if (next !== undefined) wakeAt = Math.min(wakeAt ?? next, next)
      if (!delivery && typeof next !== 'object') break
    }
    return wakeAt
  }

  #hasRoom(lane: Lane): boolean {
    if (this.#refused > 0) return false
    if (lane.running === 0) return true
    return lane.isTrusted && lane.running < this.#app.config.webhookConcurrency && this.#attempts < MOST_RUNNING
  }

  #begin(entry: Entry, task: Task): void {
    const { lane } = entry
    lane.running++
    this.#attempts++
    if (task.kind === 'event') lane.begin(task.event)
    else lane.beginStored(task.delivery)
    this.#background(this.#run(entry, task))
  }

  /** What `stop` waits for. */
  #background(work: Promise<void>): void {
    const logged = work.catch((error: unknown) => {
      this.#app.log.error({ err: error }, 'something of the webhooks failed in an unexpected way')
    })
    this.#running.add(logged)
    void logged.finally(() => this.#running.delete(logged))
  }

  /** Makes an attempt, then gives back its place. What did not come to a stored outcome stays begun: the cursor never passes it. */
  async #run(entry: Entry, task: Task): Promise<void> {
    const { lane } = entry
    let isOver = false
    const giveBackPlace = () => {
      if (isOver) return
      isOver = true
      lane.running--
      this.#attempts--
      lane.freeKey(task.kind === 'event' ? task.event : task.delivery)
      this.#pumpId(lane.webhook.id)
    }
    try {
      if (!(await this.#make(entry, task, giveBackPlace))) return
      if (task.kind === 'event') lane.end(task.event)
      else lane.endStored(task.delivery.id)
    } finally {
      giveBackPlace()
      this.#pumpId(lane.webhook.id)
    }
  }

  /** An attempt from its payload to its stored outcome; false when there is none, because the service ends. */
  async #make(entry: Entry, task: Task, giveBackPlace: () => void): Promise<boolean> {
    const { lane } = entry
    const { commit } = this.#app
    const body = this.#bodyOf(lane, task)
    if (body === undefined) return (await this.#store(() => commit.write((tx) => endGone(tx, task)))) !== undefined
    const stored = task.kind === 'stored' ? task.delivery : undefined
    const result = await attempt(this.#app, {
      url: lane.webhook.url,
      secret: lane.secret,
      event: stored?.event ?? body.event,
      body: body.text,
      attempt: (stored?.attempts ?? 0) + 1,
      signal: this.#aborting.signal,
    })
    // Given up because the service ends: nothing is known of it, so nothing is stored.
    if (result.kind === 'transient' && this.#aborting.signal.aborted) return false
    lane.isTrusted = result.kind === 'delivered' && result.durationMs <= SLOW_MS
    // A failure keeps its place until it is counted: the one that switches the webhook off must be the last.
    if (result.kind === 'delivered') giveBackPlace()
    else this.#logFailure(lane, task, result)
    const written = await this.#store(() =>
      commit.write((tx) => {
        const { cursor } = lane
        return { ...writeAttempt(this.#app, tx, lane.webhook.id, triedOf(task), result, cursor), cursor }
      }),
    )
    if (written) this.#afterStored(entry, written)
    return written !== undefined
  }

  #bodyOf(lane: Lane, task: Task): { event: string; text: string } | undefined {
    const { payload, event, seq } = task.kind === 'stored' ? task.delivery : { payload: null, ...task.event }
    if (payload !== null) return { event, text: payload }
    const made = seq === null ? undefined : payloadOf(this.#app, lane.webhook.accountId, seq)
    return made && { event: made.event, text: JSON.stringify(made.body) }
  }

  /** Writes an outcome, again and again while the database refuses: nothing more is begun meanwhile. Undefined: given up at the end. */
  async #store<T>(write: () => Promise<T>): Promise<T | undefined> {
    for (let isRefused = false; ; ) {
      try {
        const written = await write()
        if (isRefused && --this.#refused === 0) this.#pumpAll()
        return written
      } catch (error) {
        this.#app.log.error({ err: error }, 'the outcome of a webhook attempt could not be stored; it is tried again')
        if (!isRefused) this.#refused++
        isRefused = true
        if (this.#isStopping) return undefined
        await this.#app.clock.sleep(STORAGE_RETRY_MS)
      }
    }
  }

  #afterStored(entry: Entry, { cursor, switchedOff }: Written & { cursor: number }): void {
    const { webhook } = entry.lane
    entry.storedCursor = Math.max(entry.storedCursor, cursor)
    if (!switchedOff) return
    this.#app.log.warn({ webhook: formatUuid(webhook.uuid), url: webhook.url }, `webhook ${OFF_REASON}`)
    this.#load(webhook.id)
  }

  #logFailure({ webhook }: Lane, task: Task, { kind, error, statusCode, durationMs }: AttemptResult): void {
    const { event, seq } = task.kind === 'event' ? task.event : task.delivery
    const attempts = task.kind === 'event' ? 1 : task.delivery.attempts + 1
    this.#app.log.info(
      { webhook: formatUuid(webhook.uuid), event, seq, attempt: attempts, kind, error, statusCode, durationMs },
      'webhook attempt failed',
    )
  }

  /** Events that nobody wants move the cursor too; stored now and then, so that a restart need not look at them again. */
  #storeCursorLater(entry: Entry): void {
    if (entry.cursorTimer || entry.lane.cursor <= entry.storedCursor) return
    entry.cursorTimer = this.#app.clock.after(CURSOR_STORED_MS, () => {
      entry.cursorTimer = undefined
      void this.#storeCursor(entry)
    })
  }

  async #storeCursor(entry: Entry): Promise<void> {
    const { cursor, webhook } = entry.lane
    if (cursor <= entry.storedCursor || !webhook.isActive) return
    try {
      await this.#app.commit.write((tx) => moveCursor(tx, webhook.id, cursor))
      entry.storedCursor = cursor
    } catch (error) {
      this.#app.log.warn({ err: error }, 'how far a webhook was told could not be stored; a restart looks at more')
    }
  }
}

const triedOf = (task: Task): Tried =>
  task.kind === 'event'
    ? { kind: 'event', seq: task.event.seq, event: task.event.event }
    : {
        kind: 'stored',
        deliveryId: task.delivery.id,
        attempts: task.delivery.attempts,
        isTest: task.delivery.event === TEST_EVENT,
      }

/** What was to be told is gone, for example erased. An event without a delivery is passed over. */
function endGone(tx: Tx, task: Task): true {
  if (task.kind === 'stored') endDelivery(tx, task.delivery.id, 'The event is gone, so there is nothing to tell.')
  return true
}
