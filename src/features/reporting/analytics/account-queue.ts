/** @module Runs expensive queries one at a time per account; the others wait in order, up to a limit. */
import type { Database } from 'bun:sqlite'
import { tooManyRequests } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'

/** Requests of one account that run or wait. */
const MAX_QUEUED_REQUESTS = 8

/** Creates the queue of one kind of query. Throws 429 when too many of the account's requests wait. */
export function createAccountQueue() {
  const getQueue = perOwner((_: Database) => new SerialQueue<number>())
  return async <T>(db: Database, accountId: number, find: () => Promise<T>): Promise<T> => {
    const queue = getQueue(db)
    if (queue.countOf(accountId) >= MAX_QUEUED_REQUESTS)
      throw tooManyRequests(
        'too_many_requests',
        'Too many requests of this kind are running; wait for them to finish.',
        1,
      )
    return queue.run(accountId, find)
  }
}
