/**
 * @module The mail of a lane whose provider or site accepts nothing now. It waits in memory, without a write per wait:
 * each recipient gets one `deferred` event at its first wait of over a minute, and at most one a day after that. Mail
 * past its expiry ends. Never decides how long to wait.
 */
import type { App } from '#features/core/app/app.ts'
import { noteWaiting, readWaiting } from '#features/sending/queue/queue.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { claimLane, tryHoldForAccount } from '../attempt/claim.ts'
import type { BounceCategory } from '../model/bounce-category.ts'
import { type Verdict, writeOutcome } from '../verdict/outcome.ts'
import { isRetryScheduleExhausted } from '../verdict/retry-schedule.ts'

/** Why the due mail of a lane waits. */
export interface Wait {
  /** Shown to the sender. */
  readonly reason: string
  /** Earliest time of the next attempt. */
  readonly until: Millis
  /**
   * Failures in a row of the provider or site. They count as attempts for all mail that waits; if only the attempts of
   * a recipient counted, mail to a dead site would outlive its expiry by days.
   */
  readonly failures: number
  /** The rule that suspended the provider, or that of the site's backoff or of our own limit. */
  readonly rule: string
  readonly category: BounceCategory
}

/** A shorter wait is not worth an event. */
const MIN_NOTED_WAIT_MS = minutes(1)
const NOTE_INTERVAL_MS = days(1)
/** Recipients examined, or written in one transaction. */
const BATCH_SIZE = 200
/** How often a lane is searched for mail past its expiry: the search may read the whole lane. */
const EXPIRY_INTERVAL_MS = minutes(10)

interface Scan {
  /** The last recipient that was examined; the scan begins again after a day. */
  after: { readonly nextAt: Millis; readonly id: number }
  startedAt: Millis
  nextExpiryAt: Millis
}

const START = { nextAt: Number.MIN_SAFE_INTEGER, id: 0 }

/** `T` identifies a lane by object identity: its scan is garbage-collected with it. */
export class WaitNotes<T extends { readonly name: string }> {
  readonly #app: App
  readonly #scans = new WeakMap<T & WeakKey, Scan>()

  constructor(app: App) {
    this.#app = app
  }

  /** Examines one batch of the lane. True when there is more to examine now. */
  async record(lane: T & WeakKey, wait: Wait): Promise<boolean> {
    const now = this.#app.clock.now()
    const scan = this.#scanOf(lane, now)
    if (await this.#expire(lane.name, scan, wait, now)) return true
    const dueBy = Math.max(now - MIN_NOTED_WAIT_MS, Math.min(now, wait.until - MIN_NOTED_WAIT_MS))
    const rows = readWaiting(this.#app.db, lane.name, { dueBy, after: scan.after, limit: BATCH_SIZE })
    const unnoted = rows.filter(
      // A time ahead of the clock was stored under a fast one.
      ({ notedAt }) => notedAt === null || notedAt <= now - NOTE_INTERVAL_MS || notedAt > now,
    )
    if (unnoted.length > 0) {
      await this.#app.commit.writeFromReserve((tx) => {
        const sendingBlocks = new Map<number, string | undefined>()
        const { until, reason, rule, category } = wait
        const note = { now, eventTime: this.#app.eventTime(), until, reason, rule, category }
        for (const row of unnoted)
          if (!tryHoldForAccount(this.#app, tx, { recipientId: row.id, emailId: row.emailId }, sendingBlocks))
            noteWaiting(tx, row, note)
      })
      const fields = { lane: lane.name, recipients: unnoted.length, reason: wait.reason }
      this.#app.log.info({ ...fields, until: new Date(wait.until).toISOString() }, 'waiting')
    }
    scan.after = rows.at(-1) ?? scan.after
    return rows.length === BATCH_SIZE
  }

  #scanOf(lane: T & WeakKey, now: Millis): Scan {
    let scan = this.#scans.get(lane)
    if (!scan || now - scan.startedAt >= NOTE_INTERVAL_MS || scan.startedAt > now) {
      scan = { after: START, startedAt: now, nextExpiryAt: scan?.nextExpiryAt ?? 0 }
      this.#scans.set(lane, scan)
    }
    return scan
  }

  /** Ends one batch of mail that is too old. True when there may be more. */
  async #expire(lane: string, scan: Scan, { reason, failures, rule, category }: Wait, now: Millis): Promise<boolean> {
    const { retryExpiryHours } = this.#app.config
    // A fast clock makes all mail look old. Therefore mail expires only after as many failures as the retry schedule
    // has attempts.
    if (!isRetryScheduleExhausted(failures, retryExpiryHours)) return false
    if (now < scan.nextExpiryAt && scan.nextExpiryAt <= now + EXPIRY_INTERVAL_MS) return false
    const verdict: Verdict = {
      kind: 'deferred',
      category,
      rule,
      reason,
      reply: undefined,
      siteFailures: failures,
    }
    const ended = await this.#app.commit.writeFromReserve((tx) => {
      const claimed = claimLane(this.#app, tx, lane, {
        limit: BATCH_SIZE,
        now,
        dueSince: now - hours(retryExpiryHours),
      })
      for (const recipient of claimed)
        writeOutcome(this.#app, tx, { ...recipient, startedAt: undefined }, verdict, undefined)
      return claimed.length
    })
    if (ended === BATCH_SIZE) return true
    scan.nextExpiryAt = now + EXPIRY_INTERVAL_MS
    return false
  }
}
