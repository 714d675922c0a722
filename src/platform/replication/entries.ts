/**
 * @module What a row of the log holds: entries, each a header in JSON and bytes. An entry names the
 * file that it changes by its path in the data directory. Entries are written again after a crash, so each one may be
 * applied twice.
 */

export type Entry =
  /** Pages of a database as commits left them; the bytes are frames of a write-ahead log. */
  | {
      readonly kind: 'pages'
      readonly file: string
      readonly pageBytes: number
      /** Size of the database after the last commit, in pages. */
      readonly databasePages: number
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
      /** Tells the parts of one writer from those of another that stores the same file. */
      readonly upload: number
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

/** Memory for packing that is used again and again: new memory of this size costs more than what is done with it. */
export interface Scratch {
  bytes: Buffer
}

export function packEntries(entries: readonly Entry[], scratch: Scratch = { bytes: Buffer.alloc(0) }): Uint8Array {
  let end = 0
  for (const { bytes, ...header } of entries) {
    const text = Buffer.from(JSON.stringify(header))
    const next = end + LENGTHS_BYTES + text.length + bytes.length
    if (next > scratch.bytes.length) scratch.bytes = Buffer.concat([scratch.bytes], next + ROW_BYTES)
    scratch.bytes.writeUInt32LE(text.length, end)
    scratch.bytes.writeUInt32LE(bytes.length, end + 4)
    scratch.bytes.set(text, end + LENGTHS_BYTES)
    scratch.bytes.set(bytes, next - bytes.length)
    end = next
  }
  const packed = scratch.bytes.subarray(0, end)
  // Both copy.
  return entries.every(isCompressed) ? new Uint8Array(packed) : Bun.zstdCompressSync(packed, { level: ZSTD_LEVEL })
}

/** Content stores compress what they hold. */
const isCompressed = (entry: Entry): boolean =>
  entry.kind === 'part' || (entry.kind === 'pages' && entry.file !== 'tassis.db')

/** RFC 8878 §3.1.1. Other rows begin with the length of a header, which is shorter. */
const ZSTD_MAGIC = 0xfd2fb528

export const checksum = (data: Uint8Array): number => Bun.hash.crc32(data)

/** Throws for bytes that are no entries, or name a file that is none of a data directory. */
export function unpackEntries(data: Uint8Array<ArrayBuffer>): Entry[] {
  const stored = Buffer.from(data.buffer, data.byteOffset, data.length)
  const raw = stored.readUInt32LE(0) === ZSTD_MAGIC ? Buffer.from(Bun.zstdDecompressSync(data)) : stored
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
