/**
 * @module Names content that is not as it was stored, with the rows that need it. Reads all content of a data directory
 * or of a backup: for `tassis check --content` and for backups.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { listMonthDatabases, STORES } from '#platform/content/files.ts'
import { CorruptBlobError, MissingBlobError } from '#platform/content/frames.ts'
import { type ContentReader, createContentReader, ENCODING, parseMonthName, toRef } from '#platform/content/read.ts'
import { MAX_DIFFERENCES } from '#platform/db/consistency.ts'
import { isDatabaseCorrupt } from '#platform/db/corruption.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { SOURCES } from './garbage.ts'

/** Returns a sentence for each damaged blob, up to a limit; none when all content is as it was stored. */
export function describeDamagedContent(db: Database, dataDir: string): string[] {
  const sentences: string[] = []
  for (const store of STORES) {
    const reader = createContentReader(join(dataDir, store))
    for (const path of listMonthDatabases(dataDir, store))
      for (const { place, ref } of findDamaged(reader, dataDir, path)) {
        if (sentences.length === MAX_DIFFERENCES) return [...sentences, 'and more']
        sentences.push(`${place} is damaged${ref === undefined ? '' : `: needed by ${findRows(db, store, ref)}`}`)
      }
    reader.close()
  }
  return sentences
}

interface Damaged {
  /** The blob's file, or its place in a database. */
  readonly place: string
  /** Undefined: the whole database is corrupt. */
  readonly ref?: number
}

function* findDamaged(reader: ContentReader, dataDir: string, path: string): Generator<Damaged> {
  const month = parseMonthName(path.split('/').at(-1) ?? '') ?? 0
  using db = openReadOnly(join(dataDir, path))
  try {
    // One at a time: a long read would keep a running service from emptying the write-ahead log.
    const next = db.query<{ id: number; hash: Uint8Array; encoding: number }, [number]>(
      `SELECT id, hash, encoding FROM parts WHERE id > ? AND encoding <> ${ENCODING.deleted} ORDER BY id LIMIT 1`,
    )
    for (let row = next.get(0); row; row = next.get(row.id)) {
      const place =
        row.encoding === ENCODING.file ? path.replace('.db', `/${row.hash.toHex()}.zst`) : `blob ${row.id} in ${path}`
      const ref = toRef(month, row.id)
      try {
        for (const _ of reader.chunks(ref));
      } catch (error) {
        if (error instanceof CorruptBlobError) yield { place, ref }
        // A running service may have deleted it since.
        else if (!(error instanceof MissingBlobError)) throw error
      }
    }
  } catch (error) {
    if (!isDatabaseCorrupt(error)) throw error
    yield { place: path }
  }
}

/** The first rows that refer to a blob, by table and id. */
function findRows(db: Database, store: (typeof STORES)[number], ref: number): string {
  const rows = SOURCES[store === 'content' ? 'content' : 'rawMail'].flatMap(({ table, columns, json = [] }) => {
    const isInJson = json.map((column) => `EXISTS (SELECT 1 FROM json_each(${column}) WHERE value ->> 'ref' = ?1)`)
    const conditions = [...columns.map((column) => `${column} = ?1`), ...isInJson].join(' OR ')
    return db
      .query<{ id: number; uuid?: Uint8Array }, [number]>(`SELECT * FROM ${table} WHERE ${conditions} LIMIT 4`)
      .all(ref)
      .map(({ id, uuid }) => `${table.replaceAll('_', ' ')} ${uuid ? formatUuid(uuid) : id}`)
  })
  return rows.length === 0 ? 'nothing' : `${rows.slice(0, 3).join(', ')}${rows.length > 3 ? ' and more' : ''}`
}
