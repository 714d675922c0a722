/** @module Watches for due mail that makes no progress, and for mail that is due only in years. */
import type { App } from '#features/core/app/app.ts'
import { findAttemptLogFields } from '#features/sending/queue/email.ts'
import { type DistantRecipient, makeDue, type QueuePosition, readDistant } from '#features/sending/queue/queue.ts'
import { findHold } from '#features/sending/queue/queue-rules.ts'
import { type Millis, type Timer, yieldToEventLoop } from '#platform/time/clock.ts'
import { hours, minutes } from '#platform/units.ts'
import type { InFlightAttempt, InFlightAttempts } from '../attempt/in-flight-attempts.ts'
import type { Sites } from '../sites/sites.ts'
import { CONTENT_HOLD_MS } from '../verdict/held-mail.ts'
import { isBeyondRetrySchedule, MAX_SITE_BACKOFF_MS } from '../verdict/outcome.ts'
import type { Lane, Lanes } from './lanes.ts'

export interface StallWatchOptions {
  readonly app: App
  /** Once aborted, nothing is examined any more. */
  readonly stopping: AbortSignal
  readonly lanes: Lanes
  readonly sites: Sites
  readonly attempts: InFlightAttempts
}

const CHECK_INTERVAL_MS = minutes(5)
/** How long a lane may have due mail without a claim, although nothing known holds it back. */
const MAX_UNEXPLAINED_MS = minutes(15)
/**
 * How long a Worker may have an attempt. The time limits of RFC 5321 §4.5.3.2 add up to 43 minutes at each of at most
 * three hosts, and to 13 minutes for the message; and the attempt may have waited for a connection on which another one
 * took as long.
 */
const MAX_ATTEMPT_MS = hours(6)
const LOG_INTERVAL_MS = hours(1)
/** Lines of one check; each has the number of all. */
const MAX_LINES = 20
/** Lanes examined in one tick of the event loop; this takes some 5 ms at most. */
const BATCH_SIZE = 200

export class StallWatch {
  readonly #options: StallWatchOptions
  #timer: Timer | undefined
  #checkedAtMs = 0
  /** Lanes without explanation, and when they were first seen so; in monotonic time. */
  #suspects = new Map<string, number>()
  readonly #seenAtMs = new WeakMap<InFlightAttempt, number>()
  #lanesOfAttempts = new Set<string>()
  readonly #loggedAtMs = new Map<string, number>()

  constructor(options: StallWatchOptions) {
    this.#options = options
  }

  start(): void {
    const { app, stopping } = this.#options
    if (stopping.aborted) return
    this.#timer = app.clock.after(CHECK_INTERVAL_MS, () => {
      this.#check()
        .catch((error: unknown) => app.log.error({ err: error }, 'lanes not examined; retrying'))
        .finally(() => this.start())
    })
  }

  stop(): void {
    this.#timer?.cancel()
  }

  count(): number {
    return this.#listStalled().length
  }

  has(lane: string): boolean {
    return this.#lanesOfAttempts.has(lane) || this.#isStalled(this.#suspects.get(lane))
  }

  #listStalled(): string[] {
    const stalled = [...this.#suspects].filter(([, since]) => this.#isStalled(since)).map(([lane]) => lane)
    return [...new Set([...stalled, ...this.#lanesOfAttempts])]
  }

  #isStalled(sinceMs: number | undefined): boolean {
    return sinceMs !== undefined && this.#checkedAtMs - sinceMs >= MAX_UNEXPLAINED_MS
  }

  async #check(): Promise<void> {
    const { app, lanes, attempts, stopping } = this.#options
    const nowMs = app.clock.monotonicMs()
    const all = attempts.all()
    const lanesInDelivery = new Set(all.map(({ lane }) => lane))
    const old = all.filter((attempt) => this.#isTooOld(attempt, nowMs))
    const suspects = new Map<string, number>()
    for (const [index, lane] of lanes.all().entries()) {
      if (index % BATCH_SIZE === BATCH_SIZE - 1) await yieldToEventLoop()
      if (stopping.aborted) return
      if (!lanesInDelivery.has(lane.name) && !this.#isExplained(lane))
        suspects.set(lane.name, this.#suspects.get(lane.name) ?? nowMs)
    }
    this.#suspects = suspects
    this.#lanesOfAttempts = new Set(old.map(({ lane }) => lane))
    this.#checkedAtMs = nowMs
    this.#log(old, nowMs)
  }

  #isTooOld(attempt: InFlightAttempt, nowMs: number): boolean {
    if (attempt.sentToWorkerAt === undefined || attempt.settling) return false
    const seenAtMs = this.#seenAtMs.get(attempt) ?? nowMs
    this.#seenAtMs.set(attempt, seenAtMs)
    return nowMs - seenAtMs >= MAX_ATTEMPT_MS
  }

  /** Whether a lane has no due mail, made progress since the last check, or has to wait for something known. */
  #isExplained(lane: Lane): boolean {
    const { app, sites, attempts } = this.#options
    const { name, firstDue, provider } = lane
    if (firstDue === undefined || firstDue > app.clock.now() || lane.progressAtMs > this.#checkedAtMs) return true
    // A lane is in no queue while its turn decides what it waits for.
    if (lane.isPumping && lane.turnBeganAtMs > this.#checkedAtMs) return true
    if (lane.isWaitingForLookup || attempts.unstored > 0) return true
    return sites.isWaitExplained(name, this.#checkedAtMs) || findHold(app.db, name, provider) !== undefined
  }

  /** Warns of each lane at most once an hour. */
  #log(old: readonly InFlightAttempt[], nowMs: number): void {
    const { app, lanes, sites } = this.#options
    for (const [lane, atMs] of this.#loggedAtMs) if (nowMs - atMs >= LOG_INTERVAL_MS) this.#loggedAtMs.delete(lane)
    const unlogged = this.#listStalled().filter((lane) => !this.#loggedAtMs.has(lane))
    for (const name of unlogged) this.#loggedAtMs.set(name, nowMs)
    for (const name of unlogged.slice(0, MAX_LINES)) {
      const attempt = old.find(({ lane }) => lane === name)
      const lane = lanes.find(name)
      const details = attempt
        ? { ...findAttemptLogFields(app.db, attempt), site: attempt.destination.siteName, worker: attempt.worker }
        : {
            dueSince: new Date(lane?.firstDue ?? 0).toISOString(),
            isInTurn: lane?.isPumping,
            isQueued: sites.isWaitingForSlot(name),
          }
      app.log.warn(
        { lane: name, ...details, lanes: unlogged.length },
        attempt
          ? 'an attempt takes longer than all time limits of SMTP together; a restart ends it'
          : 'the due mail of a lane makes no progress, although nothing known holds it; a restart frees it',
      )
    }
  }
}

/** Recipients read at once and written in one transaction. */
const READ_BATCH_SIZE = 500

/** Makes recipients due that wait longer than allowed. Reads the whole queue, but writes only these. */
export async function releaseOverdueMail(app: App, signal: AbortSignal): Promise<void> {
  let released = 0
  let place: QueuePosition | undefined = { lane: '', nextAt: 0, id: 0 }
  while (place && !signal.aborted) {
    const now = app.clock.now()
    // Mail that is due within this time never waits longer than allowed, so it is not read.
    const batch = readDistant(app.db, { limitAt: now + MAX_SITE_BACKOFF_MS, place, limit: READ_BATCH_SIZE })
    const overdue = batch.late.filter((recipient) => isBeyondMaxWait(recipient, now))
    if (overdue.length > 0) {
      released += await app.commit.writeFromReserve((tx) => makeDue(tx, overdue, now))
      for (const lane of new Set(overdue.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    } else await yieldToEventLoop()
    place = batch.place
  }
  if (released > 0)
    app.log.warn(
      { recipients: released },
      'made mail due that waits longer than its retry schedule: a fast clock or a hold had deferred it',
    )
}

const isBeyondMaxWait = ({ nextAt, attempts, isWithoutContent }: DistantRecipient, now: Millis): boolean =>
  isWithoutContent ? nextAt - now > CONTENT_HOLD_MS : isBeyondRetrySchedule(nextAt, now, attempts)
