/**
 * @module Reads a suppression list in the browser, before anything is sent: which lines can be imported, which occur
 * twice, and which are wrong. The service checks every line again and has the last word.
 */

export interface FileEntry {
  /** Number in the file; the first is 1. */
  readonly line: number
  readonly text: string
  readonly address: string
}

export interface LineProblem {
  readonly line: number
  readonly error: string
}

export interface FilePreview {
  /** The line that names the columns; undefined when the file has none. */
  readonly header: string | undefined
  readonly entries: readonly FileEntry[]
  readonly duplicates: { readonly count: number; readonly lines: readonly number[] }
  readonly wrong: { readonly count: number; readonly problems: readonly LineProblem[] }
  /** Lines with content, without the header. */
  readonly total: number
}

const MAX_LISTED = 100
const MAX_ADDRESS_LENGTH = 500
/** The service takes no longer record. */
const MAX_RECORD_LENGTH = 60_000
/** A file with more quotes that are not closed is not read to its end. */
const MAX_UNCLOSED = 1000
/** Lines read before the browser gets time to draw. */
const BATCH_SIZE = 20_000

/** Names of the column of addresses, lower case, letters and digits only; the later ones count without the first. */
const ADDRESS_NAMES = ['email', 'emailaddress', 'emailadresse', 'adresseemail']
const FALLBACK_NAMES = ['address', 'recipient', 'recipients', 'emails', 'emailaddresses', 'addresses', 'mail', 'to']

export class UnreadableFileError extends Error {}

/**
 * @param signal ends the reading of a large file
 * @throws UnreadableFileError when no line can be imported, with the reason
 */
export async function readSuppressionFile(text: string, signal?: AbortSignal): Promise<FilePreview> {
  const content = text.startsWith('\ufeff') ? text.slice(1) : text
  const delimiter = detectDelimiter(content)
  const entries: FileEntry[] = []
  const duplicateLines: number[] = []
  const problems: LineProblem[] = []
  const seen = new Set<string>()
  const counts = { total: 0, duplicates: 0, wrong: 0 }
  let layout: Layout | undefined
  let read = 0
  for (const record of scanRecords(content, delimiter)) {
    if (++read % BATCH_SIZE === 0) await new Promise((resolve) => setTimeout(resolve))
    if (signal?.aborted) throw new UnreadableFileError('Reading was cancelled.')
    if (!layout) {
      layout = readLayout(record)
      if (layout.header !== undefined) continue
    }
    counts.total++
    const error = findError(record, layout)
    if (error !== undefined) {
      counts.wrong++
      if (problems.length < MAX_LISTED) problems.push({ line: record.line, error })
      continue
    }
    const key = record.cells.map((cell) => cell.toLowerCase()).join('\0')
    if (seen.has(key)) {
      counts.duplicates++
      if (duplicateLines.length < MAX_LISTED) duplicateLines.push(record.line)
      continue
    }
    seen.add(key)
    entries.push({ line: record.line, text: record.text, address: record.cells[layout.addressAt] ?? '' })
  }
  if (!layout || counts.total === 0) throw new UnreadableFileError('There is no address in it.')
  return {
    header: layout.header,
    entries,
    duplicates: { count: counts.duplicates, lines: duplicateLines },
    wrong: { count: counts.wrong, problems },
    total: counts.total,
  }
}

interface FileRecord {
  readonly line: number
  readonly text: string
  readonly cells: readonly string[]
  readonly error?: string
}

interface Layout {
  readonly header: string | undefined
  readonly addressAt: number
  readonly cellCount: number
}

/** A semicolon only if the first line has no comma. */
function detectDelimiter(content: string): ',' | ';' {
  const first = (/^\s*([^\r\n]*)/.exec(content)?.[1] ?? '').replace(/"[^"]*"/g, '')
  return first.includes(';') && !first.includes(',') ? ';' : ','
}

/** The columns, by the first line with content. */
function readLayout({ cells, text }: FileRecord): Layout {
  const [first = '', second = '', ...more] = cells
  if (more.length === 0 && first.includes('@') && !second.includes('@'))
    return { header: undefined, addressAt: 0, cellCount: 2 }
  if (cells.length === 1 && first.includes('\t'))
    throw new UnreadableFileError('The file is separated by tabs; save it with commas or semicolons.')
  const names = cells.map((name) => name.toLowerCase().replaceAll(/[^\p{L}\d]/gu, ''))
  const named = names.findIndex((name) => ADDRESS_NAMES.includes(name))
  const addressAt = named >= 0 ? named : names.findIndex((name) => FALLBACK_NAMES.includes(name))
  if (addressAt < 0)
    throw new UnreadableFileError(
      'The first line is neither an address nor a line that names a column "email". Put the name "email" above the addresses.',
    )
  return { header: text, addressAt, cellCount: cells.length }
}

/** Why a line cannot be imported; the service knows further reasons. */
function findError({ cells, error, text }: FileRecord, { addressAt, cellCount }: Layout): string | undefined {
  if (error !== undefined) return error
  if (text.length > MAX_RECORD_LENGTH) return 'The line is too long.'
  if (cells.slice(cellCount).some((cell) => cell !== ''))
    return `The line has ${cells.length} fields instead of ${cellCount}.`
  const address = cells[addressAt] ?? ''
  if (address === '') return 'There is no address in this line.'
  return isPlausible(address) ? undefined : 'This is not an email address.'
}

/** Only what is certainly no address is refused here; `erased:` stands for an erased person in exports. */
function isPlausible(text: string): boolean {
  if (text.startsWith('erased:')) return true
  const address = /<([^<>]*)>\s*$/.exec(text)?.[1] ?? text
  const at = address.lastIndexOf('@')
  if (at < 1 || at === address.length - 1 || address.length > MAX_ADDRESS_LENGTH) return false
  if (/\s/.test(address.slice(at))) return false
  return address.startsWith('"') || !/[\s@]/.test(address.slice(0, at).trim())
}

/** The records of a CSV text (RFC 4180), without empty lines. A quote that is never closed spoils only its line. */
function* scanRecords(content: string, delimiter: string): Generator<FileRecord> {
  let line = 1
  let quote = -1
  let unclosed = 0
  for (let at = 0; at < content.length; ) {
    const lineEnd = findLineEnd(content, at)
    // Searched once, not for every line: a file may have no quote at all.
    if (quote < at) quote = content.indexOf('"', at)
    if (quote < 0) quote = content.length
    if (quote >= lineEnd.content) {
      const text = content.slice(at, lineEnd.content)
      if (text.trim() !== '') yield { line, text, cells: text.split(delimiter).map(trimCell) }
      at = lineEnd.next
      line++
      continue
    }
    const record = readQuoted(content.slice(at, at + MAX_RECORD_LENGTH), delimiter)
    if (record) {
      const text = content.slice(at, at + record.content)
      yield { line, text, cells: record.cells }
      line += countLineEnds(text) + 1
      at += record.next
    } else {
      if (++unclosed > MAX_UNCLOSED) throw new UnreadableFileError('Too many quotes are not closed: this is not CSV.')
      yield { line, text: '', cells: [], error: 'A quote in this line is not closed.' }
      at = lineEnd.next
      line++
    }
  }
}

const trimCell = (cell: string): string => cell.trim()
const countLineEnds = (text: string): number => text.match(/\r\n|\r|\n/g)?.length ?? 0

interface LineEnd {
  readonly content: number
  readonly next: number
}

function findLineEnd(content: string, at: number): LineEnd {
  const ends = /\r\n|\r|\n/g
  ends.lastIndex = at
  const found = ends.exec(content)
  return found ? { content: found.index, next: ends.lastIndex } : { content: content.length, next: content.length }
}

/** The record with quoted cells at the start of a text; undefined when a quote is not closed in it. */
function readQuoted(window: string, delimiter: string): (LineEnd & { readonly cells: readonly string[] }) | undefined {
  const cells: string[] = []
  for (let at = 0; ; at++) {
    const end = readCell(window, at, delimiter, cells)
    if (end === undefined) return undefined
    if (end >= window.length) return window.length < MAX_RECORD_LENGTH ? { cells, content: end, next: end } : undefined
    if (window[end] === delimiter) at = end
    else return { cells, content: end, next: window.startsWith('\r\n', end) ? end + 2 : end + 1 }
  }
}

/** Adds the cell at a position; returns where it ends, or undefined when it is not a cell. */
function readCell(window: string, at: number, delimiter: string, cells: string[]): number | undefined {
  const quoted = /[ \t]*"((?:[^"]|"")*)"[ \t]*/y
  quoted.lastIndex = at
  const found = quoted.exec(window)
  const end = found ? quoted.lastIndex : findCellEnd(window, at, delimiter)
  const isEnded = end >= window.length || window[end] === delimiter || window[end] === '\r' || window[end] === '\n'
  if (!isEnded) return undefined
  const plain = found ? '' : window.slice(at, end)
  if (plain.trimStart().startsWith('"')) return undefined
  cells.push(found ? (found[1] ?? '').replaceAll('""', '"') : plain.trim())
  return end
}

function findCellEnd(window: string, at: number, delimiter: string): number {
  let end = at
  while (end < window.length && window[end] !== delimiter && window[end] !== '\r' && window[end] !== '\n') end++
  return end
}
