/** @module What other work sees of long work in between, for tests: one look per tick of the event loop. */
import { yieldToEventLoop } from '#platform/clock.ts'

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
