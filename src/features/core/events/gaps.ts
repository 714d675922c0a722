/**
 * @module Gaps in the event numbers of accounts. When a copy of the data is fenced, every account skips the numbers that
 * the original may have used since the copy was made, so that no number, and no event id derived from it, names two
 * events. The high digits of a number thus show from which copy it comes. Only `skipNumbers` makes gaps.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { randomBelow } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'

/** A range of numbers that no event has. */
export interface EventGap {
  /** The last number before the gap. */
  readonly afterSeq: number
  /** The last number of the gap. */
  readonly untilSeq: number
}

/** This account stands for all that had no event when the copy was fenced: their numbers begin after `untilSeq`. */
const ALL_ACCOUNTS = 0

const sql = prepareStatements((db) => ({
  newest: db.prepare<{ seq: number | null }, []>(
    'SELECT max(coalesce((SELECT max(last_seq) FROM event_sequences), 0), coalesce((SELECT max(until_seq) FROM event_gaps), 0)) AS seq',
  ),
  // A gap without an event after it becomes longer, so that there is one gap between two events.
  extend: db.prepare(
    `UPDATE event_gaps SET until_seq = ? WHERE account_id <> ${ALL_ACCOUNTS}
     AND until_seq = (SELECT last_seq FROM event_sequences s WHERE s.account_id = event_gaps.account_id)`,
  ),
  add: db.prepare(
    `INSERT INTO event_gaps (account_id, after_seq, until_seq) SELECT account_id, last_seq, ?1 FROM event_sequences s
     WHERE NOT EXISTS (SELECT 1 FROM event_gaps g WHERE g.account_id = s.account_id AND until_seq = ?1)`,
  ),
  addForAll: db.prepare('INSERT INTO event_gaps (account_id, after_seq, until_seq) VALUES (?, ?, ?)'),
  skip: db.prepare('UPDATE event_sequences SET last_seq = ?'),
  ofAccount: db.prepare<EventGap, [number]>(
    'SELECT after_seq AS afterSeq, until_seq AS untilSeq FROM event_gaps WHERE account_id = ? ORDER BY after_seq',
  ),
}))

/**
 * Numbers reserved per millisecond between two copies. Numbers of a later copy are higher than those of an earlier one
 * as long as no account has more events than this, and all stay below `MAX_SEQ` of the feed until the year 2286.
 */
const NUMBERS_PER_MS = 100
/** Skipped at least, if the clock is behind the numbers: set back, or the original was itself restored not long ago. */
const MIN_SKIPPED = 1_000_000_000
/** Up to so many more are then skipped, so that two copies of one backup do not begin with the same number. */
const SPREAD = 1_000_000_000_000

/**
 * Skips, for all accounts, the numbers that were used until `now` by whichever process used the original of this copy.
 * Call it in the transaction that fences the copy, before any event is recorded. Returns the last skipped number.
 */
export function skipNumbers(db: Database, now: Millis): number {
  const { newest, extend, add, addForAll, skip } = sql(db)
  const highest = newest.get()?.seq ?? 0
  const byClock = Math.floor(now) * NUMBERS_PER_MS
  const untilSeq = byClock >= highest + MIN_SKIPPED ? byClock : highest + MIN_SKIPPED + randomBelow(SPREAD)
  extend.run(untilSeq)
  add.run(untilSeq)
  addForAll.run(ALL_ACCOUNTS, untilSeq, untilSeq)
  skip.run(untilSeq)
  return untilSeq
}

/** The gaps of an account, oldest first; empty unless the data were restored while it had events. */
export const listGaps = (db: Database, accountId: number): EventGap[] => sql(db).ofAccount.all(accountId)

/** The number before the first event of an account that has none: 0 unless the data were restored. */
export const readFirstNumber = (db: Database): number => sql(db).ofAccount.all(ALL_ACCOUNTS).at(-1)?.untilSeq ?? 0

/**
 * SQL: how many numbers were skipped between two of them.
 * @param account SQL of the account's row id
 * @param first SQL of a number of an event
 * @param last SQL of a later number
 */
export const skippedSql = (account: string, first: string, last: string): string =>
  `coalesce((SELECT sum(g.until_seq - g.after_seq) FROM event_gaps g WHERE g.account_id = ${account} AND g.after_seq >= ${first} AND g.until_seq <= ${last}), 0)`
