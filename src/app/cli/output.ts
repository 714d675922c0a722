/**
 * @module Prints the results of commands: aligned text for people, JSON for programs. Text from other servers and
 * senders is untrusted, so its control characters never reach the terminal.
 */
import { formatRelativeTime, truncate } from '#platform/text.ts'
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

export interface JsonOption {
  readonly json?: boolean | undefined
}

export const print = (text: string): void => void process.stdout.write(`${text}\n`)

/** Escapes all control characters as `\\uXXXX`; `JSON.stringify` escapes only C0 controls. */
const escapeControls = (json: string): string =>
  json.replace(UNESCAPED, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

export const formatJson = (value: unknown): string => escapeControls(JSON.stringify(value, null, 2))

export const formatJsonLine = (value: unknown): string => escapeControls(JSON.stringify(value))

export const printJson = (value: unknown): void => print(formatJson(value))

/** Prints the value as JSON with `--json`, else as text without control characters. */
export function printResult<T>(options: JsonOption, value: T, text: (value: T) => string): void {
  if (options.json) printJson(value)
  else print(toPrintableLines(text(value)))
}

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text

/** What columns show that is not just a field, by their names. */
export type Cells<Row, Cell extends string> = Readonly<Record<Cell, (row: Row) => unknown>>

/** Names of fields and cells, separated by spaces: the columns of a table. */
export type Columns<Row, Cell, Names extends string> = Words<Names> extends keyof Row | Cell ? Names : never

interface Page<Row> {
  readonly data: readonly Row[]
  readonly has_more?: boolean
}

/** Of a cell of several words, such as a subject. What is copied (ids, addresses, URLs) is whole, also in a list. */
const MAX_TEXT_LENGTH = 60
const SEVERAL_WORDS = /[^,;] /

/** Formats a list of the API as a table; without rows, the sentence. */
export function formatPage<Row, Names extends string, Cell extends string = never>(
  { data, has_more: hasMore = false }: Page<Row>,
  columns: Columns<Row, Cell, Names>,
  cells?: Cells<Row, Cell>,
  sentenceWithoutRows = '',
): string {
  if (data.length === 0) return sentenceWithoutRows
  const names = columns.split(' ')
  const toCell = new Map<string, (row: Row) => unknown>(Object.entries(cells ?? {}))
  const rows = data.map((row) =>
    names.map((name, i) => {
      const text = formatValue(toCell.has(name) ? toCell.get(name)?.(row) : row[name as keyof Row], name)
      // The last one needs no column: replies and reasons are whole.
      return i < names.length - 1 && SEVERAL_WORDS.test(text) ? truncate(text, MAX_TEXT_LENGTH) : text
    }),
  )
  const headings = names.map((name) => toWords(name).toUpperCase())
  return `${formatTable(headings, rows)}${hasMore ? '\n… and more (--limit)' : ''}`
}

/** Joins what there is with empty lines. */
export const joinParagraphs = (...parts: readonly (string | false)[]): string =>
  parts.filter((part) => part !== '' && part !== false).join('\n\n')

/** Puts an error on one line of JSON, in the form of the API's errors. */
export const formatJsonError = (code: string, message: string): string => formatJsonLine({ error: { code, message } })

/**
 * Prints a secret alone on standard output, so that it can be piped into a file, and the sentence about it on standard
 * error. With `--json` the secret is part of the value.
 */
export function printSecret<T>(options: JsonOption, value: T, secret: string, sentence: string): void {
  print(options.json ? formatJson(value) : secret)
  if (!options.json) process.stderr.write(`${toPrintable(sentence)}\n`)
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

const toWords = (name: string): string =>
  name
    .replace(/_bytes$/, '')
    .replaceAll('_', ' ')
    .replace(/\b(?:tls|smtp|url|id|ip|dns|mx)\b/g, (word) => word.toUpperCase())

/** Formats a value of the API for people; nothing for null. */
export function formatValue(value: unknown, name = ''): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number') return name.endsWith('bytes') ? formatSize(value) : String(value)
  if (Array.isArray(value))
    return value.map((each) => formatValue(each)).join(typeof value[0] === 'object' ? '; ' : ', ')
  if (typeof value !== 'object') return TIME.test(String(value)) ? formatUtc(String(value)) : String(value)
  return listFields(value)
    .map(([key, text]) => `${toWords(key)} ${text}`)
    .join(', ')
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/

const listFields = (value: object): (readonly [name: string, text: string])[] =>
  Object.entries(value).flatMap(([name, field]) => {
    const text = formatValue(field, name)
    return text === '' ? [] : [[name, text] as const]
  })

/** Formats one field a line, with aligned values and control characters removed; leaves out those without a value. */
export function formatFields(value: object, indent = 0): string {
  const shown = listFields(value).map(([name, text]) => [`${capitalise(toWords(name))}:`, text] as const)
  const width = Math.max(...shown.map(([label]) => label.length))
  return shown.map(([label, text]) => toPrintable(`${' '.repeat(indent)}${label.padEnd(width)} ${text}`)).join('\n')
}

const capitalise = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)

/** Formats a time as `2026-11-21 14:02:11Z`. */
export const formatUtc = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 19)}Z`

/** Formats a time as `in 4 min`, `2 h ago` or `now`. */
export const formatFromNow = (iso: string): string => formatRelativeTime(Date.parse(iso), systemClock.now())

/** Formats a time as `2026-11-21 14:02:11Z (in 4 min)`. */
export const formatUtcFromNow = (iso: string): string => `${formatUtc(iso)} (${formatFromNow(iso)})`

/** Formats a count as `1 email` or `2 emails`. */
export const formatCount = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

const SIZE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Formats a size with at most three digits, such as `3.4 GiB`. */
export function formatSize(bytes: number): string {
  const step = Math.min(SIZE_UNITS.length - 1, bytes < 1024 ? 0 : Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** step
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${SIZE_UNITS[step]}`
}
