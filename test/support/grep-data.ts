/**
 * @module Searches every file of a data directory for words in any encoding: raw, UTF-16, base64 at each of its three
 * alignments, quoted-printable, percent-encoded, and within anything compressed with zstd. Free pages, gaps and
 * write-ahead logs are bytes as well, so files are read as they are; databases are also queried for their rows, because
 * a value may be split over pages. Writes nothing.
 */
import { Database } from 'bun:sqlite'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { measureFrame } from '#platform/content/frames.ts'

/**
 * Lists where the words occur, as `file: how`; empty when they occur nowhere. The service must be stopped or idle.
 * @param words addresses or parts of them, ASCII; case does not matter
 */
export function grepData(dataDir: string, words: readonly string[]): string[] {
  const found: string[] = []
  for (const name of readdirSync(dataDir, { recursive: true, encoding: 'utf8' }).sort()) {
    const path = join(dataDir, name)
    let bytes: Buffer
    try {
      bytes = readFileSync(path)
    } catch (error) {
      // Folders and sockets.
      if (error instanceof Error && 'code' in error && ['EISDIR', 'ENXIO', 'EOPNOTSUPP'].includes(String(error.code)))
        continue
      throw error
    }
    for (const word of words) if (name.toLowerCase().includes(word.toLowerCase())) found.push(`${name}: name`)
    for (const how of findIn(bytes, words)) found.push(`${name}: ${how}`)
    if (bytes.subarray(0, 15).toString('latin1') === 'SQLite format 3') found.push(...grepRows(path, name, words))
  }
  return found
}

/** Lists how the words occur in these bytes or in data compressed within them. */
function findIn(bytes: Buffer, words: readonly string[]): string[] {
  const found = [...findPlain(bytes, words)]
  for (const content of unpackedIn(bytes)) for (const how of findPlain(content, words)) found.push(`zstd, ${how}`)
  return found
}

function* findPlain(bytes: Buffer, words: readonly string[]): Generator<string> {
  const text = bytes.toString('latin1')
  const lower = text.toLowerCase()
  const readings: [string, string][] = [['raw', lower]]
  if (/=[0-9a-f]{2}|=\r?\n/.test(lower))
    readings.push(['quoted-printable', decodeEscapes(lower.replace(/=\r?\n/g, ''), /=([0-9a-f]{2})/g)])
  if (/%[0-9a-f]{2}/.test(lower)) readings.push(['percent-encoded', decodeEscapes(lower, /%([0-9a-f]{2})/g)])
  const joined = text.replace(/[\r\n]+/g, '')
  for (const word of words) {
    const lowerWord = word.toLowerCase()
    for (const [how, reading] of readings) if (reading.includes(lowerWord)) yield `${how} ${word}`
    for (const endian of ['le', 'be'] as const)
      if (lower.includes(encodeUtf16(lowerWord, endian))) yield `utf-16${endian} ${word}`
    for (const spelling of new Set([word, lowerWord, word.toUpperCase()]))
      for (const part of listBase64Forms(spelling))
        if (joined.includes(part) || joined.includes(part.replaceAll('+', '-').replaceAll('/', '_')))
          yield `base64 ${word}`
  }
}

const decodeEscapes = (text: string, escapes: RegExp): string =>
  text.replace(escapes, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)).toLowerCase())

function encodeUtf16(word: string, endian: 'le' | 'be'): string {
  const bytes = Buffer.from(word, 'utf16le')
  if (endian === 'be') bytes.swap16()
  return bytes.toString('latin1')
}

/**
 * Returns for each alignment the part of a word's base64 that does not depend on its neighbours: without the characters
 * at both ends that do.
 */
function listBase64Forms(word: string): string[] {
  return [0, 1, 2].map((before) => {
    const encoded = Buffer.from('\0'.repeat(before) + word).toString('base64')
    const first = before === 0 ? 0 : before + 1
    const whole = Math.floor(((before + word.length) * 8) / 6)
    return encoded.slice(first, whole)
  })
}

const MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

/** Content compressed anywhere within these bytes; consecutive frames are joined. */
function* unpackedIn(bytes: Buffer): Generator<Buffer> {
  for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at)) {
    const contents: Uint8Array[] = []
    for (;;) {
      const frame = frameAt(bytes, at)
      if (!frame) break
      contents.push(frame.content)
      at += frame.length
    }
    if (contents.length > 0) yield Buffer.concat(contents)
    else at += MAGIC.length
  }
}

function frameAt(bytes: Buffer, at: number): { content: Uint8Array; length: number } | undefined {
  if (bytes.compare(MAGIC, 0, MAGIC.length, at, Math.min(at + MAGIC.length, bytes.length)) !== 0) return undefined
  try {
    const length = measureFrame(bytes.subarray(at))
    return length === undefined
      ? undefined
      : { content: Bun.zstdDecompressSync(bytes.subarray(at, at + length)), length }
  } catch {
    // The four bytes occurred by chance, or the frame's pages were reused.
    return undefined
  }
}

/**
 * Every value of every table, decompressed, and every word of search indexes, which store words without their common
 * beginnings.
 */
function grepRows(path: string, name: string, words: readonly string[]): string[] {
  const found: string[] = []
  const db = new Database(path, { readonly: true })
  try {
    const tables = db
      .query<{ name: string; sql: string | null }, []>("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
      .all()
    for (const table of tables) {
      if (/using fts5/i.test(table.sql ?? '')) {
        db.run(`CREATE VIRTUAL TABLE temp."${table.name}_words" USING fts5vocab(main, "${table.name}", 'row')`)
        for (const { term } of db.query<{ term: string }, []>(`SELECT term FROM temp."${table.name}_words"`).iterate())
          for (const word of words)
            if (term.includes(word.toLowerCase())) found.push(`${name}: word ${word} in ${table.name}`)
        continue
      }
      for (const row of db.query<Record<string, unknown>, []>(`SELECT * FROM "${table.name}"`).iterate()) {
        for (const [column, value] of Object.entries(row)) {
          if (typeof value !== 'string' && !(value instanceof Uint8Array)) continue
          for (const how of findIn(Buffer.from(value as string), words))
            found.push(`${name}: ${table.name}.${column}, ${how}`)
        }
      }
    }
  } finally {
    db.close()
  }
  return found
}
