/**
 * @module Suppression lists as CSV files (RFC 4180): parses imports and formats exports. Accepts commas or semicolons,
 * with or without a byte order mark; addresses, with or without a reason beside them, need no header. Never accesses
 * the database.
 */
import { isUtf8 } from 'node:buffer'
import { formatCsv, unescapeCell } from '#platform/csv/cells.ts'
import { invalidCsv } from '#platform/csv/invalid.ts'
import { type CsvRecord, detectStart, MAX_RECORD_BYTES, scanRecords } from '#platform/csv/records.ts'
import type { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { createFairYield } from '#platform/time/clock.ts'
import { COLUMNS, type Columns, EXPECTED, parseColumns, toKnownReason } from './columns.ts'
import type { Suppression } from './suppressions.ts'

/** A line of the file by its columns, as text; or why it is invalid. */
export type CsvLine =
  | ({ readonly kind: 'row'; readonly line: number } & Readonly<Record<(typeof COLUMNS)[number], string>>)
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
  let columns: Columns | undefined
  for await (const records of readRecords(file)) {
    const lines: CsvLine[] = []
    for (const { cells, line } of records) {
      if (columns) {
        lines.push(toLine(cells, line, columns))
      } else {
        columns = parseColumns(cells)
        onColumns(columns)
        if (columns.isBare) lines.push(toLine(cells, line, columns))
      }
    }
    if (lines.length > 0) yield lines
  }
  if (!columns) throw invalidCsv(`The file is empty. ${EXPECTED}`)
}

async function* readRecords(file: Uint8Array): AsyncGenerator<readonly WholeRecord[]> {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const { at: start, delimiter } = detectStart(bytes)
  for (let at = start, line = 1; at < bytes.length; ) {
    const window = bytes.subarray(at, at + 2 * MAX_RECORD_BYTES)
    const isEnd = at + window.length === bytes.length
    const scan = scanRecords(window, { delimiter, line, isEnd, maxRecords: LINES_PER_BATCH, maxLines: LINES_PER_BATCH })
    yield scan.records.map(requireWhole)
    at += scan.end
    line = scan.line
    await yieldFairly()
  }
}

type WholeRecord = Extract<CsvRecord, { kind: 'record' }>

function requireWhole(record: CsvRecord): WholeRecord {
  if (record.kind === 'broken') throw unreadableFile(record.line - 1)
  return record
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
  }
}

const unreadableFile = (lastLine: number): AppError =>
  invalidCsv(`The file cannot be read after line ${lastLine}: a quote is not closed there. Nothing was imported.`)

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
