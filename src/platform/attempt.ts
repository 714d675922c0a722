/** @module Reads what may be missing or forbidden, such as a file of the system. */
import { systemCodeOf } from './errors.ts'

/** The result of `read`; undefined when it throws. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** The result of `read`; undefined when its file or folder does not exist. Throws any other error. */
export function unlessMissing<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined
    throw error
  }
}
