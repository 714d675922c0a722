/**
 * @module Accepts a CSV file of contacts: once it is on disk an operation is created for it, and `importer.ts` imports
 * it. Before that, shows what an import would read from the beginning of a file; that stores nothing.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { insertOperation } from '#features/core/operations/operations.ts'
import { type ContactList, findListById, getList } from '#features/setup/contact-store/lists.ts'
import { type CsvRecord, scanInSteps } from '#platform/csv/records.ts'
import type { Tx } from '#platform/db/open.ts'
import { insufficientStorage, tooManyRequests } from '#platform/errors.ts'
import type { BodyStream } from '#platform/http/body-stream.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB, MiB, minutes } from '#platform/units.ts'
import { type Answers, Questions } from './answers.ts'
import { emptyFile, HEAD_BYTES, parseContact, readHead } from './csv.ts'
import { openImportFile } from './import-file.ts'
import { insertImport, sumImports } from './imports.ts'
import type { ImportPreviewRecord } from './model.ts'
import { countArriving, type SpooledFile, spoolFile, toSpoolPath } from './spool.ts'
import { requireConfirmable } from './subscription-mails.ts'

/** Maximum number of files of one account that are received at the same time. */
const MAX_ARRIVING_FILES = 4
/** Files of one account that wait or are being imported; their total size is limited as well. */
const MAX_WAITING_FILES = 100
/** Size of one file; the data folder holds it until it is imported. */
export const MAX_IMPORT_BYTES = 512 * MiB
const MAX_WAITING_FULL_SIZE_FILES = 4
const RETRY_AFTER_MS = minutes(1)

export interface ImportInput {
  /** Public id of the list. */
  readonly listId: string
  /** The contacts have already confirmed: a list with double opt-in sends them no confirmation requests. */
  readonly confirmed: boolean
  /** What the account says of the file's columns. */
  readonly answers: Answers
  /** Undefined: the request has no body. */
  readonly body: BodyStream | undefined
}

/**
 * Accepts a file; returns the id of the operation that imports it. A rejected file leaves nothing behind. Throws 404
 * for the list, 422 for an invalid file or when confirmations could not be sent, 429 for too many files, 507, and
 * errors of reading the body.
 */
export async function startImport(app: App, actor: Actor, input: ImportInput): Promise<string> {
  const { listId, confirmed, answers, body } = input
  const list = getList(app.db, actor.accountId, listId)
  if (list.doubleOptIn && !confirmed) requireConfirmable(app, actor.accountId)
  requireImportSlot(app, actor.accountId)
  if (!body) throw emptyFile()
  if (await app.disk.isLow()) throw insufficientStorage()
  return spoolFile(app, actor.accountId, body, async (spooled) => {
    await requireNoQuestions(app, actor, spooled, answers)
    return app.commit.write((tx) => storeImport(app, tx, actor, list, input, spooled))
  })
}

/** Reads the whole file, because a question about its last line must be asked before the first one is imported. */
async function requireNoQuestions(app: App, actor: Actor, { file, sizeBytes }: SpooledFile, answers: Answers) {
  const opened = await openImportFile(toSpoolPath(app, file), sizeBytes, answers)
  const questions = new Questions(opened.head.columns)
  const owner = getTenantId(app.db, actor.accountId)
  let batch = { doneBytes: 0, doneLines: 0, isLast: !opened.head.hasHeader }
  while (!batch.isLast) {
    const read = await opened.readBatch(batch)
    await app.fairScheduler.resume(owner, () => {
      for (const record of read.records) {
        const result = parseContact(record, opened.head)
        if (record.kind === 'record' && !('error' in result)) questions.add(result.unclear, record.cells)
      }
    })
    batch = read
  }
  questions.requireNone()
}

function requireImportSlot(app: App, accountId: number): void {
  const { count, sizeBytes } = sumImports(app.db, accountId)
  const isFull =
    countArriving(app, accountId) >= MAX_ARRIVING_FILES ||
    count >= MAX_WAITING_FILES ||
    sizeBytes >= MAX_WAITING_FULL_SIZE_FILES * MAX_IMPORT_BYTES
  if (isFull)
    throw tooManyRequests(
      'too_many_imports',
      'Too many imports of this account are unfinished; wait until one of them has ended.',
      RETRY_AFTER_MS / 1000,
    )
}

function storeImport(
  app: App,
  tx: Tx,
  actor: Actor,
  list: ContactList,
  { confirmed, answers }: ImportInput,
  { file, sizeBytes, lines }: SpooledFile,
): string {
  const listId = formatUuid(list.uuid)
  // If the list was deleted while the file was received, this throws the 404.
  if (!findListById(tx.db, list.id)) getList(tx.db, actor.accountId, listId)
  const operation = insertOperation(app, tx, actor, {
    type: 'bulk_import',
    status: 'pending',
    total: lines,
    metadata: {
      list_id: listId,
      confirmed,
      ...(Object.keys(answers).length > 0 && { columns: answers }),
      inserted: 0,
      duplicates: 0,
      errors: [],
    },
  })
  const { accountId } = actor
  insertImport(tx, { accountId, listId: list.id, operationId: operation.id, file, sizeBytes, confirmed })
  const metadata = { operation_id: operation.uuid, lines, size_bytes: sizeBytes, confirmed }
  auditChange(app, tx, actor, 'contact.imported', listId, metadata, 'contact_list')
  tx.afterCommit(() => app.importDue.emit())
  return operation.uuid
}

/** The client sends no more than this of a file. It must be more than HEAD_BYTES, which a header may need. */
export const MAX_PREVIEW_BYTES = 256 * KiB
const MAX_SHOWN_CONTACTS = 5
const MAX_PROBLEMS = 100
/** Bytes of a file that are parsed for one unit. */
const BYTES_PER_WORK_UNIT = 128
/** Lines read at a time: at most some milliseconds. */
const LINES_PER_STEP = 500

/** Of the beginning of a file a record that its end cuts is not checked. Throws 404 and 422 as the import would. */
export async function previewImport(
  app: App,
  actor: Actor,
  listId: string,
  start: Uint8Array | undefined,
  { isWhole, answers }: { readonly isWhole: boolean; readonly answers: Answers },
): Promise<ImportPreviewRecord> {
  getList(app.db, actor.accountId, listId)
  if (!start || start.length === 0) throw emptyFile()
  const bytes = Buffer.from(start.buffer, start.byteOffset, Math.min(start.length, MAX_PREVIEW_BYTES))
  const isEnd = isWhole && bytes.length === start.length
  app.workBudget.spend(actor.accountId, bytes.length / BYTES_PER_WORK_UNIT)
  const head = readHead(bytes.subarray(0, HEAD_BYTES), isEnd && bytes.length <= HEAD_BYTES, answers)
  const { delimiter, dataLine: line, emailCell: oneLineCell } = head
  const steps = scanInSteps(bytes.subarray(head.dataByte), { delimiter, line, isEnd, oneLineCell }, LINES_PER_STEP)
  const contacts: ImportPreviewRecord['contacts'] = []
  const problems: ImportPreviewRecord['problems'] = []
  const questions = new Questions(head.columns)
  let [checked, invalid] = [0, 0]
  const add = (record: CsvRecord): void => {
    checked++
    const result = parseContact(record, head)
    if ('error' in result) {
      invalid++
      if (problems.length < MAX_PROBLEMS) problems.push({ line: record.line, error: result.error })
      return
    }
    const { email, status = null, metadata, unclear } = result
    if (record.kind === 'record') questions.add(unclear, record.cells)
    if (contacts.length < MAX_SHOWN_CONTACTS)
      contacts.push({ line: record.line, email, status, metadata: JSON.parse(metadata) })
  }
  await app.fairScheduler.forEach(getTenantId(app.db, actor.accountId), steps, (records) => records.forEach(add))
  return {
    columns: head.columns.map(({ name, kind }) => ({ name: head.hasHeader ? name : null, kind })),
    contacts,
    checked,
    invalid,
    problems,
    questions: questions.list(),
  }
}
