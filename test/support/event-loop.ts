/** @module Turns of the event loop, for tests: lets sockets make progress, and looks at long work in between. */
import { yieldToEventLoop } from '#platform/time/clock.ts'

/**
 * Runs the event loop this many times: what the system has ready is read, however long the process was stopped before.
 * A sleep alone does not ensure that: after a stop its timer runs before the sockets are read.
 */
export async function runTicks(count = 20): Promise<void> {
  for (let tick = 0; tick < count; tick++) await yieldToEventLoop()
}

/** Calls `count` in every tick of the event loop until `work` has ended; returns what it returned, each once. */
export async function countDuring(work: Promise<unknown>, count: () => number): Promise<number[]> {
  let isOver = false
  const ended = work.finally(() => {
    isOver = true
  })
  const seen = new Set<number>()
  while (!isOver) {
    seen.add(count())
    await yieldToEventLoop()
  }
  await ended
  return [...seen]
}
