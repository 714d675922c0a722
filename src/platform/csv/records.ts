/**
 * @module Reads CSV records (RFC 4180) from one window of the file at a time, and can resume at the end of any record.
 * A quote that is never closed invalidates only its own line, not the rest of the file; a line that is too long
 * invalidates the file. Reads bytes in memory; knows no columns.
 */
import { isUtf8 } from 'node:buffer'
import { type AppError, invalid } from '../errors.ts'
import { KiB } from '../units.ts'
import { type Delimiter, detectDelimiter } from './cells.ts'

/** Limit for the bytes of a record; also how far a quote may extend. */
export const MAX_RECORD_BYTES = 64 * KiB

/** 422 `invalid_csv`, for a body that is not the file the route expects. */
export const invalidCsv = (message: string): AppError => invalid('body', message, 'invalid_csv')

/** A record, or the reason why a line is not a record. */
export type CsvRecord =
  | {
      readonly kind: 'record'
      /** Number of the record's first line, counted from 1. */
      readonly line: number
      /** The cells, trimmed where they are not quoted. */
      readonly cells: readonly string[]
    }
  | { readonly kind: 'broken'; readonly line: number; readonly error: string }

const BYTE_ORDER_MARK = Buffer.from('\ufeff')

/** Where the first record of a file begins, after a byte order mark, and its delimiter. */
export function detectStart(file: Buffer): { readonly at: number; readonly delimiter: Delimiter } {
  const at = file.indexOf(BYTE_ORDER_MARK) === 0 ? BYTE_ORDER_MARK.length : 0
  const start = file
    .subarray(at, at + MAX_RECORD_BYTES)
    .toString()
    .trimStart()
  return { at, delimiter: detectDelimiter(start.split(/[\r\n]/, 1)[0] ?? '') }
}

export interface ScanOptions {
  readonly delimiter: Delimiter
  /** Line number at the start of the window. */
  readonly line: number
  /** Whether the file ends with the window. If not, the window must have more than `MAX_RECORD_BYTES` bytes. */
  readonly isEnd: boolean
  readonly maxRecords: number
  /** Maximum number of lines to read, including empty ones. */
  readonly maxLines?: number
  /** Position of a cell that never contains a line break: a line break there proves that a quote was not closed. */
  readonly oneLineCell?: number
}

export interface Scan {
  readonly records: readonly CsvRecord[]
  /** Offset of the next record in the window. */
  readonly end: number
  /** Line number at that offset. */
  readonly line: number
}

const UNCLOSED = `A quote that begins in this line is not closed within ${MAX_RECORD_BYTES / KiB} KiB.`
const NOT_UTF8 = 'The line is not in UTF-8; save the file as "CSV UTF-8".'

/**
 * Reads the records at the start of a window. Skips empty lines and lines of empty cells. Throws 422 `invalid_csv` for
 * a line that is too long.
 */
export function scanRecords(window: Buffer, options: ScanOptions): Scan {
  const { maxRecords: most, maxLines: mostLines = Number.POSITIVE_INFINITY } = options
  const text = window.toString('latin1')
  const records: CsvRecord[] = []
  let at = 0
  let line = options.line
  while (at < window.length && records.length < most && line - options.line < mostLines) {
    const step = readStep(text, at, line, options)
    if (!step) break
    if (step.record) records.push(step.record)
    at = step.end
    line += step.lines
  }
  return { records, end: at, line }
}

/**
 * Reads the records of a file, or of its beginning, some lines at a time; a step without records read empty lines. Of
 * the beginning of a file, a record that its end cuts is left out.
 */
export function* scanInSteps(
  bytes: Buffer,
  options: Omit<ScanOptions, 'maxRecords' | 'maxLines'>,
  linesPerStep: number,
): Generator<readonly CsvRecord[]> {
  for (let { line } = options, at = 0; at < bytes.length; ) {
    const window = bytes.subarray(at, at + 2 * MAX_RECORD_BYTES)
    const isEnd = options.isEnd && at + window.length === bytes.length
    const scan = scanRecords(window, { ...options, line, isEnd, maxRecords: linesPerStep, maxLines: linesPerStep })
    yield scan.records
    if (scan.end === 0) return
    at += scan.end
    line = scan.line
  }
}

/** A record, a line without a record, or an invalid line. */
interface ScanStep {
  /** Undefined: the line or all its cells are empty. */
  readonly record: CsvRecord | undefined
  readonly end: number
  readonly lines: number
}

/**
 * Reads the record or line at an offset. Undefined: the record or line may end beyond this window.
 * @param text the window, one character per byte
 */
function readStep(text: string, at: number, line: number, options: ScanOptions): ScanStep | undefined {
  const ended = findLineEnd(text, at, options.isEnd)
  if (ended?.content === at) return { record: undefined, end: ended.next, lines: 1 }
  const content = text.slice(at, ended?.content)
  if (content.length > MAX_RECORD_BYTES)
    throw invalidCsv(`Line ${line} is longer than ${MAX_RECORD_BYTES / KiB} KiB; remove it and import the file again.`)
  if (content.includes('"')) {
    const read = readQuotedRecord(text, at, options)
    if (read === 'unfinished') return undefined
    if (read !== 'unclosed' && !hasLineBreak(read.cells, options.oneLineCell))
      return { record: toRecord(line, read.cells), end: read.end, lines: read.lines }
    return ended && { record: { kind: 'broken', line, error: UNCLOSED }, end: ended.next, lines: 1 }
  }
  const record = toRecord(line, decode(content)?.split(options.delimiter).map(trimCell))
  return ended && { record, end: ended.next, lines: 1 }
}

/** Undefined: the bytes are not UTF-8. */
function decode(text: string): string | undefined {
  const bytes = Buffer.from(text, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : undefined
}

const trimCell = (cell: string): string => cell.trim()

const hasLineBreak = (cells: readonly string[] | undefined, position: number | undefined): boolean =>
  position !== undefined && /[\r\n]/.test(cells?.[position] ?? '')

/** @param cells undefined when the record is not UTF-8 */
function toRecord(line: number, cells: readonly string[] | undefined): CsvRecord | undefined {
  if (!cells) return { kind: 'broken', line, error: NOT_UTF8 }
  return cells.some((cell) => cell !== '') ? { kind: 'record', line, cells } : undefined
}

interface LineEnd {
  /** Where the content of the line ends. */
  readonly content: number
  /** Where the next line begins. */
  readonly next: number
}

const LINE = /([^\r\n]*)(\r\n?|\n)?/y

/**
 * Finds the end of the line that contains `from`: CRLF, LF, CR, or the end of the file. Undefined: the line end is not
 * in this window.
 */
function findLineEnd(text: string, from: number, isEnd: boolean): LineEnd | undefined {
  LINE.lastIndex = from
  const [all = '', content = '', end] = LINE.exec(text) ?? []
  const next = from + all.length
  // The window may end between the CR and the LF of a CRLF.
  return !isEnd && next === text.length && !end?.endsWith('\n') ? undefined : { content: from + content.length, next }
}

interface QuotedRecord {
  /** Undefined: the cells are not UTF-8. */
  readonly cells: readonly string[] | undefined
  readonly end: number
  /** Number of lines that the record spans. */
  readonly lines: number
}

/** Why a record has no end: the rest may lie beyond the window, or a quote is not closed within the limit. */
type Interruption = 'unfinished' | 'unclosed'

/** A cell with what ends it: the text in quotes, the text after them or instead of them, and the end. */
const CELLS = {
  ',': /(?:[ \t]*"([^"]*(?:""[^"]*)*)"(?!")[ \t]*|(?![ \t]*"))([^,\r\n]*)(,|\r\n?|\n|$)/y,
  ';': /(?:[ \t]*"([^"]*(?:""[^"]*)*)"(?!")[ \t]*|(?![ \t]*"))([^;\r\n]*)(;|\r\n?|\n|$)/y,
}

/**
 * Reads one record with quotes. A quote opens at the beginning of a cell; anywhere else it is literal. Text after a
 * closing quote makes the whole cell literal (`"Ada" <ada@example.com>`). But if there is a line break between the two
 * quotes, the first one counts as never closed.
 */
function readQuotedRecord(text: string, start: number, { delimiter, isEnd }: ScanOptions): QuotedRecord | Interruption {
  const readable = text.slice(start, start + MAX_RECORD_BYTES)
  const isCut = start + readable.length < text.length
  const cells: (string | undefined)[] = []
  let lines = 1
  const pattern = CELLS[delimiter]
  pattern.lastIndex = 0
  for (;;) {
    const [all = '', quoted, other = '', ending] = pattern.exec(readable) ?? []
    const breaks = (quoted ?? '').split(/\r\n?|\n/).length - 1
    if (breaks > 0 && other !== '') return 'unclosed'
    if (ending === undefined || (ending === '' && (isCut || !isEnd))) return isCut || isEnd ? 'unclosed' : 'unfinished'
    lines += breaks
    cells.push(
      quoted === undefined || other !== ''
        ? decode(all.slice(0, all.length - ending.length))?.trim()
        : decode(quoted)?.replaceAll('""', '"'),
    )
    if (ending === delimiter) continue
    const end = start + pattern.lastIndex
    // The window may end between the CR and the LF of a CRLF.
    if (ending === '\r' && end === text.length && !isEnd) return 'unfinished'
    const isSplit = ending === '\r' && text[end] === '\n'
    return { cells: cells.every((cell) => cell !== undefined) ? cells : undefined, end: isSplit ? end + 1 : end, lines }
  }
}
