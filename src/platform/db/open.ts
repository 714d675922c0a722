/**
 * @module Opens SQLite files the way this service needs them. Durability is not SQLite's own here: `synchronous=NORMAL` writes the WAL without
 * waiting, and `commit.ts` syncs it before it tells anybody; checkpoints are `checkpoint.ts`'s, never the writer's.
 */
import { Database, type Statement } from 'bun:sqlite'
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { perOwner } from '../per-owner.ts'

/**
 * How long the event loop may stand still for a lock of another process. Readers meet none in WAL mode, but for moments
 * of opening and recovery; writers wait in the Committer.
 */
export const MAIN_THREAD_BUSY_MS = 10
const WORKER_BUSY_MS = 5000

/** Opens (and makes) a database for writing. Only the process that owns the data directory may call it. */
export function openDatabase(path: string): Database {
  const db = new Database(path, { create: true, readwrite: true, strict: true, safeIntegers: false })
  try {
    prepareForWriting(db)
    syncDirectory(dirname(path))
    return db
  } catch (error) {
    // It is opened again when the trouble is over.
    db.close()
    throw error
  }
}

function prepareForWriting(db: Database): void {
  db.run(`PRAGMA busy_timeout = ${MAIN_THREAD_BUSY_MS}`)
  // Only takes effect before the first table; incremental vacuum later gives space back after retention.
  db.run('PRAGMA auto_vacuum = INCREMENTAL')
  db.run('PRAGMA journal_mode = WAL')
  db.run('PRAGMA synchronous = NORMAL')
  db.run('PRAGMA wal_autocheckpoint = 0')
  db.run('PRAGMA foreign_keys = ON')
  // What is deleted is overwritten, pages that become free as well; `scrub.ts` does the rest.
  db.run('PRAGMA secure_delete = ON')
  db.run('PRAGMA temp_store = MEMORY')
  db.run('PRAGMA cache_size = -16384')
  // The first write makes the WAL; its directory entry must survive a power cut as well.
  db.run('PRAGMA user_version = 1')
}

/** A read-only connection, for Workers and reports; `busyMs` is how long it may wait for a lock of another process. */
export function openReadOnly(path: string, busyMs = WORKER_BUSY_MS): Database {
  const db = new Database(path, { readonly: true, strict: true })
  db.run(`PRAGMA busy_timeout = ${busyMs}`)
  db.run('PRAGMA cache_size = -4096')
  return db
}

/** Makes the entries of a directory durable. */
function syncDirectory(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Statements prepared once a connection: `const sql = prepared((db) => ({ insert: db.prepare('…') }))`, then `sql(db).insert.run(…)`.
 * For hot paths, where a query builder or a look-up by SQL text would cost more than the query.
 */
export function prepareStatements<S extends Record<string, Statement>>(
  prepare: (db: Database) => S,
): (db: Database) => S {
  return perOwner(prepare)
}

/** What must end before anything else runs. */
export type NonPromise<T> = T extends PromiseLike<unknown> ? never : T

const snapshot = prepareStatements((db) => ({ begin: db.prepare('BEGIN'), end: db.prepare('COMMIT') }))

/**
 * Reads of one moment. SQLite takes and gives back its lock once for all of them, not at each: outside of a transaction that costs several times what a
 * look-up by key does. For reads only; inside of a transaction it is the call alone. Throws what `read` throws.
 */
export function readSnapshot<T>(db: Database, read: () => NonPromise<T>): T {
  if (db.inTransaction) return read() as T
  const { begin, end } = snapshot(db)
  begin.run()
  try {
    return read() as T
  } finally {
    // An error of the storage may have ended it.
    if (db.inTransaction) end.run()
  }
}
