/**
 * @module The mark that a database is a copy: a backup, or a data directory that was copied. The next start finds it and
 * fences the copy (`fence.ts`) before anything is sent, dispatched or accepted. Never fences.
 */
import type { Database } from 'bun:sqlite'
import { getMeta, setMeta, setMetaOnce } from '#features/core/events/record.ts'
import type { Millis } from '#platform/time/clock.ts'

/**
 * `backup`: written by `tassis backup`. `copy`: any other copy, which an operator has marked, or which the service has
 * recognised by the files beside it.
 */
export type CopyKind = 'backup' | 'copy'

export interface CopyMark {
  readonly kind: CopyKind
  /** When the copy was made; null if unknown. */
  readonly takenAt: Millis | null
}

const KEY = 'copy'

/**
 * Marks a database as a copy. Writes one row of `meta`, in the caller's transaction if there is one, and leaves no
 * prepared statement, so that closing the connection moves the WAL into the file; works with the schema of any version. Call it on the copied database only, never on the one of a running service.
 */
export const markAsCopy = (db: Database, { kind, takenAt }: CopyMark): void =>
  setMetaOnce(db, KEY, JSON.stringify({ kind, takenAt }))

/** The mark of a copy that was not fenced yet; undefined if there is none. */
export function readCopyMark(db: Database): CopyMark | undefined {
  const stored = getMeta(db, KEY)
  return stored ? (JSON.parse(stored) as CopyMark) : undefined
}

/** Removes the mark, in the transaction that fences the copy. */
export const removeCopyMark = (db: Database): void => setMeta(db, KEY, '')
