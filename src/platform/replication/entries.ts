/**
 * @module What a row of the log holds: entries, each a header in JSON and bytes, compressed together. An entry names the
 * file that it changes by its path in the data directory. Entries are written again after a crash, so each one may be
 * applied twice.
 */

export type Entry =
  /** Pages of a database as a commit left them; the bytes are the pages in the order of their numbers. */
  | {
      readonly kind: 'pages'
      readonly file: string
      readonly pageBytes: number
      /** Size of the database after the commit, in pages. */
      readonly databasePages: number
      readonly pages: readonly number[]
      /** Where this ends in the write-ahead log of the leader: its salts in hex, and an offset. */
      readonly wal: WalPosition
      readonly bytes: Uint8Array
    }
  /** A small file as a whole. */
  | { readonly kind: 'file'; readonly file: string; readonly bytes: Uint8Array }
  /** A part of a large file; the last one gives the file its name. */
  | {
      readonly kind: 'part'
      readonly file: string
      readonly offset: number
      readonly isLast: boolean
      readonly bytes: Uint8Array
    }
  /** Files that no longer exist. */
  | { readonly kind: 'remove'; readonly files: readonly string[]; readonly bytes: Uint8Array }
  /** Pages whose unused middle was zeroed in the file itself. */
  | { readonly kind: 'scrub'; readonly file: string; readonly pages: readonly number[]; readonly bytes: Uint8Array }

/** A place in a write-ahead log. */
export interface WalPosition {
  /** The two salts of the log's header in hex: a log that begins anew has others. */
  readonly salt: string
  readonly end: number
}

/** Paths come from PostgreSQL and become paths on this machine. */
const PATHS =
  /^(?:tassis\.db|instance\.json|(?:content|raw-mail)(?:\.ids|\/\d{4}-\d{2}(?:\.db(?:-wal|-shm)?|\/[0-9a-f]{32}\.zst)?)|certificates\/[\w.-]{1,200})$/

export const isReplicatedPath = (path: string): boolean => PATHS.test(path) && !path.endsWith('..')

/** The rows of the log hold about so many uncompressed bytes each. */
export const ROW_BYTES = 1024 * 1024
const ZSTD_LEVEL = 1
const LENGTHS_BYTES = 8

export function packEntries(entries: readonly Entry[]): Buffer {
  const parts: Uint8Array[] = []
  for (const { bytes, ...header } of entries) {
    const text = Buffer.from(JSON.stringify(header))
    const lengths = Buffer.alloc(LENGTHS_BYTES)
    lengths.writeUInt32LE(text.length, 0)
    lengths.writeUInt32LE(bytes.length, 4)
    parts.push(lengths, text, bytes)
  }
  return Bun.zstdCompressSync(Buffer.concat(parts), { level: ZSTD_LEVEL })
}

export const checksum = (data: Uint8Array): number => Bun.hash.crc32(data)

/** Throws for bytes that are no entries, or name a file that is none of a data directory. */
export function unpackEntries(data: Uint8Array<ArrayBuffer>): Entry[] {
  const raw = Buffer.from(Bun.zstdDecompressSync(data))
  const entries: Entry[] = []
  for (let at = 0; at < raw.length; ) {
    const headerEnd = at + LENGTHS_BYTES + raw.readUInt32LE(at)
    const end = headerEnd + raw.readUInt32LE(at + 4)
    const header = JSON.parse(raw.toString('utf8', at + LENGTHS_BYTES, headerEnd)) as Entry
    const bytes = raw.subarray(headerEnd, end)
    for (const file of header.kind === 'remove' ? header.files : [header.file])
      if (!isReplicatedPath(file)) throw new Error(`the log names ${file}, which is no file of a data directory`)
    entries.push({ ...header, bytes } as Entry)
    at = end
  }
  return entries
}
