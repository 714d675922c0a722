/**
 * @module Prints the results of commands: aligned text for people, JSON for programs. Text from other servers and
 * senders is untrusted, so its control characters never reach the terminal.
 */
import { formatRelativeTime } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'

// C0 and C1 controls, line separators and bidirectional controls.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

// Like UNPRINTABLE without the C0 controls: inside strings JSON escapes them, and outside they are only the line ends
// of the formatting.
const UNESCAPED = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g

/** Puts untrusted text on one line without control characters. */
export const toPrintable = (text: string): string => text.replace(UNPRINTABLE, ' ')

/** Removes control characters except tabs from untrusted text of several lines. */
export const toPrintableLines = (text: string): string =>
  text
    .split(/\r?\n/)
    .map((line) => line.split('\t').map(toPrintable).join('\t'))
    .join('\n')

export const print = (text: string): void => void process.stdout.write(`${text}\n`)

/** Escapes all control characters as `\\uXXXX`; `JSON.stringify` escapes only C0 controls. */
const escapeControls = (json: string): string =>
  json.replace(UNESCAPED, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

export const formatJson = (value: unknown): string => escapeControls(JSON.stringify(value, null, 2))

export const formatJsonLine = (value: unknown): string => escapeControls(JSON.stringify(value))

export const printJson = (value: unknown): void => print(formatJson(value))

/** Prints the value as JSON with `--json`, else as text. */
export function printResult<T>(
  options: { readonly json?: boolean | undefined },
  value: T,
  text: (value: T) => string,
): void {
  if (options.json) printJson(value)
  else print(text(value))
}

/** The columns of a table, by their headings. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => string>>

interface Page<Row> {
  readonly data: readonly Row[]
  readonly pagination?: { readonly total: number }
  readonly has_more?: boolean
}

/** Prints a list of the API: with `--json` as it is, else as a table; without rows, the sentence. */
export const printPage = <Row>(
  options: { readonly json?: boolean | undefined },
  page: Page<Row>,
  sentenceWithoutRows: string,
  columns: Columns<Row>,
): void => printResult(options, page, (shown) => formatPage(shown, sentenceWithoutRows, columns))

export function formatPage<Row>(page: Page<Row>, sentenceWithoutRows: string, columns: Columns<Row>): string {
  const { data, pagination, has_more: hasMore = false } = page
  const table = formatTable(
    Object.keys(columns),
    data.map((row) => Object.values(columns).map((toCell) => toCell(row))),
  )
  return data.length === 0
    ? sentenceWithoutRows
    : `${table}${hasMore ? `\n… and ${pagination ? `${pagination.total - data.length} ` : ''}more (--limit)` : ''}`
}

/** Puts an error on one line of JSON, in the form of the API's errors. */
export const formatJsonError = (code: string, message: string): string => formatJsonLine({ error: { code, message } })

/**
 * Prints a secret alone on standard output, so that it can be piped into a file, and the sentence about it on standard
 * error. With `--json` the secret is part of the value.
 */
export function printSecret<T>(
  options: { readonly json?: boolean | undefined },
  value: T,
  secret: string,
  sentence: string,
): void {
  if (options.json) {
    printJson(value)
  } else {
    print(secret)
    process.stderr.write(`${sentence}\n`)
  }
}

/** Formats rows in aligned columns under their headings, with control characters removed. */
export function formatTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(toPrintable))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => Bun.stringWidth(line[column] ?? ''))))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(cell)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Formats one field a line, with aligned values and control characters removed; leaves out those that are null. */
export function formatFields(fields: readonly (readonly [name: string, value: string | null])[], indent = 0): string {
  const shown = fields.flatMap(([name, value]) => (value === null ? [] : [{ name: `${name}:`, value }]))
  const width = Math.max(...shown.map(({ name }) => name.length))
  return shown.map(({ name, value }) => toPrintable(`${' '.repeat(indent)}${name.padEnd(width)} ${value}`)).join('\n')
}

/** Formats a time as `2026-11-21 14:02:11Z`. */
export const formatUtc = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 19)}Z`

/** Formats a time as `in 4 min`, `2 h ago` or `now`. */
export const formatFromNow = (iso: string): string => formatRelativeTime(Date.parse(iso), systemClock.now())

/** Formats a time as `2026-11-21 14:02:11Z (in 4 min)`. */
export const formatUtcFromNow = (iso: string): string => `${formatUtc(iso)} (${formatFromNow(iso)})`

/** The same as `formatUtc` for a time that may be missing. */
export const formatTime = (iso: string | null | undefined, missing = ''): string => (iso ? formatUtc(iso) : missing)

/** Formats a count as `1 email` or `2 emails`. */
export const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** Quotes a word for a shell when it needs that. */
export const quoteShellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`

const SIZE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Formats a size with at most three digits, such as `3.4 GiB`. */
export function formatSize(bytes: number): string {
  const step = Math.min(SIZE_UNITS.length - 1, bytes < 1024 ? 0 : Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** step
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${SIZE_UNITS[step]}`
}
