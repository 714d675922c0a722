/**
 * @module Imports the accepted contact files, one batch per transaction, which also stores the position in the file:
 * wherever the process ends, no line is skipped and none is imported twice. Imports of different accounts are served
 * round-robin.
 */

import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { updateOperationProgress } from '#features/core/operations/operations.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import type { Tx } from '#platform/db/open.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { parseAnswers } from './answers.ts'
import { addInTransaction } from './contacts.ts'
import { type CsvContact, parseContact } from './csv.ts'
import { type ImportBatch, openImportFile, TruncatedFileError } from './import-file.ts'
import {
  deleteImport,
  findNextImport,
  hasImport,
  type Import,
  isImportOpen,
  type LineError,
  listRestoredImports,
  storeImportProgress,
} from './imports.ts'
import { removeLeftovers, removeSpooledFile, toSpoolPath } from './spool.ts'

/** Of the invalid lines that are reported; all are counted. */
const MAX_ERRORS = 100
const MAX_ERROR_LENGTH = 300

/** Starts the loop; `app.importDue` wakes it. */
export function startImporter(app: App): DueLoop {
  let lastAccountId = 0
  let areLeftoversRemoved = false

  const advance = async (job: Import): Promise<void> => {
    const file = await openImportFile(toSpoolPath(app, job.file), job.sizeBytes, parseAnswers(job.answers))
    const batch = await file.readBatch(job)
    const owner = getTenantId(app.db, job.accountId)
    const lines = await app.fairScheduler.resume(owner, () =>
      batch.records.map((record) => ({ line: record.line, result: parseContact(record, file.head) })),
    )
    const hasEnded = await app.commit.write((tx) => importBatch(app, tx, job, batch, lines), { owner })
    if (hasEnded) await removeSpooledFile(app, job.file)
  }

  return startDueLoop({
    name: 'contact import',
    clock: app.clock,
    log: app.log,
    wokenBy: [app.importDue],
    async step() {
      if (!areLeftoversRemoved) {
        await removeLeftovers(app, (file) => hasImport(app.db, file))
        areLeftoversRemoved = true
      }
      const job = findNextImport(app.db, lastAccountId)
      if (!job) return undefined
      lastAccountId = job.accountId
      try {
        await advance(job)
      } catch (error) {
        // The import itself has no error: it continues when the disk has space again.
        if (isStorageFailure(error)) throw error
        // It was cancelled, which deletes its file.
        if (!isImportOpen(app.db, job.id)) return app.clock.now()
        // The plan is full, or a line is too long.
        const isTheirs = error instanceof AppError
        if (!isTheirs) app.log.error({ err: error, operation: job.operationId }, 'contact import failed')
        const reason = isTheirs ? error.message : isGone(error) ? FILE_GONE : IMPORT_FAILED
        await app.commit.writeFromReserve((tx) => failImport(app, tx, job, reason))
        await removeSpooledFile(app, job.file)
      }
      return app.clock.now()
    },
  })
}

/** Ends the imports that wait as restored, because the operator dropped them; resolves with their number. */
export async function dropRestoredImports(app: App): Promise<number> {
  const jobs = listRestoredImports(app.db)
  for (const job of jobs) {
    await app.commit.writeFromReserve((tx) => failImport(app, tx, job, IMPORT_DROPPED))
    await removeSpooledFile(app, job.file)
  }
  return jobs.length
}

const IMPORT_DROPPED =
  'The service was restored from a backup, and its operator dropped the import; import the file again. Contacts that are on the list already are left as they are.'
const LIST_DELETED = 'The contact list was deleted before all lines were imported.'
const FILE_GONE = 'The file is missing; import it again.'
const IMPORT_FAILED = 'The server could not import the file; contact its operator.'

const isGone = (error: unknown): boolean =>
  error instanceof TruncatedFileError || (error instanceof Error && 'code' in error && error.code === 'ENOENT')

interface ParsedLine {
  readonly line: number
  readonly result: CsvContact | { readonly error: string }
}

/** Imports a batch and stores the position in the file; true when the import has ended. */
function importBatch(app: App, tx: Tx, job: Import, batch: ImportBatch, lines: readonly ParsedLine[]): boolean {
  // It was cancelled while its lines were read.
  if (!isImportOpen(tx.db, job.id)) return true
  const list = findListById(tx.db, job.listId)
  if (!list) {
    failImport(app, tx, job, LIST_DELETED)
    return true
  }
  const errors = JSON.parse(job.errors) as LineError[]
  let { inserted, duplicates, invalid } = job
  storeWithinPlan(app, tx, list.accountId, () => {
    for (const { line, result } of lines) {
      if ('error' in result) {
        invalid++
        if (errors.length < MAX_ERRORS) errors.push({ line, error: result.error.slice(0, MAX_ERROR_LENGTH) })
      } else {
        const options = { isConfirmed: job.confirmed, isBulk: true, sourceStatus: result.status }
        if (addInTransaction(app, tx, list, result, options) !== undefined) inserted++
        else duplicates++
      }
    }
  })
  const { doneBytes, doneLines, isLast } = batch
  const progress = { doneBytes, doneLines, inserted, duplicates, invalid, errors: JSON.stringify(errors) }
  const isOpen = updateOperationProgress(app, tx, job.operationId, {
    status: isLast ? 'completed' : 'processing',
    completed: inserted + duplicates,
    failed: invalid,
    metadata: { list_id: formatUuid(list.uuid), confirmed: job.confirmed, inserted, duplicates, errors },
    ...(isLast && { total: inserted + duplicates + invalid, errorSummary: formatSummary(invalid, errors) }),
  })
  if (isLast || !isOpen) deleteImport(tx, job.id)
  else storeImportProgress(tx, job.id, progress)
  return isLast || !isOpen
}

function formatSummary(invalid: number, [first]: readonly LineError[]): string | null {
  if (!first) return null
  const lines = invalid === 1 ? 'One line was' : `${invalid} lines were`
  return `${lines} not imported; the first is line ${first.line}: ${first.error}`
}

/** Ends an import early; contacts imported so far stay. */
function failImport(app: App, tx: Tx, job: Import, errorSummary: string): void {
  updateOperationProgress(app, tx, job.operationId, { status: 'failed', errorSummary })
  deleteImport(tx, job.id)
}
