/**
 * @module Retries after a delay: `retry` repeats a single operation; `StorageRetries` repeats writes that must not be
 * lost. While the storage refuses such writes, their callers begin no further work. Callers classify the errors.
 */
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '../units.ts'

/** The delay after the storage refused a read or write, for example because the disk is full. */
export const STORAGE_RETRY_MS = seconds(1)

export interface RetryOptions {
  readonly clock: Pick<Clock, 'sleep'>
  readonly delayMs: number
  /** Called after each failure with the number of failures so far; returns false to throw the error instead. */
  readonly isRetried: (error: unknown, failures: number) => boolean
}

/** Calls `attempt` immediately and then after each delay, until it succeeds or its error is not retried. */
export async function retry<T>(attempt: () => T | Promise<T>, { clock, delayMs, isRetried }: RetryOptions): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt()
    } catch (error) {
      if (!isRetried(error, failures)) throw error
    }
    await clock.sleep(delayMs)
  }
}

/**
 * How to handle a failed write. `storage`: the storage refused the write; retry it, and count it as refused. `own`: the
 * write itself failed; retry it without counting it. `given-up`: do not retry it.
 */
export type WriteFailure = 'storage' | 'own' | 'given-up'

export class StorageRetries {
  readonly #clock: Pick<Clock, 'sleep'>
  readonly #onRecovered: () => void
  #refusedCount = 0

  /** @param onRecovered called when the last refused write has been stored or given up */
  constructor(clock: Pick<Clock, 'sleep'>, onRecovered: () => void = () => undefined) {
    this.#clock = clock
    this.#onRecovered = onRecovered
  }

  /** Number of writes that the storage currently refuses; while it is not 0, callers begin no further work. */
  get refusedCount(): number {
    return this.#refusedCount
  }

  /** Retries a write until it is stored, and resolves with its result; undefined when the write was given up. */
  async store<T>(
    write: () => Promise<T>,
    judge: (error: unknown, failures: number) => WriteFailure,
  ): Promise<T | undefined> {
    let isCounted = false
    const count = (isRefused: boolean): void => {
      if (isRefused === isCounted) return
      isCounted = isRefused
      this.#refusedCount += isRefused ? 1 : -1
      if (this.#refusedCount === 0) this.#onRecovered()
    }
    const isRetried = (error: unknown, failures: number): boolean => {
      const failure = judge(error, failures)
      count(failure === 'storage')
      return failure !== 'given-up'
    }
    try {
      return await retry(write, { clock: this.#clock, delayMs: STORAGE_RETRY_MS, isRetried })
    } catch {
      return undefined
    } finally {
      count(false)
    }
  }
}
