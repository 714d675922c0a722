/**
 * @module Tells webhooks what happened: reads the events of their accounts, makes the attempts, has the outcomes written, and repeats what may be
 * repeated. An event is told at least once: what was under way when the process died is told again.
 *
 * A slow endpoint delays nobody else: it has few attempts of its own under way, one of them whatever the others do, and nothing of the mail waits
 * for it.
 */
import type { App } from '#features/app.ts'
import { giveWay, type Millis, type Timer } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { MiB, minutes, seconds } from '#platform/units.ts'
import { eventCode, lastSeqOf } from '../events/record.ts'
import { type AttemptResult, attempt } from './attempt.ts'
import { TEST_EVENT } from './event-names.ts'
import { signingSecret } from './inbound-secret.ts'
import { MOST_FAILURES } from './ladder.ts'
import { type DueDelivery, Lane, type WaitingEvent } from './lane.ts'
import {
  ENDED_BY_FAILURES,
  endDelivery,
  moveCursor,
  OFF_REASON,
  type Tried,
  type Written,
  writeAttempt,
  writeUnreadable,
} from './outcome.ts'
import { payloadOf } from './payload.ts'
import { endPending } from './pending.ts'
import { activeWebhooks, findWebhookById, type Webhook } from './webhooks.ts'

/** Attempts under way over all webhooks, beyond the one that each may always have. */
const MOST_RUNNING = 500
/**
 * The same over the webhooks of one account, so that no tenant takes all. Of inbound routes there are too many for one attempt each: over theirs it is
 * the most, and who finds no place waits for one.
 */
const MOST_RUNNING_OF_ACCOUNT = 50
/** Characters of the bodies under way over the webhooks of one account: what came in by mail may be large. Who finds no room waits for it. */
const MOST_CHARACTERS_OF_ACCOUNT = 8 * MiB
/** An endpoint that takes longer than this has one attempt at a time, as has one that failed. */
const SLOW_MS = seconds(1)
/** A timer that looks again at least this often, because the clock may have jumped. */
const LONGEST_SLEEP_MS = minutes(1)
const STORAGE_RETRY_MS = seconds(1)
/** Times that an event is read before it counts as damaged. */
const MOST_READS = 5
/** How long a cursor that moved over unwanted events may stay unstored. */
const CURSOR_STORED_MS = seconds(10)
/** Webhooks that are looked after together at the start. */
const LOADED_AT_ONCE = 50
const STOP_GRACE_MS = seconds(8)

const sql = prepared((db) => ({
  withPending: db.prepare<{ id: number }, []>(
    'SELECT DISTINCT webhook_id AS id FROM webhook_deliveries WHERE next_at IS NOT NULL',
  ),
  // The routes that got mail among some events; by the primary key of events, so that it costs as much as there are.
  routesWithMail: db.prepare<{ routeId: number }, [number, number, number, number]>(
    `SELECT DISTINCT route_id AS routeId FROM events JOIN inbound_emails ON uuid = unhex(data ->> 'inbound_email_id', '-')
     WHERE events.account_id = ? AND seq > ? AND seq <= ? AND type = ? AND route_id IS NOT NULL`,
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

/** Attempts under way, and the characters of their bodies. */
interface UnderWay {
  readonly attempts: number
  readonly characters: number
}

const NOTHING_UNDER_WAY: UnderWay = { attempts: 0, characters: 0 }

/** What an attempt takes of what all share. */
interface Place {
  /** Its body is in memory. */
  hold(characters: number): void
  /** It is over; called again it does nothing. */
  giveBack(): void
}

interface Body {
  readonly event: string
  /** JSON. */
  readonly text: string
}

export class WebhookDispatcher {
  readonly #app: App
  readonly #entries = new Map<number, Entry>()
  /** Webhooks that are told of whatever happens in an account. */
  readonly #byAccount = new Map<number, Set<number>>()
  /** Webhooks of inbound routes, by the row of the route. An account may have many, so each is woken by its own mail only. */
  readonly #routesOfAccount = new Map<number, Map<number, number>>()
  /** Webhooks without an attempt under way that wait for a place in their account, in order. */
  readonly #waiting = new Map<number, Set<number>>()
  /** The last event of an account that is known to be on disk. */
  readonly #durableSeq = new Map<number, number>()
  readonly #aborting = new AbortController()
  readonly #running = new Set<Promise<void>>()
  #attempts = 0
  readonly #ofAccount = new Map<number, UnderWay>()
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
        const before = this.#durableSeq.get(accountId)
        this.#durableSeq.set(accountId, lastSeq)
        for (const id of this.#byAccount.get(accountId) ?? []) this.#pumpId(id)
        for (const id of this.#routesWithMail(accountId, before, lastSeq)) this.#pumpId(id)
      }),
      webhookChanged.listen(({ webhookId }) => this.#load(webhookId)),
    ]
    const active = activeWebhooks(db)
    for (const { accountId } of active) this.#durableSeq.set(accountId, lastSeqOf(db, accountId))
    const pending = sql(db).withPending.all()
    this.#background(this.#loadAll([...new Set([...active, ...pending].map((row) => row.id))]))
  }

  /** The webhooks of an account's routes that got mail among its events after `before`, up to `lastSeq`. Never throws: a signal calls it. */
  #routesWithMail(accountId: number, before: number | undefined, lastSeq: number): readonly number[] {
    const routes = this.#routesOfAccount.get(accountId)
    if (!routes || routes.size === 0) return []
    try {
      if (before === undefined) return [...routes.values()]
      return sql(this.#app.db)
        .routesWithMail.all(accountId, before, lastSeq, eventCode('email.inbound'))
        .flatMap(({ routeId }) => routes.get(routeId) ?? [])
    } catch (error) {
      this.#app.log.error({ err: error }, 'which routes got mail could not be read; all of the account are looked at')
      return [...routes.values()]
    }
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
    const { clock, db, log } = this.#app
    if (this.#isStopping) return
    try {
      const webhook = findWebhookById(db, id)
      if (webhook && webhook.deletedAt === null) this.#take(webhook)
      else this.#forget(id)
    } catch (error) {
      log.error({ err: error, webhook: id }, 'a webhook could not be read; it is tried again')
      clock.after(STORAGE_RETRY_MS, () => this.#load(id))
    }
    this.#pumpId(id)
  }

  #take(webhook: Webhook): void {
    const { db, log } = this.#app
    const { id } = webhook
    const secret = this.#secretOf(webhook)
    if (secret === undefined) {
      log.error({ webhook: id }, 'a webhook is told nothing, because its secret cannot be opened')
      this.#forget(id)
      return
    }
    // Also what a crash left of it; nothing, for a webhook that its user switched off.
    if (webhook.offByFailures) this.#background(endPending(this.#app, id, ENDED_BY_FAILURES))
    const entry = this.#entries.get(id)
    if (!entry) {
      this.#add(new Lane(db, webhook, secret))
      return
    }
    entry.lane.change(webhook, secret)
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

  #add(lane: Lane): void {
    const { id, accountId, routeId, cursorSeq } = lane.webhook
    this.#entries.set(id, { lane, timer: undefined, storedCursor: cursorSeq, cursorTimer: undefined })
    if (routeId !== null)
      this.#routesOfAccount.set(accountId, (this.#routesOfAccount.get(accountId) ?? new Map()).set(routeId, id))
    else this.#byAccount.set(accountId, (this.#byAccount.get(accountId) ?? new Set()).add(id))
  }

  #forget(id: number): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    entry.timer?.cancel()
    entry.cursorTimer?.cancel()
    this.#entries.delete(id)
    const { accountId, routeId } = entry.lane.webhook
    this.#byAccount.get(accountId)?.delete(id)
    if (routeId !== null) this.#routesOfAccount.get(accountId)?.delete(routeId)
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

  /** Begins stored deliveries that are due and new events, in turn. Gives when the next is due that is not yet; undefined: none is known. */
  #beginDue(entry: Entry): Millis | undefined {
    const { lane } = entry
    const now = this.#app.clock.now()
    const durableSeq = this.#durableSeq.get(lane.webhook.accountId) ?? 0
    const firstDue = lane.firstDue(now)
    const hasStored = firstDue !== undefined && firstDue <= now
    let wakeAt = hasStored ? undefined : firstDue
    const stored = (): Task | undefined => {
      const delivery = hasStored ? lane.nextStored(now) : undefined
      return delivery && { kind: 'stored', delivery }
    }
    const event = (): Task | undefined => {
      const next = lane.webhook.isActive ? lane.nextEvent(durableSeq, now) : undefined
      if (typeof next === 'object') return { kind: 'event', event: next }
      if (next !== undefined) wakeAt = Math.min(wakeAt ?? next, next)
      return undefined
    }
    while (this.#hasRoom(lane)) {
      const task = lane.isStoredTurn ? (stored() ?? event()) : (event() ?? stored())
      if (!task) break
      lane.isStoredTurn = task.kind === 'event'
      this.#begin(entry, task)
    }
    // What is due and cannot be begun is begun when something is over; should nothing be under way, it is looked at again.
    if (hasStored && lane.running === 0) wakeAt = Math.min(wakeAt ?? now + LONGEST_SLEEP_MS, now + LONGEST_SLEEP_MS)
    return wakeAt
  }

  #hasRoom(lane: Lane): boolean {
    if (this.#refused > 0) return false
    if (lane.running === 0) return this.#hasFirstRoom(lane.webhook)
    const { webhookConcurrency } = this.#app.config
    // So that the failure that switches it off is the last attempt.
    const most = lane.failures === 0 ? webhookConcurrency : Math.min(webhookConcurrency, MOST_FAILURES - lane.failures)
    const underWay = this.#underWay(lane.webhook.accountId)
    return (
      lane.isTrusted &&
      lane.running < most &&
      this.#attempts < MOST_RUNNING &&
      underWay.attempts < MOST_RUNNING_OF_ACCOUNT &&
      underWay.characters < MOST_CHARACTERS_OF_ACCOUNT
    )
  }

  #underWay(accountId: number): UnderWay {
    return this.#ofAccount.get(accountId) ?? NOTHING_UNDER_WAY
  }

  /** Whether a webhook with nothing under way may have an attempt; one that may not is looked at again when another is over. */
  #hasFirstRoom({ id, accountId, routeId }: Webhook): boolean {
    const { attempts, characters } = this.#underWay(accountId)
    const isFull = characters >= MOST_CHARACTERS_OF_ACCOUNT || (routeId !== null && attempts >= MOST_RUNNING_OF_ACCOUNT)
    if (isFull) this.#waiting.set(accountId, (this.#waiting.get(accountId) ?? new Set()).add(id))
    return !isFull
  }

  /** Begins what waited for a place, before whoever has just given one back takes it again. */
  #pumpWaiting(accountId: number): void {
    const waiting = this.#waiting.get(accountId)
    if (!waiting) return
    for (const id of waiting) {
      const { attempts, characters } = this.#underWay(accountId)
      if (characters >= MOST_CHARACTERS_OF_ACCOUNT) return
      const isOfRoute = this.#entries.get(id)?.lane.webhook.routeId !== null
      if (isOfRoute && attempts >= MOST_RUNNING_OF_ACCOUNT) continue
      waiting.delete(id)
      this.#pumpId(id)
    }
    if (waiting.size === 0) this.#waiting.delete(accountId)
  }

  #countRunning(lane: Lane, delta: 1 | -1): void {
    lane.running += delta
    this.#attempts += delta
    this.#countUnderWay(lane.webhook.accountId, { attempts: delta, characters: 0 })
  }

  #countUnderWay(accountId: number, delta: UnderWay): void {
    const before = this.#underWay(accountId)
    const after = { attempts: before.attempts + delta.attempts, characters: before.characters + delta.characters }
    if (after.attempts === 0 && after.characters === 0) this.#ofAccount.delete(accountId)
    else this.#ofAccount.set(accountId, after)
  }

  #begin(entry: Entry, task: Task): void {
    const { lane } = entry
    this.#countRunning(lane, 1)
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
    const { accountId } = lane.webhook
    let isOver = false
    let held = 0
    const place: Place = {
      hold: (characters) => {
        held += characters
        this.#countUnderWay(accountId, { attempts: 0, characters })
      },
      giveBack: () => {
        if (isOver) return
        isOver = true
        this.#countUnderWay(accountId, { attempts: 0, characters: -held })
        this.#countRunning(lane, -1)
        lane.freeKey(task.kind === 'event' ? task.event : task.delivery)
        this.#pumpWaiting(accountId)
        this.#pumpId(lane.webhook.id)
      },
    }
    try {
      if (!(await this.#make(entry, task, place))) return
      if (task.kind === 'event') lane.end(task.event)
      else lane.endStored(task.delivery.id)
    } finally {
      place.giveBack()
      this.#pumpId(lane.webhook.id)
    }
  }

  /** An attempt from its payload to its stored outcome; false when there is none, because the service ends. */
  async #make(entry: Entry, task: Task, place: Place): Promise<boolean> {
    const { lane } = entry
    const { commit } = this.#app
    const stored = task.kind === 'stored' ? task.delivery : undefined
    if (stored && stored.event !== TEST_EVENT && !lane.webhook.events.includes(stored.event))
      return await this.#endStored(lane.webhook, stored, `The webhook no longer asks for ${stored.event}.`)
    const webhook = lane.webhook
    const body = await this.#readBody(lane, task, place)
    if (body === 'unreadable') return await this.#endUnreadable(webhook, task)
    // What was to be told is gone, for example erased. An event without a delivery is passed over.
    if (body === undefined) return stored ? await this.#endStored(webhook, stored, 'The event is gone.') : true
    const result = await attempt(this.#app, {
      url: webhook.url,
      secret: lane.secret,
      event: stored?.event ?? body.event,
      body: body.text,
      attempt: (stored?.attempts ?? 0) + 1,
      signal: this.#aborting.signal,
    })
    // Given up because the service ends: nothing is known of it, so nothing is stored.
    if (result.kind === 'transient' && this.#aborting.signal.aborted) return false
    if (stored?.event !== TEST_EVENT) lane.isTrusted = result.kind === 'delivered' && result.durationMs <= SLOW_MS
    // A failure keeps its place until it is counted: the one that switches the webhook off must be the last.
    if (result.kind === 'delivered') place.giveBack()
    else this.#logFailure(lane, task, result)
    const written = await this.#store(() =>
      commit.write((tx) => {
        const { cursor } = lane
        return { ...writeAttempt(this.#app, tx, webhook, triedOf(task), result, cursor), cursor }
      }),
    )
    if (written) this.#afterStored(entry, written)
    return written !== undefined
  }

  /** Ends what could not be read; false when it is left to the next start, because the service ends. */
  async #endUnreadable(webhook: Webhook, task: Task): Promise<boolean> {
    if (this.#isStopping) return false
    const ended = await this.#store(() =>
      this.#app.commit.write((tx) => {
        writeUnreadable(this.#app, tx, webhook, triedOf(task), this.#app.clock.now())
        return true
      }),
    )
    return ended !== undefined
  }

  /** Ends a stored delivery without an attempt; false when that could not be stored, because the service ends. */
  async #endStored(webhook: Webhook, delivery: DueDelivery, reason: string): Promise<boolean> {
    const ended = await this.#store(() =>
      this.#app.commit.write((tx) => {
        endDelivery(this.#app, tx, webhook, delivery, reason)
        return true
      }),
    )
    return ended !== undefined
  }

  /** What is sent; read again when the database fails, for a while. Counted at once, before another attempt is begun. */
  async #readBody(lane: Lane, task: Task, place: Place): Promise<Body | 'unreadable' | undefined> {
    for (let tries = 1; ; tries++) {
      try {
        const body = this.#bodyOf(lane, task)
        place.hold(body?.text.length ?? 0)
        return body
      } catch (error) {
        const isLast = tries >= MOST_READS || this.#isStopping
        const what = isLast ? 'it is given up' : 'it is tried again'
        this.#app.log.error(
          { err: error, webhook: lane.webhook.id },
          `an event could not be read for a webhook; ${what}`,
        )
        if (isLast) return 'unreadable'
        await this.#app.clock.sleep(STORAGE_RETRY_MS)
      }
    }
  }

  #bodyOf(lane: Lane, task: Task): Body | undefined {
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

  #afterStored(entry: Entry, { cursor, switchedOff, failures }: Written & { cursor: number }): void {
    const { webhook } = entry.lane
    if (failures !== undefined) entry.lane.failures = failures
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
        seq: task.delivery.seq,
        attempts: task.delivery.attempts,
        isTest: task.delivery.event === TEST_EVENT,
      }
