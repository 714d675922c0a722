/**
 * @module Tells webhooks what happened: reads the events of their accounts, makes the attempts, has the outcomes written, and repeats what may be
 * repeated. An event is told at least once: what was under way when the process died is told again.
 *
 * A slow endpoint delays nobody else: it has few attempts of its own under way, one of them whatever the others do, and nothing of the mail waits
 * for it.
 */
import type { App } from '#features/core/app/app.ts'
import { lastSeqOf } from '#features/core/events/record.ts'
import { giveWay, type Millis } from '#platform/clock.ts'
import { prepared, readTogether } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { wakeAt } from '#platform/queue/due-loop.ts'
import { STORAGE_RETRY_MS } from '#platform/queue/retry.ts'
import { seconds } from '#platform/units.ts'
import { signingSecret } from './inbound-secret.ts'
import { Lane } from './lane.ts'
import { ENDED_BY_FAILURES, moveCursor, OFF_REASON } from './outcome.ts'
import { endPending } from './pending.ts'
import { type Place, Places } from './places.ts'
import { type Entry, Roster } from './roster.ts'
import { Streak } from './streak.ts'
import { type Done, PUT_BACK, type Task, Tasks } from './task.ts'
import { activeWebhooks, findWebhookById, type Webhook } from './webhooks.ts'

/** How long a cursor that moved over unwanted events may stay unstored. */
const CURSOR_STORED_MS = seconds(10)
/** Attempts that are begun in one turn of the event loop, some ms: an event may be for a hundred webhooks, and a thousand retries due together. */
const MOST_BEGUN_AT_ONCE = 32
/** Events that cost as much to read as an attempt to begin: a hundred webhooks may each have a long way through what they do not want. */
const READ_FOR_ONE_BEGUN = 50
/** Webhooks that are looked after together at the start. */
const LOADED_AT_ONCE = 50
const STOP_GRACE_MS = seconds(8)

const sql = prepared((db) => ({
  withPending: db.prepare<{ id: number }, []>(
    'SELECT DISTINCT webhook_id AS id FROM webhook_deliveries WHERE next_at IS NOT NULL',
  ),
}))

export class WebhookDispatcher {
  readonly #app: App
  readonly #roster: Roster
  readonly #places: Places
  readonly #tasks: Tasks
  /** The last event of an account that is known to be on disk. */
  readonly #durableSeq = new Map<number, number>()
  readonly #running = new Set<Promise<void>>()
  /** What was done in this turn of the event loop, in attempts begun. */
  #doneInTurn = 0
  /** Webhooks that go on when everybody else has had a turn, in order. */
  readonly #nextTurn = new Set<number>()
  #isStopping = false
  #stopListening: (() => void)[] = []

  constructor(app: App) {
    this.#app = app
    this.#roster = new Roster(app)
    this.#places = new Places(app.config.webhookConcurrency)
    // Whatever waited for that goes on.
    this.#tasks = new Tasks(app, () => {
      for (const entry of this.#roster.all()) this.#pump(entry)
    })
  }

  /** Takes up what the last run left, then listens. Before anything else writes events, so that all there is is on disk. */
  start(): void {
    const { db, eventsRecorded, webhookChanged } = this.#app
    this.#stopListening = [
      eventsRecorded.listen(({ accountId, lastSeq }) => {
        const before = this.#durableSeq.get(accountId)
        this.#durableSeq.set(accountId, lastSeq)
        for (const id of this.#roster.concernedBy(accountId, before, lastSeq)) this.#pumpId(id)
      }),
      webhookChanged.listen(({ webhookId }) => this.#load(webhookId)),
    ]
    const active = activeWebhooks(db)
    for (const { accountId } of active) this.#durableSeq.set(accountId, lastSeqOf(db, accountId))
    const pending = sql(db).withPending.all()
    this.#background(this.#loadAll([...new Set([...active, ...pending].map((row) => row.id))]))
  }

  /** Some at a time: each begins an attempt, and thousands at once would hold up everybody else. */
  async #loadAll(ids: readonly number[]): Promise<void> {
    for (const [index, id] of ids.entries()) {
      if (index > 0 && index % LOADED_AT_ONCE === 0) await giveWay()
      if (this.#isStopping) return
      this.#load(id)
    }
  }

  /**
   * Begins nothing more and waits for the attempts under way; those that take longer than `graceMs` are given up, and made again after the next
   * start.
   */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#isStopping = true
    for (const stopListening of this.#stopListening) stopListening()
    this.#tasks.stop()
    for (const { timer, cursorTimer } of this.#roster.all()) {
      timer?.cancel()
      cursorTimer?.cancel()
    }
    const grace = this.#app.clock.after(graceMs, () => this.#tasks.abort())
    if (graceMs === 0) this.#tasks.abort()
    await Promise.all(this.#running)
    grace.cancel()
    await Promise.all(this.#roster.all().map((entry) => this.#storeCursor(entry)))
  }

  /** Attempts under way now. */
  get inFlight(): number {
    return this.#places.attempts
  }

  /** A webhook is new or was changed, or something of it is due. Never throws: it is called by a signal. */
  #load(id: number): void {
    const { clock, db, log } = this.#app
    if (this.#isStopping) return
    try {
      const webhook = findWebhookById(db, id)
      if (webhook && webhook.deletedAt === null) this.#take(webhook)
      else this.#roster.remove(id)
    } catch (error) {
      log.error({ err: error, webhook: id }, 'a webhook could not be read; it is tried again')
      clock.after(STORAGE_RETRY_MS, () => this.#load(id))
    }
    this.#pumpId(id)
  }

  #take(webhook: Webhook): void {
    const { clock, db, log } = this.#app
    const { id } = webhook
    const secret = this.#secretOf(webhook)
    if (secret === undefined) {
      log.error({ webhook: id }, 'a webhook is told nothing, because its secret cannot be opened')
      this.#roster.remove(id)
      return
    }
    // Also what a crash left of it; nothing, for a webhook that its user switched off.
    if (webhook.offByFailures) this.#background(endPending(this.#app, id, ENDED_BY_FAILURES))
    const entry = this.#roster.get(id)
    const streak = new Streak(webhook, clock.now(), clock.monotonicMs())
    if (!entry) {
      this.#roster.add(new Lane(db, webhook, secret, streak))
      return
    }
    entry.lane.change(webhook, secret, streak)
    // Replays reach up to the stored cursor: what was passed over before the change is theirs.
    this.#background(this.#storeCursor(entry))
  }

  #secretOf(webhook: Webhook): string | undefined {
    try {
      return signingSecret(this.#app, webhook)
    } catch {
      return undefined
    }
  }

  #pumpId(id: number): void {
    const entry = this.#roster.get(id)
    if (entry) this.#pump(entry)
  }

  /** Begins whatever may be begun now, and looks again when more may be. Never throws: it is called by signals and timers. */
  #pump(entry: Entry): void {
    if (this.#isStopping) return
    const { clock, db, log } = this.#app
    const { lane } = entry
    entry.timer?.cancel()
    let dueAt: Millis | undefined
    try {
      dueAt = readTogether(db, () => this.#beginDue(entry))
    } catch (error) {
      log.error({ err: error, webhook: lane.webhook.id }, 'a webhook could not be told what is next; it is tried again')
      dueAt = clock.now() + STORAGE_RETRY_MS
    }
    if (dueAt !== undefined) entry.timer = wakeAt(clock, dueAt, () => this.#pump(entry))
    this.#storeCursorLater(entry)
  }

  /** Begins stored deliveries that are due and new events, in turn. Gives when the next is due that is not yet; undefined: none is known. */
  #beginDue(entry: Entry): Millis | undefined {
    const { lane } = entry
    if (this.#waitsForTurn(lane)) return undefined
    const now = this.#app.clock.now()
    const durableSeq = this.#durableSeq.get(lane.webhook.accountId) ?? 0
    const firstDue = lane.firstDue(now)
    const hasStored = firstDue !== undefined && firstDue <= now
    const restLeftMs = lane.streak.restLeftMs(this.#app.clock.monotonicMs())
    const isResting = restLeftMs > 0
    let dueAt = hasStored ? undefined : firstDue
    const stored = (): Task | undefined => {
      const delivery = hasStored ? lane.nextStored(now, isResting) : undefined
      return delivery && { kind: 'stored', delivery }
    }
    const event = (): Task | undefined => {
      const before = lane.rowsRead
      const next = lane.webhook.isActive && !isResting ? lane.nextEvent(durableSeq, now) : undefined
      this.#count((lane.rowsRead - before) / READ_FOR_ONE_BEGUN)
      if (typeof next === 'object') return { kind: 'event', event: next }
      if (next !== undefined) dueAt = Math.min(dueAt ?? next, next)
      return undefined
    }
    while (!this.#tasks.isRefused && this.#places.hasRoom(lane)) {
      if (this.#waitsForTurn(lane)) break
      const task = lane.isStoredTurn ? (stored() ?? event()) : (event() ?? stored())
      if (!task) break
      lane.isStoredTurn = task.kind === 'event'
      this.#begin(entry, task)
    }
    if (isResting) dueAt = Math.min(dueAt ?? Number.POSITIVE_INFINITY, now + restLeftMs)
    // What is due and cannot be begun is begun when something is over; should nothing be under way, it is looked at again.
    if (hasStored && lane.running === 0) dueAt ??= Number.POSITIVE_INFINITY
    return dueAt
  }

  #begin(entry: Entry, task: Task): void {
    this.#count(1)
    const { lane } = entry
    const { id, accountId } = lane.webhook
    if (task.kind === 'event') lane.begin(task.event)
    else lane.beginStored(task.delivery)
    const place = this.#places.take(lane, () => {
      lane.freeKey(task.kind === 'event' ? task.event : task.delivery)
      this.#pumpWaiting(accountId)
      this.#pumpId(id)
    })
    this.#background(this.#run(entry, task, place))
  }

  /** Something was done in this turn of the event loop: after it comes another. @param cost in attempts begun */
  #count(cost: number): void {
    if (this.#doneInTurn === 0 && cost > 0) void giveWay().then(() => this.#takeTurn())
    this.#doneInTurn += cost
  }

  /** As much was done as may be in this turn of the event loop: the lane goes on in the next. */
  #waitsForTurn({ webhook }: Lane): boolean {
    if (this.#doneInTurn < MOST_BEGUN_AT_ONCE) return false
    this.#nextTurn.add(webhook.id)
    return true
  }

  #takeTurn(): void {
    this.#doneInTurn = 0
    for (const id of this.#nextTurn) {
      // What is begun here has the turn after this one called.
      if (this.#doneInTurn >= MOST_BEGUN_AT_ONCE) return
      this.#nextTurn.delete(id)
      this.#pumpId(id)
    }
  }

  #pumpWaiting(accountId: number): void {
    this.#places.pumpWaiting(
      accountId,
      (id) => this.#roster.get(id)?.lane.webhook.routeId !== null,
      (id) => this.#pumpId(id),
    )
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
  async #run(entry: Entry, task: Task, place: Place): Promise<void> {
    const { lane } = entry
    try {
      const done = await this.#tasks.make(lane, task, place)
      if (!done) return
      if (done === PUT_BACK) {
        if (task.kind === 'event') lane.putBack(task.event)
        else lane.endStored(task.delivery.id)
        return
      }
      if (done.written) this.#afterStored(entry, done.written)
      if (task.kind === 'event') lane.end(task.event)
      else lane.endStored(task.delivery.id)
    } finally {
      place.giveBack()
      this.#pumpId(lane.webhook.id)
    }
  }

  #afterStored(entry: Entry, { cursor, switchedOff }: NonNullable<Done['written']>): void {
    const { webhook } = entry.lane
    entry.storedCursor = Math.max(entry.storedCursor, cursor)
    if (!switchedOff) return
    this.#app.log.warn({ webhook: formatUuid(webhook.uuid), url: webhook.url }, `webhook ${OFF_REASON}`)
    this.#load(webhook.id)
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
      await this.#app.commit.writeFromReserve((tx) => moveCursor(tx, webhook.id, cursor))
      entry.storedCursor = cursor
    } catch (error) {
      this.#app.log.warn({ err: error }, 'how far a webhook was told could not be stored; a restart looks at more')
    }
  }
}
