/**
 * @module Suppression lists as CSV files (RFC 4180): what an import reads and an export writes. Reads with comma or semicolon, with or without a
 * byte order mark, and one column also without a header. Never touches the database.
 */
import { isUtf8 } from 'node:buffer'
import { type Parser, parse } from 'csv-parse'
import { stringify } from 'csv-stringify/sync'
import { giveWay } from '#platform/clock.ts'
import { type AppError, invalid } from '#platform/errors.ts'
import { KiB } from '#platform/units.ts'
import type { Suppression } from './suppressions.ts'

const COLUMNS = ['email_address', 'reason', 'stream'] as const
type Column = (typeof COLUMNS)[number]

/** A line of the file by its columns, as text; or why it has no such form. */
export type CsvLine =
  | ({ readonly kind: 'row'; readonly line: number } & Readonly<Record<Column, string>>)
  | { readonly kind: 'broken'; readonly line: number; readonly error: string }

/** Bytes that are parsed in one turn of the event loop: about 1 ms. */
const CHUNK_BYTES = 16 * KiB
/** More than the longest address, reason and slug; a quote that is never closed ends here. */
const LONGEST_RECORD = 4096
const BYTE_ORDER_MARK = '\ufeff'

interface CsvRecord {
  readonly record: readonly string[]
  readonly info: { readonly lines: number }
}

/**
 * The lines of a file in their order, some at a time; gives way to the event loop between them. Empty lines are left out.
 * Throws 422 `invalid_csv` for what is no such file, at the place where that shows.
 */
export async function* readCsv(file: Uint8Array): AsyncGenerator<readonly CsvLine[]> {
  if (!isUtf8(file)) throw notCsv('The file is not in UTF-8; save it as "CSV UTF-8".')
  let columns: readonly Column[] | undefined
  for await (const records of recordsOf(file)) {
    const lines: CsvLine[] = []
    for (const { record, info } of records) {
      if (columns) {
        lines.push(lineOf(record, info.lines, columns))
      } else {
        columns = columnsOf(record)
        if (isBareAddress(record)) lines.push(lineOf(record, info.lines, columns))
      }
    }
    if (lines.length > 0) yield lines
  }
  if (!columns) throw notCsv(`The file is empty. ${EXPECTED}`)
}

async function* recordsOf(file: Uint8Array): AsyncGenerator<readonly CsvRecord[]> {
  const parser = parse({
    bom: true,
    delimiter: delimiterOf(file),
    info: true,
    max_record_size: LONGEST_RECORD,
    // Files that were put together have several.
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    trim: true,
  })
  let lastLine = 0
  let failure: unknown
  parser.on('error', (error) => (failure = error))
  try {
    for (let from = 0; from < file.length; from += CHUNK_BYTES) {
      parser.write(file.subarray(from, from + CHUNK_BYTES))
      const records = taken(parser)
      lastLine = records.at(-1)?.info.lines ?? lastLine
      if (failure !== undefined) throw failure
      yield records
      await giveWay()
    }
    parser.end()
    const rest: CsvRecord[] = []
    for await (const record of parser) {
      rest.push(record as CsvRecord)
      lastLine = (record as CsvRecord).info.lines
    }
    yield rest
  } catch (error) {
    throw isCsvError(error) ? unreadable(lastLine) : error
  } finally {
    parser.destroy()
  }
}

function taken(parser: Parser): CsvRecord[] {
  const records: CsvRecord[] = []
  for (let record = parser.read() as CsvRecord | null; record !== null; record = parser.read() as CsvRecord | null)
    records.push(record)
  return records
}

/** Of the first line: a semicolon only where there is no comma, as spreadsheets write it in countries with a decimal comma. */
function delimiterOf(file: Uint8Array): ',' | ';' {
  const start = Buffer.from(file.subarray(0, LONGEST_RECORD)).toString()
  const [first = ''] = start.split(/[\r\n]/, 1)
  return first.includes(';') && !first.includes(',') ? ';' : ','
}

const EXPECTED =
  'The first line must name the columns: email_address (or email, or address), and if wanted reason and stream; a file of one column of addresses needs none.'

const isBareAddress = (record: readonly string[]): boolean => record.length === 1 && (record[0] ?? '').includes('@')

/** What the first line says of the columns. */
function columnsOf(header: readonly string[]): Column[] {
  if (isBareAddress(header)) return ['email_address']
  const names = header.map((name) => columnName(name.replace(BYTE_ORDER_MARK, '').trim().toLowerCase()))
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
  return { kind: 'row', line, email_address: cell('email_address'), reason: cell('reason'), stream: cell('stream') }
}

const isCsvError = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('CSV_')

const unreadable = (lastLine: number): AppError =>
  notCsv(
    `The file cannot be read after line ${lastLine}: a quote is not closed there, or a line is far too long. Nothing was imported.`,
  )

const notCsv = (message: string): AppError => invalid('body', message, 'invalid_csv')

/**
 * Spreadsheets take a cell that begins so for a formula, and may part a line at other characters than its commas. An apostrophe at each such beginning
 * makes it text, also before one that has some already, so that an import can take exactly one away again.
 */
const CELL_BEGINS = String.raw`(?<=^|[,;|\t\r\n])`
const FORMULA_FOLLOWS = String.raw`(?=[ '"]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])`
const FORMULA = new RegExp(`${CELL_BEGINS}${FORMULA_FOLLOWS}`, 'g')
const ESCAPED = new RegExp(`${CELL_BEGINS}'${FORMULA_FOLLOWS}`, 'g')

const escaped = (cell: string): string => cell.replace(FORMULA, "'")
const unescaped = (cell: string): string => cell.replace(ESCAPED, '')

const OPTIONS = {
  record_delimiter: 'windows',
  // What a reader would trim, or take for the end of a line.
  quoted_match: /^\s|\s$|[\r\n]/,
} as const

export const CSV_HEADER: string = stringify([[...COLUMNS]], OPTIONS)

/** Rows of an export, each with its line end. */
export const csvOf = (suppressions: readonly Suppression[]): string =>
  stringify(
    suppressions.map(({ address, reason, stream }) => [address, reason, stream ?? ''].map(escaped)),
    OPTIONS,
  )
