/**
 * @module What both CSV readers and both writers share: how cells are written so that no spreadsheet takes one for a formula, and how that is undone.
 */
import { stringify } from 'csv-stringify/sync'

export type Delimiter = ',' | ';'

/** Of the first line: a semicolon only where there is no comma, as spreadsheets write it in countries with a decimal comma. */
export function detectDelimiter(firstLine: string): Delimiter {
  const outside = firstLine.replace(/"[^"]*"/g, '')
  return outside.includes(';') && !outside.includes(',') ? ';' : ','
}

/**
 * Spreadsheets take a cell that begins so for a formula, and may part a line at other characters than its commas. An apostrophe at each such beginning
 * makes it text, also before one that has some already, so that an import can take exactly one away again.
 */
const CELL_START = String.raw`(?<=^|[,;|\t\r\n])`
// Before the sign of a formula spreadsheets pass over quotes, white space and characters that nobody sees. Those that begin a cell are not among them, so
// that each run of these is read once.
const SKIPPED = String.raw`[\0-\x08\v\f\x0e-\x20'"\x7f-\xa0\p{Zs}\p{Cf}\u2028\u2029]`
const FORMULA_FOLLOWS = String.raw`(?=${SKIPPED}*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])`
const FORMULA = new RegExp(`${CELL_START}${FORMULA_FOLLOWS}`, 'gu')
const ESCAPED_FORMULA = new RegExp(`${CELL_START}'${FORMULA_FOLLOWS}`, 'gu')

/** A cell as `formatCsv` wrote it, without what keeps it from being a formula. */
export const unescapeCell = (cell: string): string => cell.replace(ESCAPED_FORMULA, '')

/** Rows as lines, each with its end: RFC 4180, no cell a formula. */
export const formatCsv = (rows: readonly (readonly string[])[]): string =>
  stringify(
    rows.map((row) => row.map((cell) => cell.replace(FORMULA, "'"))),
    {
      record_delimiter: 'windows',
      // What a reader would trim, or take for the end of a line.
      quoted_match: /^\s|\s$|[\r\n]/,
    },
  )
