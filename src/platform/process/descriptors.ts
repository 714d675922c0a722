/**
 * @module File descriptors of this process. Bun ends the process when a Worker starts while none is free, and reports a
 * socket that it could not create as ECONNREFUSED, as if the peer had refused the connection. So some are held for
 * Workers, and the HTTP server closes connections when few are left.
 */
import { closeSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { attempt, isOutOfFiles } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { seconds } from '#platform/units.ts'

/** Open only to be closed for whoever needs a descriptor. A Worker takes two, and some while it loads. */
const held: number[] = []
const HELD_COUNT = 24
/** So many free descriptors cannot be taken while a Worker starts. */
const PLENTY = 4096
/** How long the process may stand still for a Worker to start. It takes some 10 ms. */
const MAX_START_MS = seconds(2)

export function canOpenDescriptor(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'))
    return true
  } catch (error) {
    return !isOutOfFiles(error)
  }
}

function holdDescriptors(): void {
  if (process.platform !== 'linux') return
  try {
    while (held.length < HELD_COUNT) held.push(openSync('/dev/null', 'r'))
  } catch {
    // None is left; the next caller tries again.
  }
}

/** Calls `run` with one more descriptor free, so that it can open a file even when there is none. */
function withSpare<T>(run: () => T): T | undefined {
  const spare = held.pop()
  if (spare !== undefined) closeSync(spare)
  const result = attempt(run)
  holdDescriptors()
  return result
}

/** Open descriptors; empty where the system has no list of them. */
export const listDescriptors = (): number[] => withSpare(() => readdirSync('/proc/self/fd').map(Number)) ?? []

/** How many descriptors are open. Linux counts them itself from 6.2 on, at a tenth of the cost of a list. */
export const countOpenDescriptors = (): number =>
  attempt(() => statSync('/proc/self/fd').size) || listDescriptors().length

/** How many descriptors this process may have; undefined: the system does not say. */
export const readDescriptorLimit = (): number | undefined => readLimit(process)

const readLimit = perOwner((_: typeof process) => {
  const limits = withSpare(() => readFileSync('/proc/self/limits', 'utf8')) ?? ''
  const limit = /^Max open files +(\d+)/m.exec(limits)?.[1]
  return limit === undefined ? undefined : Number(limit)
})

/** How many descriptors this process may have, and how many of them it may still open, besides those that are held. */
export function countDescriptors(): { readonly limit: number; readonly free: number } {
  const limit = readDescriptorLimit() ?? Number.POSITIVE_INFINITY
  return { limit, free: limit - countOpenDescriptors() }
}

/**
 * Starts something that must find free descriptors. When few are left, nothing else runs on this thread until it has
 * started, so that no connection takes those that were held.
 * @param start starts it and passes it the array, in which it sets the first element and notifies
 */
export function startWithDescriptors<T>(start: (started: Int32Array) => T): T {
  const started = new Int32Array(new SharedArrayBuffer(4))
  if (countDescriptors().free > PLENTY) return start(started)
  for (const descriptor of held.splice(0)) closeSync(descriptor)
  const result = start(started)
  Atomics.wait(started, 0, 0, MAX_START_MS)
  holdDescriptors()
  return result
}
