/**
 * @module Opens SQLite files with this service's settings, and prepares the statements that read and write them.
 * Durability does not come from SQLite: `synchronous=NORMAL` writes the WAL without waiting, and `commit.ts` syncs the
 * WAL before it confirms a write. Checkpoints are run by `checkpoint.ts`, never by the writer.
 *
 * The requested rows of a list are those after an offset, which the query scans, or those after a key of the list's
 * order, which an index finds immediately at any depth. Names are stored as small numbers: a name's code is its
 * position in a list, so lists of stored names only ever grow at the end.
 */
import { Database, type SQLQueryBindings } from 'bun:sqlite'
import { dirname } from 'node:path'
import { invalid } from '#platform/errors.ts'
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

/** Passed to each write function, which runs inside a savepoint. */
export interface Tx {
  readonly db: Database
  /** Adds to a counter; the Committer's `flush` writes all additions of a group once, at its end. */
  add(counter: string, delta: number): void
  /**
   * Advances a number that has no gaps, and returns it; the Committer's `flush` stores it once, at the end of the
   * group. A write that fails gives its numbers back.
   * @param by 0: returns the number as this write would see it
   * @param readStored reads the number before the group
   */
  advance(name: string, by: number, readStored: () => number): number
  /**
   * Runs `run` once the group is durable, before this write's promise resolves. `run` is dropped when the write fails.
   */
  afterCommit(run: () => void): void
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

/** A row's position in the order of its list: its id, or a time (or another value) and its id. */
export type RowKey = readonly (number | string)[]

export interface RowWindow {
  readonly limit: number
  /** Rows to skip; 0 when there is a key. */
  readonly offset: number
  /** The last row before the requested ones. */
  readonly after?: RowKey | undefined
}

/** Above every stored id and time. */
const ABOVE_ALL = Number.MAX_SAFE_INTEGER

/** The key of a window, which must be of the form of `first`; without a key, `first`, which is before all rows. */
function readKey<Key extends RowKey>({ after }: Pick<RowWindow, 'after'>, first: Key): Key {
  if (!after) return first
  if (after.length !== first.length || after.some((value, index) => typeof value !== typeof first[index]))
    throw invalid('cursor', 'cursor must be the next_cursor of a page of this list.')
  return after as Key
}

/** For a list ordered by id, newest first: the exclusive upper bound of the ids. */
export const belowId = (window: Pick<RowWindow, 'after'>): number => readKey<readonly [number]>(window, [ABOVE_ALL])[0]

/**
 * Prepares a list ordered by id, newest first: called with a window and the values of its conditions, it reads the rows
 * of the window, and the number of all.
 * @param select up to the tables, which may be joined for what the rows show
 * @param rows the table with the conditions for its rows, where another may follow; it has the same name as in `select`
 */
export function newestFirst<Row, Values extends SQLQueryBindings[]>(
  db: Preparer,
  select: string,
  rows: string,
  id = 'id',
) {
  // Joins nothing for the rows before an offset.
  const page = db.prepare<Row, SQLQueryBindings[]>(
    `${select} WHERE ${id} IN (SELECT ${id} FROM ${rows} AND ${id} < ? ORDER BY ${id} DESC LIMIT ? OFFSET ?) ORDER BY ${id} DESC`,
  )
  const count = db.prepare<{ n: number }, SQLQueryBindings[]>(`SELECT count(*) AS n FROM ${rows}`)
  return (window: RowWindow, ...values: Values): { rows: Row[]; total: number } => ({
    rows: page.all(...values, belowId(window), window.limit, window.offset),
    total: count.get(...values)?.n ?? 0,
  })
}

/** For a list ordered by a text, in its order: the exclusive lower bound of the texts. */
export const aboveText = (window: Pick<RowWindow, 'after'>): string => readKey<readonly [string]>(window, [''])[0]

/** For a list ordered by time and then id, newest first: the exclusive upper bound of both. */
export const belowTimeAndId = (window: Pick<RowWindow, 'after'>) =>
  readKey<readonly [time: number, id: number]>(window, [ABOVE_ALL, ABOVE_ALL])

/** For a list ordered by time and then by a text, newest first: the exclusive upper bound of both. */
export const belowTimeAndText = (window: Pick<RowWindow, 'after'>) =>
  readKey<readonly [time: number, text: string]>(window, [ABOVE_ALL, ''])

/**
 * Maps each name to its code and back. Both directions throw for an unknown name or code, which comes from a bug or
 * from a database of another version.
 * @param what what the names stand for; used in error messages
 */
export function codesOf<Name extends string>(
  what: string,
  names: readonly Name[],
): { readonly codeOf: (name: Name) => number; readonly nameOf: (code: number) => Name } {
  const codes = new Map<Name, number>(names.map((name, code) => [name, code]))
  return {
    codeOf(name) {
      const code = codes.get(name)
      if (code === undefined) throw new TypeError(`unknown ${what} ${name}`)
      return code
    },
    nameOf(code) {
      const name = names[code]
      if (name === undefined) throw new TypeError(`unknown ${what} code ${code}`)
      return name
    },
  }
}
