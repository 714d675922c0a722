/** @module One answer at a time an account, for questions that read much: the others wait in order, and not too many of them. */
import type { Database } from 'bun:sqlite'
import { tooManyRequests } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'

/** Requests of one account that wait for their turn, or have it. */
const MAX_QUEUED_REQUESTS = 8

export type AccountQueue = <T>(db: Database, accountId: number, find: () => Promise<T>) => Promise<T>

/** Turns of one kind of question. Throw 429 when too many of the account's requests wait. */
export function createAccountQueue(): AccountQueue {
  const getQueue = perOwner((_: Database) => new SerialQueue<number>())
  return async (db, accountId, find) => {
    const queue = getQueue(db)
    if (queue.countOf(accountId) >= MAX_QUEUED_REQUESTS)
      throw tooManyRequests('too_many_requests', 'Several requests like this one are being answered; wait for them.', 1)
    return queue.run(accountId, find)
  }
}
