/**
 * @module Suppression lists as CSV files (RFC 4180): what an import reads and an export writes. Reads with comma or semicolon, with or without a
 * byte order mark, and one column also without a header. Never touches the database.
 */
import { isUtf8 } from 'node:buffer'
import { giveWay } from '#platform/clock.ts'
import { csvLines, unescaped } from '#platform/csv/cells.ts'
import { type CsvRecord, LONGEST_RECORD, scanRecords, startOf } from '#platform/csv/records.ts'
import { type AppError, invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Suppression } from './suppressions.ts'

const COLUMNS = ['email_address', 'reason', 'stream', 'list'] as const
type Column = (typeof COLUMNS)[number]

/** A line of the file by its columns, as text; or why it has no such form. */
export type CsvLine =
  | ({ readonly kind: 'row'; readonly line: number } & Readonly<Record<Column, string>>)
  | { readonly kind: 'broken'; readonly line: number; readonly error: string }

/** Lines that are read in one turn of the event loop: about 1 ms. */
const LINES_AT_ONCE = 1000

/**
 * The lines of a file in their order, some at a time; gives way to the event loop between them. Empty lines are left out.
 * Throws 422 `invalid_csv` for what is no such file, at the place where that shows.
 */
export async function* readCsv(file: Uint8Array): AsyncGenerator<readonly CsvLine[]> {
  if (!isUtf8(file)) throw notCsv('The file is not in UTF-8; save it as "CSV UTF-8".')
  let columns: readonly Column[] | undefined
  for await (const records of recordsOf(file)) {
    const lines: CsvLine[] = []
    for (const { cells, line } of records) {
      if (columns) {
        lines.push(lineOf(cells, line, columns))
      } else {
        columns = columnsOf(cells)
        if (isBareAddress(cells)) lines.push(lineOf(cells, line, columns))
      }
    }
    if (lines.length > 0) yield lines
  }
  if (!columns) throw notCsv(`The file is empty. ${EXPECTED}`)
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
    await giveWay()
  }
}

type WholeRecord = Extract<CsvRecord, { kind: 'record' }>

function whole(record: CsvRecord): WholeRecord {
  if (record.kind === 'broken') throw unreadable(record.line - 1)
  return record
}

const EXPECTED =
  'The first line must name the columns: email_address (or email, or address), and if wanted reason, stream and list; a file of one column of addresses needs none.'

const isBareAddress = (record: readonly string[]): boolean => record.length === 1 && (record[0] ?? '').includes('@')

/** What the first line says of the columns. */
function columnsOf(header: readonly string[]): Column[] {
  if (isBareAddress(header)) return ['email_address']
  const names = header.map((name) => columnName(name.trim().toLowerCase()))
  const unknown = names.find((name) => !isColumn(name))
  if (unknown !== undefined) throw notCsv(`There is no column ${JSON.stringify(unknown.slice(0, 100))}. ${EXPECTED}`)
  const columns = names.filter(isColumn)
  if (!columns.includes('email_address')) throw notCsv(`There is no column email_address. ${EXPECTED}`)
  if (new Set(columns).size < columns.length) throw notCsv(`A column is there twice. ${EXPECTED}`)
  return columns
}

/** As the exports of other services call it. */
const ADDRESS_COLUMNS: readonly string[] = ['email', 'address', 'email address']
const columnName = (name: string): string => (ADDRESS_COLUMNS.includes(name) ? 'email_address' : name)

const isColumn = (name: string): name is Column => COLUMNS.some((column) => column === name)

function lineOf(record: readonly string[], line: number, columns: readonly Column[]): CsvLine {
  if (record.length > columns.length)
    return { kind: 'broken', line, error: `It has ${record.length} fields instead of ${columns.length}.` }
  const cell = (column: Column): string => unescaped(record[columns.indexOf(column)] ?? '')
  return {
    kind: 'row',
    line,
    email_address: cell('email_address'),
    reason: cell('reason'),
    stream: cell('stream'),
    list: cell('list'),
  }
}

const unreadable = (lastLine: number): AppError =>
  notCsv(
    `The file cannot be read after line ${lastLine}: a quote is not closed there, or a line is far too long. Nothing was imported.`,
  )

const notCsv = (message: string): AppError => invalid('body', message, 'invalid_csv')

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
