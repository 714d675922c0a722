/** @module Reads what may be missing or forbidden, such as a file of the system. */

/** The result of `read`; undefined when it throws. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
