/**
 * @module The lanes with due mail: when each has its next turn, and that it has one turn at a time. Never claims; what a turn does is the
 * scheduler's.
 */
import type { Clock, Millis, Timer } from '#platform/clock.ts'
import { wakeAt } from '#platform/queue/due-loop.ts'

export interface Lane {
  readonly name: string
  /** When the first of its mail is due; undefined when it has none. */
  firstDue: Millis | undefined
  isPumping: boolean
  /** Something became due or free while it was pumping. */
  shouldPumpAgain: boolean
  timer: Timer | undefined
}

export interface LanesOptions {
  readonly clock: Clock
  /** From then on no lane gets another turn. */
  readonly stopping: AbortSignal
  /** A lane's turn; never rejects. */
  readonly pump: (lane: Lane) => Promise<void>
  readonly onTurnEnded: (lane: Lane) => void
}

export class Lanes {
  readonly #options: LanesOptions
  readonly #lanes = new Map<string, Lane>()

  constructor(options: LanesOptions) {
    this.#options = options
  }

  /** A lane has mail that is due at a time. */
  setDue(name: string, at: Millis): void {
    if (this.#options.stopping.aborted) return
    let lane = this.#lanes.get(name)
    if (!lane) {
      lane = { name, firstDue: undefined, isPumping: false, shouldPumpAgain: false, timer: undefined }
      this.#lanes.set(name, lane)
    }
    if (lane.firstDue === undefined || at < lane.firstDue) lane.firstDue = at
    this.#wake(lane)
  }

  /** Begins the turn of a lane; false when it has no mail any more. */
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

  /** The lane's next turn, unless something wakes it before. */
  sleepUntil(lane: Lane, at: Millis): void {
    lane.timer?.cancel()
    lane.timer = wakeAt(this.#options.clock, at, () => this.#wake(lane))
  }

  /** The lane waits in a line to be woken; now and then it also looks by itself. */
  sleepInQueue(lane: Lane): void {
    this.sleepUntil(lane, Number.POSITIVE_INFINITY)
  }

  cancelTimers(): void {
    for (const lane of this.#lanes.values()) lane.timer?.cancel()
  }
}
