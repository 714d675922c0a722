/**
 * @module The queue of accepted messages on disk: one entry per message, written by `receive.ts`, with its number of
 * attempts. The transaction that applies the message deletes it.
 */
import type { Database } from 'bun:sqlite'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { RowWindow } from '#platform/db/row-window.ts'
import type { Millis } from '#platform/time/clock.ts'

export interface QueueEntry {
  readonly id: number
  readonly mailFrom: string
  readonly destinations: string
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly rawRef: number
  readonly sizeBytes: number
  readonly attempts: number
  readonly receivedAt: number
}

/** The fields that determine when a message is processed. */
export type QueueEntrySummary = Pick<QueueEntry, 'id' | 'destinations' | 'sourceIp' | 'sizeBytes' | 'attempts'>

const sql = prepareStatements((db) => ({
  after: db.prepare<QueueEntrySummary, [number, number]>(
    `SELECT id, destinations, source_ip AS sourceIp, size_bytes AS sizeBytes, attempts
     FROM inbound_receipts WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  byId: db.prepare<QueueEntry, [number]>(
    `SELECT id, mail_from AS mailFrom, destinations, source_ip AS sourceIp, helo, tls, raw_ref AS rawRef, size_bytes AS sizeBytes, attempts,
     received_at AS receivedAt FROM inbound_receipts WHERE id = ?`,
  ),
  setAttempts: db.prepare('UPDATE inbound_receipts SET attempts = ? WHERE id = ?'),
  end: db.prepare('DELETE FROM inbound_receipts WHERE id = ?'),
  page: db.prepare<QueueEntry, [number, number]>(
    `SELECT id, mail_from AS mailFrom, destinations, source_ip AS sourceIp, helo, tls, raw_ref AS rawRef, size_bytes AS sizeBytes, attempts,
     received_at AS receivedAt FROM inbound_receipts ORDER BY id LIMIT ? OFFSET ?`,
  ),
  waiting: db.prepare<{ n: number }, []>('SELECT COUNT(*) AS n FROM inbound_receipts'),
  oldest: db.prepare<{ receivedAt: Millis }, []>(
    'SELECT received_at AS receivedAt FROM inbound_receipts ORDER BY id LIMIT 1',
  ),
}))

/** Messages that wait or are being processed. */
export const countQueueEntries = (db: Database): number => sql(db).waiting.get()?.n ?? 0

/** When the oldest waiting message was received; undefined when none waits. */
export const findOldestEntryTime = (db: Database): Millis | undefined => sql(db).oldest.get()?.receivedAt

/** The oldest entries above an id. */
export const listQueueEntriesAfter = (db: Database, id: number, limit: number): QueueEntrySummary[] =>
  sql(db).after.all(id, limit)

/** A page of the entries, oldest first: they leave at the front, so pages are found by their offset. */
export const listQueueEntries = (db: Database, { limit, offset }: RowWindow): QueueEntry[] =>
  sql(db).page.all(limit, offset)

export const findQueueEntry = (db: Database, id: number): QueueEntry | undefined => sql(db).byId.get(id) ?? undefined

/**
 * Number of attempts of a message that was in progress with others when the process died: it may be the cause, so it is
 * next processed alone. Every attempt alone adds one; the increase persists only if the process dies.
 */
const ATTEMPTED_WITH_OTHERS = 1

/**
 * Number of attempts for a message that the operator retries: it is processed alone, and given up if the process dies
 * once.
 */
export const LAST_ATTEMPT_COUNT = ATTEMPTED_WITH_OTHERS + 2

type AttemptCount = Pick<QueueEntry, 'id' | 'attempts'>

/** Whether the process died with the message in progress: then it is processed alone. */
export const isSuspect = ({ attempts }: Pick<QueueEntry, 'attempts'>): boolean => attempts >= ATTEMPTED_WITH_OTHERS

/** How often the process died with only this message in progress. */
export const countDeathsAlone = ({ attempts }: Pick<QueueEntry, 'attempts'>): number =>
  Math.max(0, attempts - ATTEMPTED_WITH_OTHERS)

/** Records that a message is in progress, among others or alone as a suspect, in case the process dies. */
export function beginAttempt(tx: Tx, { id, attempts }: AttemptCount): void {
  sql(tx.db).setAttempts.run(attempts + 1, id)
}

/**
 * Undoes `beginAttempt`: the attempt ended without the death of the process.
 * @param entry as it was before
 */
export function uncountAttempt(tx: Tx, { id, attempts }: AttemptCount): void {
  sql(tx.db).setAttempts.run(attempts, id)
}

/** Deletes the entry of a processed message; throws when there is none. */
export function deleteQueueEntry(tx: Tx, entryId: number): void {
  if (sql(tx.db).end.run(entryId).changes !== 1) throw new Error(`queue entry ${entryId} does not exist`)
}
