/** @module Keeps the lanes with due mail and schedules their turns, one at a time per lane. Never claims. */

import type { App } from '#features/core/app/app.ts'
import { classOfLane, LANE_PREFIXES } from '#features/sending/queue/lanes.ts'
import { listSelectedLanes, type SelectedLane } from '#features/sending/queue/queue-rules.ts'
import { wakeAt } from '#platform/queue/due-loop.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import type { Pair } from '../providers/pair.ts'
import type { Site } from '../sites/sites.ts'

export interface Lane {
  readonly name: string
  /** When the lane's first mail is due; undefined when it has none. */
  firstDue?: Millis | undefined
  isPumping: boolean
  /** Whether the mail that was claimed last had been due for longest. */
  hasClaimedOldest: boolean
  /** Whether mail became due or a slot became free during the lane's turn. */
  shouldPumpAgain: boolean
  timer?: Timer
  /** The provider of the lane; only known while rules of operators name providers. */
  provider?: string | undefined
  /** Over which it last wanted to send. */
  pair?: Pair
  /** To which it last wanted to send. */
  site?: Site
  /** When an operator last asked for an attempt, which ends an earlier backoff of the site. */
  retryAskedAt?: Millis | undefined
}

/** Lanes woken in one tick of the event loop; this takes some 5 ms. */
export const WAKE_BATCH_SIZE = 25

export interface LanesOptions {
  readonly clock: Clock
  /** Once aborted, no lane gets another turn. */
  readonly stopping: AbortSignal
  /** Runs a lane's turn; never rejects. */
  readonly pump: (lane: Lane) => Promise<void>
  readonly onTurnEnded: (lane: Lane) => void
}

interface DueOptions {
  readonly isRetryAsked?: boolean | undefined
  readonly pair?: Pair
  readonly site?: Site
}

export class Lanes {
  readonly #options: LanesOptions
  readonly #lanes = new Map<string, Lane>()

  constructor(options: LanesOptions) {
    this.#options = options
  }

  find(name: string): Lane | undefined {
    return this.#lanes.get(name)
  }

  /**
   * Records that a lane has mail due at a time.
   * @param options.isRetryAsked whether an operator asks for an attempt now
   * @param options.pair over which the mail was attempted
   * @param options.site to which the mail was attempted
   */
  setDue(name: string, at: Millis, { isRetryAsked = false, pair, site }: DueOptions = {}): void {
    if (this.#options.stopping.aborted) return
    let lane = this.#lanes.get(name)
    if (!lane) {
      lane = { name, isPumping: false, shouldPumpAgain: false, hasClaimedOldest: false }
      this.#lanes.set(name, lane)
    }
    if (pair) lane.pair = pair
    if (site) lane.site = site
    if (isRetryAsked) lane.retryAskedAt = this.#options.clock.now()
    if (lane.firstDue === undefined || at < lane.firstDue) lane.firstDue = at
    this.#wake(lane)
  }

  /** Starts the turn of a lane; false when it has no mail any more. */
  wake(name: string): boolean {
    const lane = this.#lanes.get(name)
    if (lane) this.#wake(lane)
    return lane !== undefined
  }

  #wake(lane: Lane): void {
    if (lane.isPumping) {
      lane.shouldPumpAgain = true
      return
    }
    lane.isPumping = true
    void this.#options.pump(lane).finally(() => {
      lane.isPumping = false
      if (lane.shouldPumpAgain && !this.#options.stopping.aborted) {
        lane.shouldPumpAgain = false
        this.#wake(lane)
      } else if (lane.firstDue === undefined && this.#lanes.get(lane.name) === lane) {
        lane.timer?.cancel()
        this.#lanes.delete(lane.name)
      }
      this.#options.onTurnEnded(lane)
    })
  }

  /** Schedules the lane's next turn; a wake-up may start it earlier. */
  sleepUntil(lane: Lane, at: Millis): void {
    lane.timer?.cancel()
    lane.timer = wakeAt(this.#options.clock, at, () => this.#wake(lane))
  }

  /** Suspends a lane until a queue wakes it; a timer also wakes it occasionally. */
  sleepInQueue(lane: Lane): void {
    this.sleepUntil(lane, Number.POSITIVE_INFINITY)
  }

  cancelTimers(): void {
    for (const lane of this.#lanes.values()) lane.timer?.cancel()
  }
}

/** All lanes with open mail, those of high priority first and broadcasts last, in batches; a batch may be empty. */
export function* listOpenLanes(db: App['db']): Generator<readonly SelectedLane[]> {
  for (const [laneClass, prefix] of Object.entries(LANE_PREFIXES))
    for (let after: string | undefined = prefix; after !== undefined; ) {
      const found = listSelectedLanes(db, {}, after, WAKE_BATCH_SIZE)
      const lanes: readonly SelectedLane[] = found.lanes.filter(({ lane }) => classOfLane(lane) === laneClass)
      yield lanes
      after = lanes[WAKE_BATCH_SIZE - 1]?.lane
    }
}
