/**
 * @module Suppression lists as CSV files (RFC 4180): what an import reads and an export writes. Reads with comma or semicolon, with or without a
 * byte order mark, and addresses, with or without a reason beside them, also without a header. Never touches the database.
 */
import { isUtf8 } from 'node:buffer'
import { createTurns } from '#platform/clock.ts'
import { csvLines, unescaped } from '#platform/csv/cells.ts'
import { invalidCsv } from '#platform/csv/invalid.ts'
import { type CsvRecord, LONGEST_RECORD, scanRecords, startOf } from '#platform/csv/records.ts'
import type { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { COLUMNS, type Columns, columnsOf, EXPECTED, reasonOf } from './columns.ts'
import type { Suppression } from './suppressions.ts'

/** A line of the file by its columns, as text; or why it has no such form. */
export type CsvLine =
  | ({ readonly kind: 'row'; readonly line: number } & Readonly<Record<(typeof COLUMNS)[number], string>>)
  | { readonly kind: 'broken'; readonly line: number; readonly error: string }

/** Lines that are read in one turn of the event loop: about 1 ms. */
const LINES_AT_ONCE = 1000
/** However many files are read at once, each piece has a turn of the event loop of its own. */
const turn = createTurns()

/**
 * The lines of a file in their order, some at a time; gives way to the event loop between them. Empty lines are left out.
 * Throws 422 `invalid_csv` for what is no such file, at the place where that shows.
 * @param onColumns told once what the columns are
 */
export async function* readCsv(
  file: Uint8Array,
  onColumns: (columns: Columns) => void = () => undefined,
): AsyncGenerator<readonly CsvLine[]> {
  if (!isUtf8(file) || file.subarray(0, LONGEST_RECORD).includes(0))
    throw invalidCsv('The file is not in UTF-8; save it as "CSV UTF-8".')
  let columns: Columns | undefined
  for await (const records of recordsOf(file)) {
    const lines: CsvLine[] = []
    for (const { cells, line } of records) {
      if (columns) {
        lines.push(lineOf(cells, line, columns))
      } else {
        columns = columnsOf(cells)
        onColumns(columns)
        if (columns.isBare) lines.push(lineOf(cells, line, columns))
      }
    }
    if (lines.length > 0) yield lines
  }
  if (!columns) throw invalidCsv(`The file is empty. ${EXPECTED}`)
}

async function* recordsOf(file: Uint8Array): AsyncGenerator<readonly WholeRecord[]> {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const { at: start, delimiter } = startOf(bytes)
  for (let at = start, line = 1; at < bytes.length; ) {
    const window = bytes.subarray(at, at + 2 * LONGEST_RECORD)
    const isEnd = at + window.length === bytes.length
    const scan = scanRecords(window, { delimiter, line, isEnd, most: LINES_AT_ONCE, mostLines: LINES_AT_ONCE })
    yield scan.records.map(whole)
    at += scan.end
    line = scan.line
    await turn()
  }
}

type WholeRecord = Extract<CsvRecord, { kind: 'record' }>

function whole(record: CsvRecord): WholeRecord {
  if (record.kind === 'broken') throw unreadable(record.line - 1)
  return record
}

function lineOf(record: readonly string[], line: number, { count, at, isOwnExport }: Columns): CsvLine {
  if (record.slice(count).some((cell) => cell !== ''))
    return { kind: 'broken', line, error: `It has ${record.length} fields instead of ${count}.` }
  const cell = (column: keyof Columns['at']): string => unescaped(record[at[column] ?? -1] ?? '')
  const reason = cell('reason')
  return {
    kind: 'row',
    line,
    email_address: cell('email_address'),
    reason: isOwnExport ? reason : reasonOf(reason, cell('origin')),
    stream: cell('stream'),
    list: cell('list'),
  }
}

const unreadable = (lastLine: number): AppError =>
  invalidCsv(
    `The file cannot be read after line ${lastLine}: a quote is not closed there, or a line is far too long. Nothing was imported.`,
  )

export const CSV_HEADER: string = csvLines([COLUMNS])

/** Rows of an export, each with its line end. */
export const csvOf = (suppressions: readonly Suppression[]): string =>
  csvLines(
    suppressions.map(({ address, reason, stream, listUuid }) => [
      address,
      reason,
      stream ?? '',
      listUuid ? formatUuid(listUuid) : '',
    ]),
  )
