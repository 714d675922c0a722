/**
 * @module Suppression lists as CSV files (RFC 4180): parses imports and formats exports. Accepts commas or semicolons,
 * with or without a byte order mark; addresses, with or without a reason beside them, need no header. A file that cannot
 * be read imports nothing; an invalid line is reported and skipped. Lines are committed in batches, so that a large file
 * does not block other requests; a file whose import was interrupted can be imported again.
 */
import { isUtf8 } from 'node:buffer'
import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { requireOpenAccount } from '#features/core/accounts/rows.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { findListRowId } from '#features/setup/contact-store/lists.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { formatCsv, unescapeCell } from '#platform/csv/cells.ts'
import { type CsvRecord, detectStart, invalidCsv, MAX_RECORD_BYTES, scanInSteps } from '#platform/csv/records.ts'
import type { Tx } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { createFairYield } from '#platform/time/clock.ts'
import { parseDateTime } from '#platform/time/date-time.ts'
import type { Millis } from '#platform/units.ts'
import { COLUMNS, type Columns, EXPECTED, parseColumns, toKnownReason } from './columns.ts'
import type { ImportResult } from './model.ts'
import { parseReason, parseSuppressedAddress, type Suppression, toScope } from './suppressions.ts'

/** A line of the file by its columns, as text; or why it is invalid. */
export type CsvLine =
  | ({ readonly kind: 'row'; readonly line: number } & Readonly<
      Record<(typeof COLUMNS)[number] | 'created_at', string>
    >)
  | { readonly kind: 'broken'; readonly line: number; readonly error: string }

/** Lines read per tick of the event loop: about 1 ms. */
const LINES_PER_BATCH = 1000
/** However many files are read at the same time, each chunk gets its own tick of the event loop. */
const yieldFairly = createFairYield()

/** The lines of a file that are not empty, in batches between ticks. Throws 422 `invalid_csv` for an invalid file. */
export async function* readCsv(
  file: Uint8Array,
  onColumns: (columns: Columns) => void = () => undefined,
): AsyncGenerator<readonly CsvLine[]> {
  if (!isUtf8(file) || file.subarray(0, MAX_RECORD_BYTES).includes(0))
    throw invalidCsv('The file is not in UTF-8; save it as "CSV UTF-8".')
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const { at, delimiter } = detectStart(bytes)
  let columns: Columns | undefined
  for (const records of scanInSteps(bytes.subarray(at), { delimiter, line: 1, isEnd: true }, LINES_PER_BATCH)) {
    const lines: CsvLine[] = []
    for (const { cells, line } of records.map(requireWhole)) {
      if (columns) {
        lines.push(toLine(cells, line, columns))
      } else {
        columns = parseColumns(cells)
        onColumns(columns)
        if (columns.isBare) lines.push(toLine(cells, line, columns))
      }
    }
    if (lines.length > 0) yield lines
    await yieldFairly()
  }
  if (!columns) throw invalidCsv(`The file is empty. ${EXPECTED}`)
}

function requireWhole(record: CsvRecord): Exclude<CsvRecord, { kind: 'broken' }> {
  if (record.kind !== 'broken') return record
  const lastLine = record.line - 1
  throw invalidCsv(`The file cannot be read after line ${lastLine}: a quote is not closed there. Nothing was imported.`)
}

function toLine(record: readonly string[], line: number, { count, at, isOwnExport }: Columns): CsvLine {
  if (record.slice(count).some((cell) => cell !== ''))
    return { kind: 'broken', line, error: `The line has ${record.length} fields instead of ${count}.` }
  const cell = (column: keyof Columns['at']): string => unescapeCell(record[at[column] ?? -1] ?? '')
  const reason = cell('reason')
  return {
    kind: 'row',
    line,
    email_address: cell('email_address'),
    reason: isOwnExport ? reason : toKnownReason(reason, cell('origin')),
    stream: cell('stream'),
    list: cell('list'),
    created_at: cell('created_at'),
  }
}

export const CSV_HEADER: string = formatCsv([COLUMNS])

/** Formats rows of an export, each with its line end. */
export const formatRows = (suppressions: readonly Suppression[]): string =>
  formatCsv(
    suppressions.map(({ address, reason, stream, listUuid }) => [
      address,
      reason,
      stream ?? '',
      listUuid ? formatUuid(listUuid) : '',
    ]),
  )

/** Lines per transaction: about 4 ms. */
const BATCH_SIZE = 250
const MAX_ERRORS = 100

/** Rolls back the writes of a dry run. */
const DRY_RUN = new Error('dry run')

/**
 * Imports a file. Throws 422 `invalid_csv` for an invalid file, before anything is stored, and 404 when the account was
 * deleted during the import.
 * @param defaultReason of lines without a reason; default: manual
 * @param isDryRun whether nothing is stored
 */
export async function importSuppressions(
  app: App,
  actor: Actor,
  file: Uint8Array,
  defaultReason?: string,
  isDryRun = false,
): Promise<ImportResult> {
  const parsed = parseReason(defaultReason)
  if ('error' in parsed) throw invalid('reason', parsed.error)
  // The file is read twice: an error near its end must be found before its beginning is imported.
  let total = 0
  const ignored: string[] = []
  const onColumns = ({ ignored: names }: Columns) => ignored.push(...names)
  for await (const lines of readCsv(file, onColumns)) total += lines.length
  const data: ImportResult['data'] = { imported: 0, already_suppressed: 0, invalid: 0, total, ignored_columns: ignored }
  const errors: ImportResult['errors'] = []
  const owner = getTenantId(app.db, actor.accountId)
  for await (const batch of toBatches(readCsv(file))) {
    app.workBudget.charge(actor.accountId, batch.length)
    const isFirst = data.imported + data.already_suppressed + data.invalid === 0
    let results: ReturnType<typeof importLine>[] = []
    const write = (tx: Tx): void => {
      requireOpenAccount(tx.db, actor.accountId)
      const metadata = { lines: total }
      if (isFirst) audit(app, tx, actor, { action: 'suppression.imported', resourceType: 'suppression', metadata })
      results = storeWithinPlan(app, tx, actor.accountId, () =>
        batch.map((line) => importLine(app, tx, actor, line, parsed.reason)),
      )
      if (isDryRun) throw DRY_RUN
    }
    await app.commit.write(write, { owner }).catch((error) => {
      if (error !== DRY_RUN) throw error
    })
    for (const [index, result] of results.entries()) {
      const line = batch[index]?.line ?? 0
      if (typeof result === 'boolean') data[result ? 'imported' : 'already_suppressed']++
      else if (++data.invalid <= MAX_ERRORS) errors.push({ line, error: result.error })
    }
  }
  return { data, errors }
}

async function* toBatches(groups: AsyncIterable<readonly CsvLine[]>): AsyncGenerator<readonly CsvLine[]> {
  for await (const lines of groups)
    for (let from = 0; from < lines.length; from += BATCH_SIZE) yield lines.slice(from, from + BATCH_SIZE)
}

/** Whether the line is new on the list, or why it is invalid. */
function importLine(
  app: App,
  tx: Tx,
  { accountId }: Actor,
  line: CsvLine,
  defaultReason: string,
): boolean | { readonly error: string } {
  if (line.kind === 'broken') return { error: line.error }
  const listed = parseSuppressedAddress(line.email_address)
  if ('reason' in listed) return { error: listed.reason }
  const parsed = parseReason(line.reason === '' ? defaultReason : line.reason)
  if ('error' in parsed) return parsed
  const { reason } = parsed
  const suppression = {
    accountId,
    address: listed.address,
    reason,
    covers: toScope(reason),
    keepsFirst: true,
    createdAt: parseForeignTime(line.created_at),
  }
  if (line.stream === '' && line.list === '') return suppress(app, tx, suppression)
  if (reason !== UNSUBSCRIBE) return { error: `Only the reason ${UNSUBSCRIBE} can be limited to a stream or a list.` }
  if (line.stream !== '' && line.list !== '')
    return { error: 'The line names a stream and a list; set only one of them.' }
  if (line.list !== '') {
    const listId = findListRowId(tx.db, accountId, line.list)
    return listId === undefined
      ? { error: `There is no contact list with the id ${JSON.stringify(line.list.slice(0, 36))} on this account.` }
      : suppress(app, tx, { ...suppression, listId })
  }
  const streamId = findStreamId(tx.db, accountId, line.stream)
  return streamId === undefined
    ? { error: `There is no stream ${JSON.stringify(line.stream.slice(0, 63))} on this account.` }
    : suppress(app, tx, { ...suppression, streamId })
}

/** Also in seconds, or as in HTTP; undefined: it is none. The runtime would take a number for a month or a year. */
function parseForeignTime(text: string): Millis | undefined {
  const seconds = /^\d{9,11}(?:\.\d+)?$/.test(text) ? Number(text) : undefined
  const other = /\d:\d\d/.test(text) ? Date.parse(text) : Number.NaN
  const at = seconds === undefined ? (parseDateTime(text, 'any') ?? other) : seconds * 1000
  return Number.isNaN(at) ? undefined : Math.floor(at)
}
