/**
 * @module Reads CSV records (RFC 4180) from one window of the file at a time, and can resume at the end of any record.
 * A quote that is never closed invalidates only its own line, not the rest of the file. Reads bytes in memory; knows
 * no columns.
 */
import { isUtf8 } from 'node:buffer'
import { KiB } from '../units.ts'
import { type Delimiter, detectDelimiter } from './cells.ts'

/** Limit for the bytes of a record; also how far a quote may extend. */
export const MAX_RECORD_BYTES = 64 * KiB

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
  /**
   * Whether the window ends within a line that is too long: the bytes after the window, up to the end of that line,
   * still belong to it.
   */
  readonly isInsideLine: boolean
}

const LF = 10
const CR = 13
const TAB = 9
const SPACE = 32
const QUOTE = 34
/** Stands for a position that does not exist. */
const NOT_FOUND = Number.POSITIVE_INFINITY

const UNCLOSED = `A quote that begins in this line is not closed within ${MAX_RECORD_BYTES / KiB} KiB.`
const TOO_LONG = `The line is longer than ${MAX_RECORD_BYTES / KiB} KiB.`
const NOT_UTF8 = 'The line is not in UTF-8; save the file as "CSV UTF-8".'

/** Reads the records at the start of a window. Skips empty lines and lines of empty cells. */
export function scanRecords(window: Buffer, options: ScanOptions): Scan {
  const { maxRecords: most, maxLines: mostLines = NOT_FOUND } = options
  const next = createPositionFinder(window)
  const records: CsvRecord[] = []
  let at = 0
  let line = options.line
  while (at < window.length && records.length < most && line - options.line < mostLines) {
    const step = readStep(window, at, line, next, options)
    if (!step) break
    if (step.record) records.push(step.record)
    if (step.end === undefined) return { records, end: window.length, line, isInsideLine: true }
    at = step.end
    line += step.lines
  }
  return { records, end: at, line, isInsideLine: false }
}

/** A record, a line without a record, or an invalid line. */
interface ScanStep {
  /** Undefined: the line or all its cells are empty. */
  readonly record: CsvRecord | undefined
  /** Undefined: the last line of the record does not end in this window. */
  readonly end: number | undefined
  readonly lines: number
}

/** Reads the record or line at an offset. Undefined: the record or line may end beyond this window. */
function readStep(
  window: Buffer,
  at: number,
  line: number,
  next: PositionFinder,
  options: ScanOptions,
): ScanStep | undefined {
  const ended = findLineEnd(window, at, next, options.isEnd)
  if (ended?.content === at) return { record: undefined, end: ended.next, lines: 1 }
  const mayEndLater = ended === undefined && window.length - at <= MAX_RECORD_BYTES
  const skipLine = (error: string): ScanStep => ({
    record: { kind: 'broken', line, error },
    end: ended?.next,
    lines: 1,
  })

  if (next.quote(at) < (ended?.content ?? window.length)) {
    const read = new QuotedRecordReader(window, at, options).read()
    if (read === 'unfinished') return undefined
    if (read !== 'unclosed' && !hasLineBreak(read.cells, options.oneLineCell))
      return { record: toRecord(line, read.cells), end: read.end, lines: read.lines }
    return mayEndLater ? undefined : skipLine(UNCLOSED)
  }
  if (mayEndLater) return undefined
  if (!ended || ended.content - at > MAX_RECORD_BYTES) return skipLine(TOO_LONG)
  const bytes = window.subarray(at, ended.content)
  const cells = isUtf8(bytes) ? bytes.toString().split(options.delimiter).map(trimCell) : undefined
  return { record: toRecord(line, cells), end: ended.next, lines: 1 }
}

/**
 * Where the next line begins, for a window that starts in the middle of a line. Undefined: no line end is in this
 * window.
 */
export function findNextLineStart(window: Buffer, isEnd: boolean): number | undefined {
  return findLineEnd(window, 0, createPositionFinder(window), isEnd)?.next
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

/**
 * Finds the end of the line that contains `from`: CRLF, LF, CR, or the end of the file. Undefined: the line end is not
 * in this window.
 */
function findLineEnd(window: Buffer, from: number, next: PositionFinder, isEnd: boolean): LineEnd | undefined {
  const lf = next.lf(from)
  const cr = next.cr(from)
  if (cr < lf) {
    if (cr + 1 === lf) return { content: cr, next: lf + 1 }
    // The window may end between the CR and the LF of a CRLF.
    if (cr + 1 === window.length && !isEnd) return undefined
    return { content: cr, next: cr + 1 }
  }
  if (lf !== NOT_FOUND) return { content: lf, next: lf + 1 }
  return isEnd ? { content: window.length, next: window.length } : undefined
}

type PositionFinder = ReturnType<typeof createPositionFinder>

/**
 * Finds the next occurrence of a byte. Positions must not decrease from call to call, so that the window is searched
 * only once.
 */
function createPositionFinder(window: Buffer) {
  const finder = (byte: number) => {
    let found = -1
    return (from: number): number => {
      if (found < from) {
        const at = window.indexOf(byte, from)
        found = at === -1 ? NOT_FOUND : at
      }
      return found
    }
  }
  return { quote: finder(QUOTE), lf: finder(LF), cr: finder(CR) }
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

/**
 * Reads one record with quotes. A quote opens at the beginning of a cell; anywhere else it is literal. Text after a
 * closing quote makes the whole cell literal (`"Ada" <ada@example.com>`). But if there is a line break between the two
 * quotes, the first one counts as never closed.
 *
 * cell → delimiter → cell … → end of the line, or an interruption
 */
class QuotedRecordReader {
  readonly #window: Buffer
  readonly #limit: number
  readonly #isEnd: boolean
  readonly #delimiter: number
  #at: number
  #lines = 1
  #isUtf8 = true
  #interruption: Interruption | undefined

  constructor(window: Buffer, start: number, { delimiter, isEnd }: ScanOptions) {
    this.#window = window
    this.#limit = Math.min(window.length, start + MAX_RECORD_BYTES)
    this.#isEnd = isEnd
    this.#delimiter = delimiter.charCodeAt(0)
    this.#at = start
  }

  read(): QuotedRecord | Interruption {
    const cells: string[] = []
    do {
      const cell = this.#readCell()
      if (cell !== undefined) cells.push(cell)
    } while (!this.#interruption && this.#skipDelimiter())
    const end = this.#skipLineEnd()
    return this.#interruption ?? { cells: this.#isUtf8 ? cells : undefined, end, lines: this.#lines }
  }

  /** Undefined: the cell was interrupted. */
  #readCell(): string | undefined {
    const start = this.#at
    this.#skipBlanks()
    if (this.#at < this.#limit && this.#window[this.#at] === QUOTE) {
      const quoted = this.#readQuotedText()
      if (quoted !== undefined || this.#interruption) return quoted
    }
    while (this.#at < this.#limit && !this.#isCellEnd(this.#window[this.#at])) this.#at++
    return this.#isTruncated() ? this.#interrupt() : this.#decode(start, this.#at).trim()
  }

  /** Undefined: the cell continues after the closing quote, or was interrupted. */
  #readQuotedText(): string | undefined {
    const opened = this.#at
    const closed = findClosingQuote(this.#window, opened + 1, this.#limit)
    if (closed === undefined) return this.#interrupt()
    const breaks = countLineBreaks(this.#window, opened, closed)
    this.#at = closed + 1
    this.#skipBlanks()
    if (this.#isTruncated()) return this.#interrupt()
    if (this.#at < this.#limit && !this.#isCellEnd(this.#window[this.#at]))
      return breaks > 0 ? this.#interrupt('unclosed') : undefined
    this.#lines += breaks
    return this.#decode(opened + 1, closed).replaceAll('""', '"')
  }

  /** Skips a delimiter. Returns whether there was one, so that another cell follows. */
  #skipDelimiter(): boolean {
    if (this.#window[this.#at] !== this.#delimiter) return false
    this.#at++
    return true
  }

  /** Returns the offset at which the next record begins. */
  #skipLineEnd(): number {
    const at = this.#at
    if (at === this.#window.length) return at
    if (this.#window[at] !== CR) return at + 1
    // The window may end between the CR and the LF of a CRLF.
    if (at + 1 === this.#window.length && !this.#isEnd) this.#interrupt()
    return this.#window[at + 1] === LF ? at + 2 : at + 1
  }

  #skipBlanks(): void {
    while (this.#at < this.#limit && (this.#window[this.#at] === SPACE || this.#window[this.#at] === TAB)) this.#at++
  }

  #isCellEnd(byte: number | undefined): boolean {
    return byte === this.#delimiter || byte === LF || byte === CR
  }

  /** Whether the record reaches the end of the readable bytes while the file continues. */
  #isTruncated(): boolean {
    return this.#at === this.#limit && !(this.#isEnd && this.#at === this.#window.length)
  }

  #interrupt(
    as: Interruption = this.#isEnd || this.#limit < this.#window.length ? 'unclosed' : 'unfinished',
  ): undefined {
    this.#interruption ??= as
  }

  #decode(from: number, to: number): string {
    const bytes = this.#window.subarray(from, to)
    this.#isUtf8 &&= isUtf8(bytes)
    return bytes.toString()
  }
}

/** Finds the next quote that is not doubled. */
function findClosingQuote(window: Buffer, from: number, limit: number): number | undefined {
  for (let at = window.indexOf(QUOTE, from); at !== -1 && at < limit; at = window.indexOf(QUOTE, at + 2))
    if (window[at + 1] !== QUOTE) return at
  return undefined
}

function countLineBreaks(window: Buffer, from: number, to: number): number {
  let count = 0
  for (let at = from; at < to; at++) if (window[at] === LF || (window[at] === CR && window[at + 1] !== LF)) count++
  return count
}
