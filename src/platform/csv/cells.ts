/**
 * @module CSV cells, for readers and writers: how cells are escaped so that no spreadsheet runs one as a formula, and
 * how that is undone.
 */
import { stringify } from 'csv-stringify/sync'

export type Delimiter = ',' | ';'

/**
 * Detects the delimiter from the first line: a semicolon only if there is no comma, as spreadsheets write it in
 * countries with a decimal comma.
 */
export function detectDelimiter(firstLine: string): Delimiter {
  const outside = firstLine.replace(/"[^"]*"/g, '')
  return outside.includes(';') && !outside.includes(',') ? ';' : ','
}

/**
 * Spreadsheets run a cell as a formula when it begins with certain signs, and may split a line at characters other than
 * commas. An apostrophe at each place where a cell may begin with such a sign makes it text. It is added even before
 * existing apostrophes, so that an import can remove exactly one.
 */
const CELL_START = String.raw`(?<=^|[,;|\t\r\n])`
// Spreadsheets skip quotes, white space and invisible characters before the sign of a formula. Those that begin a cell
// are excluded, so that the regex reads each run once.
const SKIPPED = String.raw`[\0-\x08\v\f\x0e-\x20'"\x7f-\xa0\p{Zs}\p{Cf}\u2028\u2029]`
const FORMULA_FOLLOWS = String.raw`(?=${SKIPPED}*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])`
const FORMULA = new RegExp(`${CELL_START}${FORMULA_FOLLOWS}`, 'gu')
const ESCAPED_FORMULA = new RegExp(`${CELL_START}'${FORMULA_FOLLOWS}`, 'gu')

/** Removes from a cell what `formatCsv` added against formulas. */
export const unescapeCell = (cell: string): string => cell.replace(ESCAPED_FORMULA, '')

/** Formats rows as RFC 4180 lines with line ends; no cell is a formula. */
export const formatCsv = (rows: readonly (readonly string[])[]): string =>
  stringify(
    rows.map((row) => row.map((cell) => cell.replace(FORMULA, "'"))),
    {
      record_delimiter: 'windows',
      // Quotes cells that a reader would trim, and cells with a line break.
      quoted_match: /^\s|\s$|[\r\n]/,
    },
  )
