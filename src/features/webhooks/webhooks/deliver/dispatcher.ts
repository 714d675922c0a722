/**
 * @module Delivers events to webhooks: reads the events of their accounts, makes attempts, stores the outcomes, and
 * retries. Delivery is at least once: attempts in flight at a crash are repeated.
 *
 * A slow endpoint delays no other: it gets only a few concurrent attempts. Mail delivery never waits for webhooks.
 */
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { readLastSeq } from '#features/core/events/record.ts'
import { prepareStatements, readSnapshot } from '#platform/db/open.ts'
import { attempt } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { wakeAt } from '#platform/queue/due-loop.ts'
import { STORAGE_RETRY_MS } from '#platform/queue/retry.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { DEACTIVATION_REASON, endPending } from '../manage/pending.ts'
import { openSigningSecrets } from '../manage/secrets.ts'
import { findWebhookById, listActiveWebhooks, type Webhook } from '../manage/webhooks.ts'
import { Streak } from './failures.ts'
import { moveCursor } from './outcome.ts'
import { type Slot, Slots } from './slots.ts'
import { PUT_BACK, type TaskResult, TaskRunner } from './task.ts'
import { type RegistryEntry, type Task, WebhookQueue, WebhookRegistry } from './webhook-queue.ts'

/** How long a cursor that skipped unsubscribed events may stay unstored. */
const CURSOR_STORE_DELAY_MS = seconds(10)
/** Attempts begun in one tick. An event may be for a hundred webhooks, and a thousand retries due together. */
const MAX_BEGUN_PER_TICK = 32
/** Reading so many events counts as one attempt: a hundred webhooks may each skip many. */
const EVENTS_READ_PER_ATTEMPT = 50
/** To one webhook; at most five while it responds slower than a second, one while it fails. */
const MAX_CONCURRENT_REQUESTS = 10
const STOP_GRACE_MS = seconds(8)

const sql = prepareStatements((db) => ({
  withPending: db.prepare<{ id: number }, []>(
    'SELECT DISTINCT webhook_id AS id FROM webhook_deliveries WHERE next_at IS NOT NULL',
  ),
}))

export class WebhookDispatcher {
  readonly #app: App
  readonly #registry: WebhookRegistry
  readonly #slots: Slots
  readonly #tasks: TaskRunner
  /** The last durable event of each account. */
  readonly #durableSeq = new Map<number, number>()
  readonly #running = new Set<Promise<void>>()
  /** Cost of the work in the current tick. Beginning an attempt costs 1. */
  #costInTick = 0
  /** Webhooks that continue in the next tick, in order. */
  readonly #nextTick = new Set<number>()
  #isStopping = false
  #stopListening: (() => void)[] = []

  /** @param maxRequests to one webhook at the same time, for tests */
  constructor(app: App, maxRequests = MAX_CONCURRENT_REQUESTS) {
    this.#app = app
    this.#registry = new WebhookRegistry(app)
    this.#slots = new Slots(maxRequests)
    // The database accepts outcomes again, so webhooks that waited for it continue.
    this.#tasks = new TaskRunner(app, () => {
      for (const entry of this.#registry.all()) this.#pump(entry)
    })
  }

  /** Resumes the work of the last run, then listens. Call it before anything else writes events. */
  start(): void {
    const { db, eventsRecorded, webhookChanged } = this.#app
    this.#stopListening = [
      eventsRecorded.listen(({ accountId, lastSeq }) => {
        const before = this.#durableSeq.get(accountId)
        this.#durableSeq.set(accountId, lastSeq)
        for (const id of this.#registry.findConcerned(accountId, before, lastSeq)) this.#pumpId(id)
      }),
      // Whatever users do, but for a test, may be because they have mended the endpoint.
      webhookChanged.listen(({ webhookId, isTest }) => this.#load(webhookId, !isTest)),
    ]
    const active = listActiveWebhooks(db)
    for (const { accountId } of active) this.#durableSeq.set(accountId, readLastSeq(db, accountId))
    const pending = sql(db).withPending.all()
    for (const id of new Set([...active, ...pending].map((row) => row.id))) this.#load(id)
  }

  /** Waits for the attempts in flight; those that exceed `graceMs` are repeated after the next start. */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#isStopping = true
    for (const stopListening of this.#stopListening) stopListening()
    this.#tasks.stop()
    for (const { timer, cursorTimer } of this.#registry.all()) {
      timer?.cancel()
      cursorTimer?.cancel()
    }
    const grace = this.#app.clock.after(graceMs, () => this.#tasks.abort())
    if (graceMs === 0) this.#tasks.abort()
    await Promise.all(this.#running)
    grace.cancel()
    await Promise.all(this.#registry.all().map((entry) => this.#storeCursor(entry)))
  }

  get inFlight(): number {
    return this.#slots.attempts
  }

  /** Loads a new or changed webhook; a resumed one may begin one attempt in spite of a backoff. Never throws. */
  #load(id: number, isResumed = false): void {
    const { clock, db, log } = this.#app
    if (this.#isStopping) return
    try {
      const webhook = findWebhookById(db, id)
      if (webhook && webhook.deletedAt === null) this.#register(webhook)
      else this.#registry.remove(id)
      // At the start too: a crash may have left some.
      if (webhook && !(webhook.isActive && webhook.deletedAt === null)) this.#track(endPending(this.#app, webhook))
    } catch (error) {
      log.error({ err: error, webhook: id }, 'webhook not read; retrying')
      clock.after(STORAGE_RETRY_MS, () => this.#load(id, isResumed))
    }
    if (isResumed) this.#registry.get(id)?.queue.streak.resume()
    this.#pumpId(id)
  }

  #register(webhook: Webhook): void {
    const { clock, db, log } = this.#app
    const { id } = webhook
    const secrets = attempt(() => openSigningSecrets(this.#app, webhook))
    if (secrets === undefined) {
      log.error({ webhook: id }, 'webhook skipped: cannot decrypt its secret')
      this.#registry.remove(id)
      return
    }
    const entry = this.#registry.get(id)
    const streak = new Streak(webhook, clock.now(), clock.monotonicMs())
    if (!entry) {
      this.#registry.add(new WebhookQueue(db, webhook, secrets, streak))
      return
    }
    entry.queue.update(webhook, secrets, streak)
    // Replays reach only up to the stored cursor. Storing it now lets them cover the events that were skipped before
    // the change.
    this.#track(this.#storeCursor(entry))
  }

  #pumpId(id: number): void {
    const entry = this.#registry.get(id)
    if (entry) this.#pump(entry)
  }

  /** Begins all attempts that may begin now, and schedules the next check. Never throws. */
  #pump(entry: RegistryEntry): void {
    if (this.#isStopping) return
    const { clock, db, log } = this.#app
    const { queue } = entry
    entry.timer?.cancel()
    let dueAt: Millis | undefined
    try {
      dueAt = readSnapshot(db, () => this.#beginDue(entry))
    } catch (error) {
      log.error({ err: error, webhook: queue.webhook.id }, 'webhook dispatch failed; retrying')
      dueAt = clock.now() + STORAGE_RETRY_MS
    }
    if (dueAt !== undefined) entry.timer = wakeAt(clock, dueAt, () => this.#pump(entry))
    this.#storeCursorLater(entry)
  }

  /** Begins due stored deliveries and new events alternately. Returns when the next known one is due. */
  #beginDue(entry: RegistryEntry): Millis | undefined {
    const { queue } = entry
    if (this.#waitsForNextTick(queue)) return undefined
    const now = this.#app.clock.now()
    const durableSeq = this.#durableSeq.get(queue.webhook.accountId) ?? 0
    const firstDue = queue.firstDue(now)
    const hasStored = firstDue !== undefined && firstDue <= now
    const backoffLeftMs = queue.streak.backoffLeftMs(this.#app.clock.monotonicMs())
    const isBackingOff = backoffLeftMs > 0
    let dueAt = hasStored ? undefined : firstDue
    const takeStored = (): Task | undefined => (hasStored ? queue.nextStored(now, isBackingOff) : undefined)
    const takeEvent = (): Task | undefined => {
      const before = queue.rowsRead
      const next = queue.webhook.isActive && !isBackingOff ? queue.nextEvent(durableSeq, now) : undefined
      this.#addCost((queue.rowsRead - before) / EVENTS_READ_PER_ATTEMPT)
      if (typeof next === 'object') return next
      if (next !== undefined) dueAt = Math.min(dueAt ?? next, next)
      return undefined
    }
    while (!this.#tasks.isStorageFailing && this.#slots.hasCapacity(queue)) {
      if (this.#waitsForNextTick(queue)) break
      const task = queue.isStoredNext ? (takeStored() ?? takeEvent()) : (takeEvent() ?? takeStored())
      if (!task) break
      queue.isStoredNext = task.kind === 'event'
      this.#begin(entry, task)
    }
    if (isBackingOff) dueAt = Math.min(dueAt ?? Number.POSITIVE_INFINITY, now + backoffLeftMs)
    // A due delivery that cannot begin now begins when an attempt ends. Without any attempt in flight, a timer checks
    // again.
    if (hasStored && queue.running === 0) dueAt ??= Number.POSITIVE_INFINITY
    return dueAt
  }

  #begin(entry: RegistryEntry, task: Task): void {
    this.#addCost(1)
    const { queue } = entry
    const { id, accountId } = queue.webhook
    queue.begin(task)
    const slot = this.#slots.acquire(queue, () => {
      queue.freeKey(task)
      this.#slots.pumpWaiting(accountId, (id) => this.#pumpId(id))
      this.#pumpId(id)
    })
    this.#track(this.#run(entry, task, slot))
  }

  /** Counts work in the current tick, in attempts, and schedules the next one. */
  #addCost(cost: number): void {
    if (this.#costInTick === 0 && cost > 0) void yieldToEventLoop().then(() => this.#startTick())
    this.#costInTick += cost
  }

  /** When the work limit of this tick is reached, the queue continues in the next one. */
  #waitsForNextTick({ webhook }: WebhookQueue): boolean {
    if (this.#costInTick < MAX_BEGUN_PER_TICK) return false
    this.#nextTick.add(webhook.id)
    return true
  }

  #startTick(): void {
    this.#costInTick = 0
    for (const id of this.#nextTick) {
      // Any work begun here schedules another tick.
      if (this.#costInTick >= MAX_BEGUN_PER_TICK) return
      this.#nextTick.delete(id)
      this.#pumpId(id)
    }
  }

  /** Registers work that `stop` waits for. */
  #track(work: Promise<void>): void {
    const logged = work.catch((error: unknown) => {
      this.#app.log.error({ err: error }, 'unexpected error in webhook background work')
    })
    this.#running.add(logged)
    void logged.finally(() => this.#running.delete(logged))
  }

  /** Makes an attempt, then releases its slot. The cursor never passes an attempt without a stored outcome. */
  async #run(entry: RegistryEntry, task: Task, slot: Slot): Promise<void> {
    const { queue } = entry
    try {
      const done = await this.#tasks.run(queue, task, slot)
      if (done === PUT_BACK) queue.putBack(task)
      else if (done) {
        if (done.written) this.#onStored(entry, done.written)
        queue.end(task)
      }
    } finally {
      slot.release()
      this.#pumpId(queue.webhook.id)
    }
  }

  #onStored(entry: RegistryEntry, { cursor, isDeactivated }: NonNullable<TaskResult['written']>): void {
    const { webhook } = entry.queue
    entry.storedCursor = Math.max(entry.storedCursor, cursor)
    if (!isDeactivated) return
    this.#app.log.warn(
      {
        webhook: formatUuid(webhook.uuid),
        account: findAccountLogId(this.#app.db, webhook.accountId),
        url: webhook.url,
      },
      `webhook ${DEACTIVATION_REASON}`,
    )
    this.#load(webhook.id)
  }

  /** Stores now and then how far unsubscribed events moved the cursor: a restart need not examine them again. */
  #storeCursorLater(entry: RegistryEntry): void {
    if (entry.cursorTimer || entry.queue.cursor <= entry.storedCursor) return
    entry.cursorTimer = this.#app.clock.after(CURSOR_STORE_DELAY_MS, () => {
      entry.cursorTimer = undefined
      void this.#storeCursor(entry)
    })
  }

  async #storeCursor(entry: RegistryEntry): Promise<void> {
    const { cursor, webhook } = entry.queue
    if (cursor <= entry.storedCursor || !webhook.isActive) return
    try {
      await this.#app.commit.writeFromReserve((tx) => moveCursor(tx, webhook.id, cursor))
      entry.storedCursor = cursor
    } catch (error) {
      this.#app.log.warn({ err: error }, 'webhook cursor not stored; a restart reads more events again')
    }
  }
}
