/**
 * @module Works off the files of contacts that were taken in, a slice in a transaction, which also says how far the file is done: whenever the process
 * ends, no line is skipped and none is done twice. Imports of different accounts take turns.
 */

import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { tenantOf } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { type OperationProgress, progressOperation } from '#features/core/operations/operations.ts'
import { type ContactList, listById } from '#features/setup/contact-store/lists.ts'
import type { Tx } from '#platform/db/commit.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { isStorageTrouble } from '#platform/storage-errors.ts'
import { addInTransaction } from './add.ts'
import { type CsvContact, contactOf } from './csv.ts'
import { CutFile, type ImportFile, openImportFile, type Slice } from './import-file.ts'
import {
  deleteImport,
  type Import,
  type ImportProgress,
  isImported,
  type LineError,
  nextImport,
  progressImport,
} from './imports.ts'
import { removeLeftovers, removeSpooled, spoolPath } from './spool.ts'

/** Lines that went wrong and are told; all are counted. They are stored with each slice, so each is short. */
const MOST_ERRORS = 100
const LONGEST_ERROR = 300

/** Starts the loop; `app.importDue` wakes it. */
export function startImporter(app: App): DueLoop {
  const files = new Map<number, ImportFile>()
  let lastAccountId = 0
  let isTidy = false

  const close = async (job: Import): Promise<void> => {
    await files.get(job.id)?.close()
    files.delete(job.id)
  }
  const end = async (job: Import): Promise<void> => {
    await close(job)
    await removeSpooled(app, job.file)
  }

  const advance = async (job: Import): Promise<void> => {
    let file = files.get(job.id)
    if (!file) {
      file = await openImportFile(spoolPath(app, job.file), job.sizeBytes)
      files.set(job.id, file)
    }
    const slice = await file.readSlice(job)
    const owner = tenantOf(app.db, job.accountId)
    const lines = await app.turns.resume(owner, () =>
      slice.records.map((record) => ({ line: record.line, said: contactOf(record, file.head, app.config) })),
    )
    const isOver = await app.commit.write((tx) => importSlice(app, tx, job, slice, lines), { owner })
    if (isOver) await end(job)
  }

  return startDueLoop({
    name: 'contact import',
    clock: app.clock,
    log: app.log,
    wokenBy: [app.importDue],
    async step() {
      if (!isTidy) {
        await removeLeftovers(app, (file) => isImported(app.db, file))
        isTidy = true
      }
      const job = nextImport(app.db, lastAccountId)
      if (!job) return undefined
      lastAccountId = job.accountId
      try {
        await advance(job)
      } catch (error) {
        // Nothing is wrong with the import: it goes on when the disk does.
        if (isStorageTrouble(error)) throw error
        const isFull = error instanceof AppError && error.code === 'plan_limit_reached'
        if (!isFull) app.log.error({ err: error, operation: job.operationId }, 'an import of contacts failed')
        const reason = isFull ? error.message : isGone(error) ? GONE : BROKEN
        await app.commit.writeFromReserve((tx) => fail(app, tx, job, reason))
        await end(job)
      }
      return app.clock.now()
    },
    async onEnded() {
      for (const file of files.values()) await file.close()
      files.clear()
    },
  })
}

const DELETED = 'The contact list was deleted before all lines were imported.'
const GONE = 'The file is not there any more; import it again.'
const BROKEN = 'The server could not import the file; tell its operator.'

const isGone = (error: unknown): boolean =>
  error instanceof CutFile || (error instanceof Error && 'code' in error && error.code === 'ENOENT')

interface Line {
  readonly line: number
  readonly said: CsvContact | { readonly error: string }
}

/** Imports a slice and says how far the file is then; true when it is over. */
function importSlice(app: App, tx: Tx, job: Import, slice: Slice, lines: readonly Line[]): boolean {
  const list = listById(tx.db, job.listId)
  if (!list) {
    fail(app, tx, job, DELETED)
    return true
  }
  const errors = JSON.parse(job.errors) as LineError[]
  let { inserted, duplicates, invalid } = job
  storeWithinPlan(app, tx, list.accountId, () => {
    for (const { line, said } of lines) {
      if ('error' in said) {
        invalid++
        if (errors.length < MOST_ERRORS) errors.push({ line, error: said.error.slice(0, LONGEST_ERROR) })
      } else if (importContact(app, tx, list, said, job.confirmed)) inserted++
      else duplicates++
    }
  })
  const { doneBytes, doneLines, isLast } = slice
  const progress = { doneBytes, doneLines, inserted, duplicates, invalid, errors: JSON.stringify(errors) }
  const isOpen = progressOperation(app, tx, job.operationId, {
    status: isLast ? 'completed' : 'processing',
    ...shown(progress, errors, list, job.confirmed),
    ...(isLast && { total: inserted + duplicates + invalid, errorSummary: summaryOf(invalid, errors) }),
  })
  if (isLast || !isOpen) deleteImport(tx, job.id)
  else progressImport(tx, job.id, progress)
  return isLast || !isOpen
}

/** The progress as the operation tells it. */
const shown = (
  { inserted, duplicates, invalid }: ImportProgress,
  errors: readonly LineError[],
  list: ContactList,
  confirmed: boolean,
): OperationProgress => ({
  completed: inserted + duplicates,
  failed: invalid,
  metadata: { list_id: formatUuid(list.uuid), confirmed, inserted, duplicates, errors },
})

function summaryOf(invalid: number, [first]: readonly LineError[]): string | null {
  if (!first) return null
  const lines = invalid === 1 ? 'One line was' : `${invalid} lines were`
  return `${lines} not imported; the first is line ${first.line}: ${first.error}`
}

/** Whether the contact is new on the list. */
const importContact = (app: App, tx: Tx, list: ContactList, said: CsvContact, isConfirmed: boolean): boolean =>
  addInTransaction(app, tx, list, said, { isConfirmed, isBulk: true, said: said.status }) !== undefined

/** Ends an import before its end; what was imported stays. */
function fail(app: App, tx: Tx, job: Import, errorSummary: string): void {
  progressOperation(app, tx, job.operationId, { status: 'failed', errorSummary })
  deleteImport(tx, job.id)
}
