/**
 * @module Fences a copy at its first start, before anything is delivered, dispatched or accepted: what was open waits as
 * `restored`, row ids and event numbers are raised past those that the original may have used since, and the instance
 * gets a new id. One transaction, on disk before it returns: a process that dies in between leaves an unfenced copy,
 * which the next start fences.
 */
import type { Database } from 'bun:sqlite'
import { audit, SYSTEM_ACTOR } from '#features/core/audit-logs/audit.ts'
import { skipNumbers } from '#features/core/events/gaps.ts'
import { type Fence, readCopyMark, removeCopyMark, storeFence } from '#features/core/fence/restored.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { randomBelow } from '#platform/ids.ts'
import type { Log } from '#platform/log/log.ts'
import type { Millis } from '#platform/time/clock.ts'
import { renewInstanceId } from './instance.ts'

/**
 * Row ids reserved per second between two copies, as in `skipNumbers`. Return paths have room for ids below 2^40,
 * which the clock reaches in the year 2242.
 */
const IDS_PER_SECOND = 128
/** Skipped at least, if the clock is behind the ids, and up to `SPREAD_IDS` more, as in `skipNumbers`. */
const MIN_SKIPPED_IDS = 2 ** 24
const SPREAD_IDS = 2 ** 32
/** The largest row id that leaves room in return paths for what is accepted after it. */
const MAX_FIRST_ID = 2 ** 40 - 2 ** 32

export function fenceIfCopied(db: Database, now: Millis, log: Log): boolean {
  const mark = readCopyMark(db)
  if (!mark) return false
  // Nothing may be sent before this is on disk. The Committer, which syncs all later writes, does not exist yet.
  db.run('PRAGMA synchronous = FULL')
  let fence: Fence
  try {
    fence = db
      .transaction((): Fence => {
        const lastIds = raiseRowIds(db, now)
        skipNumbers(db, now)
        const made: Fence = { ...mark, fencedAt: now, lastIds, released: [] }
        storeFence(db, made)
        renewInstanceId(db)
        removeCopyMark(db)
        audit({ eventTime: () => now }, { db }, SYSTEM_ACTOR, {
          action: 'restored.fenced',
          metadata: { kind: made.kind, taken_at: isoTimeOrNull(made.takenAt) },
        })
        return made
      })
      .immediate()
  } finally {
    db.run('PRAGMA synchronous = NORMAL')
  }
  log.warn(
    {
      kind: fence.kind,
      takenAt: isoTimeOrNull(fence.takenAt),
      openRecipients: countOpen(db),
    },
    'the data are a restored copy: mail that was open waits as restored, because it may have been sent since the copy was made; see `tassis fence`, then `tassis fence release` or `tassis fence drop`',
  )
  return true
}

/**
 * Raises the next row id of every table whose ids are never reused, so that no id of the lost time names another row.
 * Returns the highest ids so far.
 */
function raiseRowIds(db: Database, now: Millis): Record<string, number> {
  const tables = db
    .query<{ name: string; seq: number | null }, []>(
      `SELECT t.name, s.seq FROM sqlite_master t LEFT JOIN "sqlite_sequence" s ON s.name = t.name
       WHERE t.type = 'table' AND t.sql LIKE '%AUTOINCREMENT%'`,
    )
    .all()
  // SQLite's own table has no unique key.
  const remove = db.query('DELETE FROM "sqlite_sequence" WHERE name = ?')
  const insert = db.query('INSERT INTO "sqlite_sequence" (name, seq) VALUES (?, ?)')
  const firstId = Math.min(Math.floor(now / 1000) * IDS_PER_SECOND, MAX_FIRST_ID)
  for (const { name, seq } of tables) {
    const minId = (seq ?? 0) + MIN_SKIPPED_IDS
    remove.run(name)
    insert.run(name, firstId >= minId ? firstId : minId + randomBelow(SPREAD_IDS))
  }
  return Object.fromEntries(tables.map(({ name, seq }) => [name, seq ?? 0]))
}

const countOpen = (db: Database): number =>
  db.query<{ n: number }, []>('SELECT count(*) AS n FROM recipients WHERE next_at IS NOT NULL').get()?.n ?? 0
