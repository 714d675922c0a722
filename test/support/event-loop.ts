/** @module Lets sockets make progress, for tests that act once what was sent has arrived. */
import { yieldToEventLoop } from '#platform/clock.ts'

/**
 * Runs the event loop this many times: what the system has ready is read, however long the process was stopped before.
 * A sleep alone does not ensure that: after a stop its timer runs before the sockets are read.
 */
export async function runTicks(count = 20): Promise<void> {
  for (let tick = 0; tick < count; tick++) await yieldToEventLoop()
}
