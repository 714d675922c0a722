/**
 * @module Reads the beginning of a contact file as an import would: what its columns are, its first contacts, and the
 * lines that would be left out. Stores nothing.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { type CsvRecord, scanInSteps } from '#platform/csv/records.ts'
import { KiB } from '#platform/units.ts'
import { type Answers, Questions } from './answers.ts'
import { emptyFile, HEAD_BYTES, parseContact, readHead } from './csv.ts'
import type { ImportPreviewRecord } from './model.ts'

/** The client sends no more than this of a file. It must be more than HEAD_BYTES, which a header may need. */
export const MAX_PREVIEW_BYTES = 256 * KiB
const MAX_CONTACTS = 5
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
    if (contacts.length < MAX_CONTACTS)
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
