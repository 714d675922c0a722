/**
 * @module The rows of contact imports that wait or run. A row is deleted with the last batch of its file. Only this
 * module writes `contact_imports`.
 */
import type { Database } from 'bun:sqlite'
import { readFence } from '#features/core/fence/restored.ts'
import { insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { contactImports } from './tables.ts'

type Stored = Readonly<typeof contactImports.$inferSelect>

/** The progress of an import; `errors` has the first `LineError`s. */
export type ImportProgress = Pick<Stored, 'doneBytes' | 'doneLines' | 'inserted' | 'duplicates' | 'invalid' | 'errors'>

export interface LineError {
  /** The first line of the file is 1. */
  readonly line: number
  readonly error: string
}

type NewImport = Pick<Stored, 'accountId' | 'listId' | 'operationId' | 'file' | 'sizeBytes' | 'confirmed'>

/** An import that waits or runs. */
export interface Import extends ImportProgress, NewImport {
  readonly id: number
  /** JSON of the `Answers` for its columns, from the operation; null: none. */
  readonly answers: string | null
}

type Row = Omit<Import, 'confirmed'> & { readonly confirmed: number }

const COLUMNS = `id, account_id AS accountId, list_id AS listId, operation_id AS operationId, file, size_bytes AS sizeBytes, confirmed,
  done_bytes AS doneBytes, done_lines AS doneLines, inserted, duplicates, invalid, errors,
  (SELECT json_extract(metadata, '$.columns') FROM operations WHERE operations.id = operation_id) AS answers`

const PROGRESS = 'doneBytes doneLines inserted duplicates invalid errors'
const NO_PROGRESS: ImportProgress = { doneBytes: 0, doneLines: 0, inserted: 0, duplicates: 0, invalid: 0, errors: '[]' }

const sql = prepareStatements((db) => ({
  // Few rows, so no index. Of an account that is being deleted, the file goes before the row.
  next: db.prepare<Row, [number, number]>(
    `SELECT ${COLUMNS} FROM contact_imports WHERE account_id > ? AND +id > ?
     AND EXISTS (SELECT 1 FROM accounts WHERE accounts.id = account_id AND deleted_at IS NULL) ORDER BY account_id, id LIMIT 1`,
  ),
  upTo: db.prepare<Row, [number]>(`SELECT ${COLUMNS} FROM contact_imports WHERE id <= ? ORDER BY id`),
  ofAccount: db.prepare<{ count: number; sizeBytes: number }, [number]>(
    'SELECT COUNT(*) AS count, coalesce(SUM(size_bytes), 0) AS sizeBytes FROM contact_imports WHERE account_id = ?',
  ),
  filesOf: db.prepare<{ file: string }, [number]>('SELECT file FROM contact_imports WHERE account_id = ?'),
  ofFile: db.prepare<{ id: number }, [string]>('SELECT id FROM contact_imports WHERE file = ?'),
  byId: db.prepare<{ id: number }, [number]>('SELECT id FROM contact_imports WHERE id = ?'),
  ofOperation: db.prepare<{ id: number; file: string }, [number]>(
    'SELECT id, file FROM contact_imports WHERE operation_id = ?',
  ),
  ofList: db.prepare<{ operationUuid: Uint8Array }, [number]>(
    `SELECT operations.uuid AS operationUuid FROM contact_imports JOIN operations ON operations.id = operation_id WHERE list_id = ?
     ORDER BY contact_imports.id DESC`,
  ),
  insert: db.prepare(insertSql('contact_imports', `accountId listId operationId file sizeBytes confirmed ${PROGRESS}`)),
  progress: db.prepare(`UPDATE contact_imports SET ${setSql(PROGRESS)} WHERE id = $id`),
  delete: db.prepare('DELETE FROM contact_imports WHERE id = ?'),
}))

/**
 * The import to continue with after one of `afterAccountId`: the oldest of the next account, so that accounts are
 * served round-robin. Imports that wait as restored are left out: the requests for confirmation that they cause may have
 * been sent.
 */
export function findNextImport(db: Database, afterAccountId: number): Import | undefined {
  const restoredId = readFence(db)?.lastIds['contact_imports'] ?? 0
  const row = sql(db).next.get(afterAccountId, restoredId) ?? sql(db).next.get(0, restoredId)
  return row ? { ...row, confirmed: row.confirmed !== 0 } : undefined
}

/** The imports that wait as restored. */
export const listRestoredImports = (db: Database): Import[] =>
  sql(db)
    .upTo.all(readFence(db)?.lastIds['contact_imports'] ?? 0)
    .map((row) => ({ ...row, confirmed: row.confirmed !== 0 }))

/** Number of an account's waiting and running imports, and the total size of their files. */
export const sumImports = (db: Database, accountId: number): { readonly count: number; readonly sizeBytes: number } =>
  sql(db).ofAccount.get(accountId) ?? { count: 0, sizeBytes: 0 }

/** Names of the files of an account's imports. */
export const listImportFiles = (db: Database, accountId: number): string[] =>
  sql(db)
    .filesOf.all(accountId)
    .map(({ file }) => file)

/** Whether an import has neither ended nor been cancelled. */
export const isImportOpen = (db: Database, id: number): boolean => sql(db).byId.get(id) !== null

/** The import of an operation, until it ends. */
export const findImportOfOperation = (db: Database, operationId: number) =>
  sql(db).ofOperation.get(operationId) ?? undefined

/** Public ids of the operations of a list's waiting and running imports, newest first. */
export const listOpenImports = (db: Database, listId: number): string[] =>
  sql(db)
    .ofList.all(listId)
    .map(({ operationUuid }) => formatUuid(operationUuid))

/** Whether a file belongs to an import. */
export const hasImport = (db: Database, file: string): boolean => sql(db).ofFile.get(file) !== null

/** Inserts an import with no progress. */
export const insertImport = (tx: Tx, row: NewImport): void =>
  void sql(tx.db).insert.run({ ...row, confirmed: row.confirmed ? 1 : 0, ...NO_PROGRESS })

/** Stores the progress of an import. */
export const storeImportProgress = (tx: Tx, id: number, progress: ImportProgress): void =>
  void sql(tx.db).progress.run({ ...progress, id })

/** Deletes the row of an import; the caller deletes its file. */
export const deleteImport = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)
