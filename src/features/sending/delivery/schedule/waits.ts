/**
 * @module The mail of a lane whose provider or site accepts nothing now, and in words, for senders and operators, why
 * it waits. It waits in memory, without a write per wait: each recipient gets one `deferred` event at its first wait of
 * over a minute, and at most one a day after that. Mail past its expiry ends, and mail that a fast clock has put off is
 * due at once. Never decides how long to wait.
 */
import type { App } from '#features/core/app/app.ts'
import { type DistantRecipient, makeDue, noteWaiting, readWaiting } from '#features/sending/queue/queue.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import { claimLane, tryHoldForAccount } from '../attempt/claim.ts'
import type { BounceCategory } from '../protocol.ts'
import type { Instant, Pair } from '../providers/pair.ts'
import type { Site } from '../sites/sites.ts'
import { CONTENT_HOLD_MS, releaseDistant } from '../verdict/held-mail.ts'
import {
  isBeyondRetrySchedule,
  isRetryScheduleExhausted,
  MAX_SITE_BACKOFF_MS,
  type Verdict,
  writeOutcome,
} from '../verdict/outcome.ts'
import type { Lane } from './lanes.ts'

export interface Wait {
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

export class WaitNotes {
  readonly #app: App
  readonly #scans = new WeakMap<Pick<Lane, 'name'>, Scan>()

  constructor(app: App) {
    this.#app = app
  }

  /** Examines one batch of the lane. True when there is more to examine now. */
  async record(lane: Pick<Lane, 'name'>, wait: Wait): Promise<boolean> {
    const now = this.#app.clock.now()
    const scan = this.#scanOf(lane, now)
    if (await this.#expire(lane.name, scan, wait, now)) return true
    const dueBy = Math.max(now - MIN_NOTED_WAIT_MS, Math.min(now, wait.until - MIN_NOTED_WAIT_MS))
    const rows = readWaiting(this.#app.db, lane.name, { dueBy, after: scan.after, limit: BATCH_SIZE })
    // A time ahead of the clock was stored under a fast one.
    const isUnnoted = (at: Millis | null) => at === null || at <= now - NOTE_INTERVAL_MS || at > now
    const unnoted = rows.filter(({ notedAt }) => isUnnoted(notedAt))
    if (unnoted.length > 0) {
      await this.#app.commit.writeFromReserve((tx) => {
        const sendingBlocks = new Map<number, string | undefined>()
        const note = { ...wait, now, eventTime: this.#app.eventTime() }
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

  #scanOf(lane: Pick<Lane, 'name'>, now: Millis): Scan {
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
    const verdict: Verdict = { kind: 'deferred', category, rule, reason, reply: undefined, siteFailures: failures }
    const ended = await this.#app.commit.writeFromReserve((tx) => {
      const dueSince = now - hours(retryExpiryHours)
      const claimed = claimLane(this.#app, tx, lane, { limit: BATCH_SIZE, now, dueSince })
      for (const recipient of claimed)
        writeOutcome(this.#app, tx, { ...recipient, startedAt: undefined }, verdict, undefined)
      return claimed.length
    })
    if (ended === BATCH_SIZE) return true
    scan.nextExpiryAt = now + EXPIRY_INTERVAL_MS
    return false
  }
}

/** Makes recipients due that wait longer than allowed. Reads the whole queue, but writes only these. */
export async function releaseOverdueMail(app: App, ending: AbortSignal): Promise<void> {
  // Mail that is due within this time never waits longer than allowed, so it is not read.
  const aheadMs = MAX_SITE_BACKOFF_MS
  const released = await releaseDistant(app, { aheadMs, isReleased: isBeyondMaxWait, release: makeDue, ending })
  if (released > 0)
    app.log.warn(
      { recipients: released },
      'made mail due that waits longer than its retry schedule: a fast clock or a hold had deferred it',
    )
}

const isBeyondMaxWait = ({ nextAt, attempts, isWithoutContent }: DistantRecipient, now: Millis): boolean =>
  isWithoutContent ? nextAt - now > CONTENT_HOLD_MS : isBeyondRetrySchedule(nextAt, now, attempts)

export const NOT_DUE_REASON = 'waits for its time'

/** The reason of a lane that waits for nothing but its turn. */
export const ABOUT_TO_BE_DELIVERED_REASON = 'is about to be delivered'

/** The reason of due mail while nothing delivers it. */
export const NO_SERVICE_REASON = 'no service is running'

/** Follows the reason of a broadcast. */
export const AFTER_OTHERS = ', after all non-broadcast mail'

export const describeInDelivery = (attempts: number, areOthersWaiting: boolean): string =>
  `${attempts} in delivery${areOthersWaiting ? ', the others wait for a connection' : ''}`

const SUSPENDED = ' is suspended until '

/** Whether `describePair` names a suspension, which is about our address and not about the mail. */
export const isSuspension = (reason: string): boolean => reason.includes(SUSPENDED)

export function describePair(pair: Pair, at: Instant, isBulk: boolean): string {
  const { suspension } = pair.state
  if (suspension && pair.suspendedMs(at.now) > 0)
    return `${pair.key}${SUSPENDED}${new Date(suspension.until).toISOString()} (${suspension.rule}): ${suspension.reason}`
  if (suspension) return `waits for the probe of ${pair.key} (${suspension.rule}): ${suspension.reason}`
  if (pair.budgetWaitMs(isBulk, at.now) > 0) return describeBudget(pair, at.now)
  return pair.allowance(at) === Number.POSITIVE_INFINITY ? `waits for a connection to ${pair.key}` : describeRate(pair)
}

/** Why a sender sees mail wait for a pair over which nothing may begin. */
export function describePairToSender(pair: Pair, at: Instant, isBulk: boolean): string {
  const { suspension } = pair.state
  return suspension ? `${pair.key} is not tried for a while: ${suspension.reason}` : describePair(pair, at, isBulk)
}

const describeRate = (pair: Pair): string =>
  `${pair.key} gets at most ${Math.round(pair.ratePerMinute)} messages a minute`

const describeBudget = ({ key, warmUp }: Pair, now: Millis): string =>
  `${key} has had its ${warmUp?.stateAt(now).budget} messages of the day, because our address is new to it`

/** Why an operator sees mail wait for a site: for the end of a backoff, or for a slot. */
export const describeSite = (
  name: string,
  { backoffUntil, backoffReason }: Site,
  { isBackingOff, isBulk }: { readonly isBackingOff: boolean; readonly isBulk: boolean },
): string =>
  isBackingOff
    ? `${name} is in backoff until ${new Date(backoffUntil).toISOString()}: ${backoffReason}`
    : `waits for a connection to ${name}${isBulk ? AFTER_OTHERS : ''}`

export const describeSlotWait = (isBulk: boolean): string =>
  `waits for a free slot${isBulk ? AFTER_OTHERS : ''}: the limit of messages in delivery is reached, in total, for its account or for one address`
