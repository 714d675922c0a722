/** @module Runs that several who ask for them share. */

/** Returns a function that calls `run`, or returns what its last call returned while that is in progress. */
export function shareRun<Args extends readonly unknown[], T>(
  run: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let running: Promise<T> | undefined
  return (...args) => {
    running ??= run(...args).finally(() => {
      running = undefined
    })
    return running
  }
}

/** Returns a function that calls `run` once its last run has ended; all who call it meanwhile share that next run. */
export function shareNextRun<Args extends readonly unknown[], T>(
  run: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | undefined
  return (...args) => {
    next ??= last
      .catch(() => undefined)
      .then(() => {
        next = undefined
        const running = run(...args)
        last = running
        return running
      })
    return next
  }
}
