/**
 * @module Takes CSV (RFC 4180) apart into records, a window of the file at a time, and can begin anew at the end of any record. A quote that is never
 * closed costs its own line, not the rest of the file. Reads bytes that are in memory; knows no columns.
 */
import { isUtf8 } from 'node:buffer'
import { KiB } from '../units.ts'
import { type Delimiter, delimiterOf } from './cells.ts'

/** Bytes of the longest record; also how far a quote may reach. */
export const LONGEST_RECORD = 64 * KiB

/** A record; or why a line is none. */
export type CsvRecord =
  | {
      readonly kind: 'record'
      /** Of its first line; the first of the file is 1. */
      readonly line: number
      /** Without white space around them where they are not quoted. */
      readonly cells: readonly string[]
    }
  | { readonly kind: 'broken'; readonly line: number; readonly error: string }

const BYTE_ORDER_MARK = Buffer.from('\ufeff')

/** Where the first record of a file begins, after a byte order mark, and what parts its cells. */
export function startOf(file: Buffer): { readonly at: number; readonly delimiter: Delimiter } {
  const at = file.indexOf(BYTE_ORDER_MARK) === 0 ? BYTE_ORDER_MARK.length : 0
  const start = file
    .subarray(at, at + LONGEST_RECORD)
    .toString()
    .trimStart()
  return { at, delimiter: delimiterOf(start.split(/[\r\n]/, 1)[0] ?? '') }
}

export interface ScanOptions {
  readonly delimiter: Delimiter
  /** Number of the line at the beginning of the window. */
  readonly line: number
  /** Whether the file ends with the window. Else the window has more bytes than `LONGEST_RECORD`, or nothing is promised. */
  readonly isEnd: boolean
  /** Most records that are wanted. */
  readonly most: number
  /** Most lines that are looked at for them, empty ones included. */
  readonly mostLines?: number
  /** Position of a cell that never has a line break: one in it shows that a quote was not closed. */
  readonly oneLineCell?: number
}

export interface Scan {
  readonly records: readonly CsvRecord[]
  /** Where in the window the next record begins. */
  readonly end: number
  /** Number of the line there. */
  readonly line: number
  /** The last line was too long, and its end is not in the window: what comes up to there belongs to it. */
  readonly isInsideLine: boolean
}

const LF = 10
const CR = 13
const TAB = 9
const SPACE = 32
const QUOTE = 34
/** In place of a position: there is none. */
const NOWHERE = Number.POSITIVE_INFINITY

const UNCLOSED = `A quote that begins in it is not closed within ${LONGEST_RECORD / KiB} KiB.`
const TOO_LONG = `It is longer than ${LONGEST_RECORD / KiB} KiB.`
const NOT_UTF8 = 'It is not in UTF-8; save the file as "CSV UTF-8".'

/** The records at the beginning of a window. Empty lines, and lines of empty cells, are left out. */
export function scanRecords(window: Buffer, options: ScanOptions): Scan {
  const { delimiter, isEnd, most, mostLines = NOWHERE } = options
  const next = positions(window)
  const records: CsvRecord[] = []
  let at = 0
  let line = options.line
  while (at < window.length && records.length < most && line - options.line < mostLines) {
    const ended = lineEnd(window, at, next, isEnd)
    if (ended?.content === at) {
      at = ended.next
      line++
      continue
    }
    // Its end may come yet.
    const isCut = ended === undefined && window.length - at <= LONGEST_RECORD
    const read = next.quote(at) < (ended?.content ?? window.length) ? readQuoted(window, at, options) : 'plain'
    if (read === 'unfinished' || (read === 'plain' && isCut)) break
    if (read === 'plain' && ended && ended.content - at <= LONGEST_RECORD) {
      const bytes = window.subarray(at, ended.content)
      const cells = isUtf8(bytes) ? bytes.toString().split(delimiter).map(trimmed) : undefined
      add(records, line, cells)
      at = ended.next
      line++
    } else if (typeof read === 'object' && !hasBreakIn(read.cells, options.oneLineCell)) {
      add(records, line, read.cells)
      at = read.end
      line += read.lines
    } else {
      if (isCut) break
      records.push({ kind: 'broken', line, error: read === 'plain' ? TOO_LONG : UNCLOSED })
      if (!ended) return { records, end: window.length, line, isInsideLine: true }
      at = ended.next
      line++
    }
  }
  return { records, end: at, line, isInsideLine: false }
}

/** Where the line that goes on at the beginning of a window is over: the place after its end. Undefined: not in this window. */
export function restOfLine(window: Buffer, isEnd: boolean): number | undefined {
  return lineEnd(window, 0, positions(window), isEnd)?.next
}

const trimmed = (cell: string): string => cell.trim()

const hasBreakIn = (cells: readonly string[] | undefined, position: number | undefined): boolean =>
  position !== undefined && /[\r\n]/.test(cells?.[position] ?? '')

/** @param cells undefined: they are not UTF-8 */
function add(records: CsvRecord[], line: number, cells: readonly string[] | undefined): void {
  if (!cells) records.push({ kind: 'broken', line, error: NOT_UTF8 })
  else if (cells.some((cell) => cell !== '')) records.push({ kind: 'record', line, cells })
}

interface LineEnd {
  /** Where its content ends. */
  readonly content: number
  /** Where the next line begins. */
  readonly next: number
}

/** The end of the line with the byte at `from`: CRLF, LF, CR, or the end of the file. Undefined: not in this window. */
function lineEnd(window: Buffer, from: number, next: Positions, isEnd: boolean): LineEnd | undefined {
  const lf = next.lf(from)
  const cr = next.cr(from)
  if (cr < lf) {
    if (cr + 1 === lf) return { content: cr, next: lf + 1 }
    // The other half of a CRLF may follow.
    if (cr + 1 === window.length && !isEnd) return undefined
    return { content: cr, next: cr + 1 }
  }
  if (lf !== NOWHERE) return { content: lf, next: lf + 1 }
  return isEnd ? { content: window.length, next: window.length } : undefined
}

interface Positions {
  quote(from: number): number
  lf(from: number): number
  cr(from: number): number
}

/** Where the next of a byte is. Asked from ever later places, so that the window is searched once. */
function positions(window: Buffer): Positions {
  const finder = (byte: number) => {
    let found = -1
    return (from: number): number => {
      if (found < from) {
        const at = window.indexOf(byte, from)
        found = at === -1 ? NOWHERE : at
      }
      return found
    }
  }
  return { quote: finder(QUOTE), lf: finder(LF), cr: finder(CR) }
}

interface Quoted {
  /** Undefined: they are not UTF-8. */
  readonly cells: readonly string[] | undefined
  readonly end: number
  /** That it has, its own end included. */
  readonly lines: number
}

/**
 * A record with quotes. A quote at the beginning of a cell opens; one anywhere else means itself. What follows a closing quote makes the whole cell
 * mean itself (`"Ada" <ada@example.com>`), unless a line ended in between: then the quote was never closed.
 */
function readQuoted(
  window: Buffer,
  start: number,
  { delimiter, isEnd }: ScanOptions,
): Quoted | 'unfinished' | 'unclosed' {
  const limit = Math.min(window.length, start + LONGEST_RECORD)
  const beyond = isEnd || limit < window.length ? 'unclosed' : 'unfinished'
  const delimiterByte = delimiter.charCodeAt(0)
  const cells: string[] = []
  let isValid = true
  let lines = 1
  const take = (from: number, to: number): string => {
    const bytes = window.subarray(from, to)
    isValid &&= isUtf8(bytes)
    return bytes.toString()
  }
  let at = start
  for (;;) {
    const cellStart = at
    while (at < limit && (window[at] === SPACE || window[at] === TAB)) at++
    let quoted: string | undefined
    if (window[at] === QUOTE && at < limit) {
      const opened = at
      const closed = closingQuote(window, at + 1, limit)
      if (closed === undefined) return beyond
      const breaks = lineBreaks(window, opened, closed)
      at = closed + 1
      while (at < limit && (window[at] === SPACE || window[at] === TAB)) at++
      const after = at < limit ? window[at] : undefined
      if (after === undefined && !(isEnd && at === window.length)) return beyond
      if (after === undefined || after === delimiterByte || after === LF || after === CR) {
        quoted = take(opened + 1, closed).replaceAll('""', '"')
        lines += breaks
      } else if (breaks > 0) return 'unclosed'
    }
    if (quoted === undefined) {
      while (at < limit && window[at] !== delimiterByte && window[at] !== LF && window[at] !== CR) at++
      if (at === limit && !(isEnd && at === window.length)) return beyond
    }
    cells.push(quoted ?? take(cellStart, at).trim())
    const byte = at < window.length ? window[at] : undefined
    if (byte === delimiterByte) at++
    else {
      // Half of a CRLF.
      if (byte === CR && at + 1 === window.length && !isEnd) return beyond
      const end = byte === undefined ? at : byte === CR && window[at + 1] === LF ? at + 2 : at + 1
      return { cells: isValid ? cells : undefined, end, lines }
    }
  }
}

/** The next quote that is not doubled. */
function closingQuote(window: Buffer, from: number, limit: number): number | undefined {
  for (let at = window.indexOf(QUOTE, from); at !== -1 && at < limit; at = window.indexOf(QUOTE, at + 2))
    if (window[at + 1] !== QUOTE) return at
  return undefined
}

function lineBreaks(window: Buffer, from: number, to: number): number {
  let count = 0
  for (let at = from; at < to; at++) if (window[at] === LF || (window[at] === CR && window[at + 1] !== LF)) count++
  return count
}
