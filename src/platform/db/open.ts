/**
 * @module Opens SQLite files with this service's settings. Durability does not come from SQLite: `synchronous=NORMAL`
 * writes the WAL without waiting, and `commit.ts` syncs the WAL before it confirms a write. Checkpoints are run by
 * `checkpoint.ts`, never by the writer.
 */
import { Database } from 'bun:sqlite'
import { dirname } from 'node:path'
import { syncFile } from '../disk/replace-file.ts'
import { perOwner } from '../per-owner.ts'

/**
 * How long the event loop may block on another process's lock. In WAL mode a reader meets such a lock only while a
 * database is opened or recovered; writers wait in the Committer.
 */
export const MAIN_THREAD_BUSY_MS = 10
const WORKER_BUSY_MS = 5000

/**
 * Opens a database for writing, and creates it if it is missing. Only for the process that owns the data directory.
 * @param pageBytes size of the pages of a new database; default: that of SQLite, 4 KiB
 */
export function openDatabase(path: string, pageBytes?: number): Database {
  const db = new Database(path, { create: true, readwrite: true, strict: true, safeIntegers: false })
  try {
    if (pageBytes !== undefined) db.run(`PRAGMA page_size = ${pageBytes}`)
    // The content stores, which have larger pages, hardly read a page twice.
    prepareForWriting(db, pageBytes === undefined ? 16_384 : 2048)
    syncFile(dirname(path), 'r')
    return db
  } catch (error) {
    // The connection is closed, so that callers can open the database again once the problem is solved.
    db.close()
    throw error
  }
}

function prepareForWriting(db: Database, cacheKiB: number): void {
  db.run(`PRAGMA busy_timeout = ${MAIN_THREAD_BUSY_MS}`)
  // Lets incremental vacuum free space after retention has deleted data. Takes effect only before the first table is
  // created.
  db.run('PRAGMA auto_vacuum = INCREMENTAL')
  db.run('PRAGMA journal_mode = WAL')
  db.run('PRAGMA synchronous = NORMAL')
  db.run('PRAGMA wal_autocheckpoint = 0')
  db.run('PRAGMA foreign_keys = ON')
  // Makes SQLite overwrite deleted data, also in freed pages; `scrub.ts` covers the copies that remain.
  db.run('PRAGMA secure_delete = ON')
  db.run('PRAGMA temp_store = MEMORY')
  db.run(`PRAGMA cache_size = -${cacheKiB}`)
  // The first write creates the WAL, whose directory entry must survive a power cut as well.
  db.run('PRAGMA user_version = 1')
}

/**
 * Opens a read-only connection, for Workers and reports; `busyMs` is how long it may wait for another process's lock.
 */
export function openReadOnly(path: string, busyMs = WORKER_BUSY_MS): Database {
  const db = new Database(path, { readonly: true, strict: true })
  db.run(`PRAGMA busy_timeout = ${busyMs}`)
  // Each Worker has a few such connections.
  db.run('PRAGMA cache_size = -1024')
  return db
}

/** Prepares statements: a database, or one with plans that depend on no value. */
export type Preparer = Pick<Database, 'prepare'>

/**
 * Prepares statements once per connection: `const sql = prepareStatements((db) => ({ insert: db.prepare('…') }))`, then
 * `sql(db).insert.run(…)`. For hot paths, where a query builder or a look-up by SQL text would cost more than the
 * query.
 */
export function prepareStatements<S extends object>(prepare: (db: Preparer) => S): (db: Database) => S {
  return perOwner((db) =>
    prepare({ prepare: ((text: string) => db.prepare(hideParameters(text))) as Database['prepare'] }),
  )
}

/** The name of a field in snake case: `mail_from` for `mailFrom`. */
export const toSnakeCase = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/**
 * Inserts a row: run it with an object that has these fields. Each is a column with its name in snake case.
 * @param fields separated by spaces
 */
export function insertSql(table: string, fields: string): string {
  const names = fields.split(' ')
  return `INSERT INTO ${table} (${names.map(toSnakeCase).join(', ')}) VALUES (${names.map((name) => `$${name}`).join(', ')})`
}

/** The assignments of an UPDATE that sets these fields, see `insertSql`. */
export const setSql = (fields: string): string =>
  fields
    .split(' ')
    .map((name) => `${toSnakeCase(name)} = $${name}`)
    .join(', ')

/** A quoted text, which stays as it is, or a parameter. */
const QUOTED_OR_PARAMETER = /'[^']*'|"[^"]*"|\?/g

/**
 * Writes each parameter as `+?`, which has the same value but which the query planner does not look at. It looks at a
 * plain parameter in LIMIT, and in comparisons of a statement with ORDER BY or a join; SQLite then compiles the
 * statement again each time another value is bound, which costs ten times a look-up by key.
 */
export const hideParameters = (text: string): string =>
  text.replaceAll(QUOTED_OR_PARAMETER, (found) => (found === '?' ? '+?' : found))

/** A synchronous result: never a promise. */
export type NonPromise<T> = T extends PromiseLike<unknown> ? never : T

const snapshot = prepareStatements((db) => ({ begin: db.prepare('BEGIN'), end: db.prepare('COMMIT') }))

/**
 * Reads from one snapshot. SQLite then acquires and releases its lock once for all reads; without a transaction it does
 * so for each read, which costs several times a look-up by key. For reads only; inside a transaction it just calls
 * `read`. Throws what `read` throws.
 */
export function readSnapshot<T>(db: Database, read: () => NonPromise<T>): T {
  if (db.inTransaction) return read() as T
  const { begin, end } = snapshot(db)
  begin.run()
  try {
    return read() as T
  } finally {
    // The transaction may not be open any more, because a storage error can end it.
    if (db.inTransaction) end.run()
  }
}
