/** @module One answer at a time an account, for questions that read much: the others wait in order, and not too many of them. */
import type { Database } from 'bun:sqlite'
import { tooMany } from '#platform/errors.ts'

/** Requests of one account that wait for their turn, or have it. */
const MOST_WAITING = 8

interface Turn {
  last: Promise<unknown>
  count: number
}

export type Turns = <T>(db: Database, accountId: number, find: () => Promise<T>) => Promise<T>

/** Turns of one kind of question. Throw 429 when too many of the account's requests wait. */
export function createTurns(): Turns {
  const turns = new WeakMap<Database, Map<number, Turn>>()
  return async (db, accountId, find) => {
    const ofAccounts = turns.get(db) ?? new Map<number, Turn>()
    turns.set(db, ofAccounts)
    const turn = ofAccounts.get(accountId) ?? { last: Promise.resolve(), count: 0 }
    if (turn.count >= MOST_WAITING)
      throw tooMany('too_many_requests', 'Several requests like this one are being answered; wait for them.', 1)
    ofAccounts.set(accountId, turn)
    turn.count++
    const found = turn.last.then(find)
    turn.last = found.catch(() => undefined)
    try {
      return await found
    } finally {
      if (--turn.count === 0) ofAccounts.delete(accountId)
    }
  }
}
