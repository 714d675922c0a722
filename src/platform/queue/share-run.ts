/** @module A run that all who ask for it while it is in progress share. */

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
