/**
 * @module A loop that does what is due: one step at a time, again when the step said so or when it is woken. A step that throws is logged and tried
 * again later. Knows nothing of what is due.
 */
import type { Clock, Millis, Timer } from '../clock.ts'
import { minutes, seconds } from '../units.ts'

export interface DueLoopOptions {
  /** For the log: what the loop does. */
  readonly name: string
  readonly clock: Clock
  readonly log: { error(context: object, message: string): void }
  /** Signals that wake the loop. */
  readonly wokenBy?: readonly { listen(listener: () => void): () => void }[]
  /**
   * Does a bounded part of what is due. Resolves with the time of the next step, which may be now, or undefined when there is nothing to do until it
   * is woken.
   * @param ending aborted when the loop ends; a step that takes long looks at it
   */
  readonly step: (ending: AbortSignal) => Promise<Millis | undefined>
  /** Called when the last step has ended; `stop` waits for it. */
  readonly onEnded?: () => unknown
}

export interface DueLoop {
  /** There may be something to do sooner than the last step said. */
  wake(): void
  /** Begins no step any more and waits for the one that runs. */
  stop(): Promise<void>
}

/**
 * Whether a stored due time has come. One further ahead than anything is ever put off was stored under a clock that was ahead: it has.
 * @param maxWaitMs the longest that anything is put off
 */
export const isDue = (dueAt: Millis, now: Millis, maxWaitMs: number): boolean => dueAt <= now || dueAt > now + maxWaitMs

const MAX_SLEEP_MS = minutes(1)
const FAILURE_RETRY_MS = seconds(5)

/**
 * Calls `run` at a time, or in a minute if that is sooner: a wall clock that jumps, or a machine that slept, must not
 * make it late. So `run` looks at the time itself.
 */
export const wakeAt = (clock: Pick<Clock, 'now' | 'after'>, at: Millis, run: () => void): Timer =>
  clock.after(Math.min(Math.max(at - clock.now(), 0), MAX_SLEEP_MS), run)

/** Starts a loop; its first step begins at once. */
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
      if (!ending.signal.aborted) log.error({ err: error, loop: name }, 'a step failed; it is tried again')
      next = clock.now() + FAILURE_RETRY_MS
      // What wakes it while it fails must not make it spin.
      isWoken = false
    }
    running = undefined
    if (ending.signal.aborted) return
    if (isWoken) return begin()
    if (next === undefined) return
    // A step that is due at once still gives way: others wait for the event loop too.
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
