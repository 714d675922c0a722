/**
 * @module Runs due work in a loop, one step at a time. The next step runs at the time that the last step returned, or
 * earlier when the loop is woken. A step that throws is logged and retried later. Knows nothing about the work
 * itself.
 */
import type { Clock, Timer } from '#platform/time/clock.ts'
import { type Millis, minutes, seconds } from '../units.ts'

export interface DueLoopOptions {
  readonly name: string
  readonly clock: Clock
  readonly log: { error(context: object, message: string): void }
  readonly wokenBy?: readonly { listen(listener: () => void): () => void }[]
  /**
   * Does a limited part of the due work. Resolves with the time of the next step, which may be now, or with undefined
   * when there is nothing to do until the loop is woken.
   * @param ending aborted when the loop ends; a long step must check it
   */
  readonly step: (ending: AbortSignal) => Promise<Millis | undefined>
  /** `stop` calls this when the last step has ended, and waits until the call has ended too. */
  readonly onEnded?: () => unknown
}

export interface DueLoop {
  /** Runs the next step early: work may be due sooner than the time that the last step returned. */
  wake(): void
  /** Starts no further step and waits for the running one. */
  stop(): Promise<void>
}

/**
 * Whether a stored due time has come. A time that is further ahead than any delay was stored while the clock was
 * wrongly ahead, so it counts as due.
 * @param maxWaitMs the longest delay
 */
export const isDue = (dueAt: Millis, now: Millis, maxWaitMs: number): boolean => dueAt <= now || dueAt > now + maxWaitMs

const MAX_SLEEP_MS = minutes(1)
const FAILURE_RETRY_MS = seconds(5)

/**
 * Calls `run` at a time, but no later than in a minute: a wall clock that jumps, or a machine that slept, must not
 * delay `run` for longer. So `run` must check whether the time has come.
 */
export const wakeAt = (clock: Pick<Clock, 'now' | 'after'>, at: Millis, run: () => void): Timer =>
  clock.after(Math.min(Math.max(at - clock.now(), 0), MAX_SLEEP_MS), run)

/** Starts a loop; its first step begins immediately. */
export function startDueLoop({ name, clock, log, wokenBy = [], step, onEnded }: DueLoopOptions): DueLoop {
  const ending = new AbortController()
  let timer: Timer | undefined
  let running: Promise<void> | undefined
  let isWoken = false

  const runStep = async (): Promise<void> => {
    let next: Millis | undefined
    try {
      next = await step(ending.signal)
    } catch (error) {
      if (!ending.signal.aborted) log.error({ err: error, loop: name }, 'a step failed; retrying')
      next = clock.now() + FAILURE_RETRY_MS
      // Otherwise a wake-up during a failing step would make the loop spin.
      isWoken = false
    }
    running = undefined
    if (ending.signal.aborted) return
    if (isWoken) return begin()
    if (next === undefined) return
    // A step that is due immediately still lets other work run first.
    if (next <= clock.now()) setImmediate(begin)
    else timer = wakeAt(clock, next, begin)
  }

  const begin = (): void => {
    if (running || ending.signal.aborted) return
    isWoken = false
    timer?.cancel()
    running = runStep()
  }

  const wake = (): void => {
    if (running) isWoken = true
    else begin()
  }

  begin()
  const stopListening = wokenBy.map((signal) => signal.listen(wake))
  return {
    wake,
    async stop() {
      for (const stop of stopListening) stop()
      ending.abort()
      timer?.cancel()
      await running
      await onEnded?.()
    },
  }
}
