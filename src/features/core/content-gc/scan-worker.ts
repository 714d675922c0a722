/**
 * @module Worker that finds blobs of a content store to which no row refers. It reads in one read transaction of its
 * own connection, so it sees one state. Talks to `sweep.ts` only; never writes.
 */
import { join } from 'node:path'
import { ENCODING, formatMonth, idOfRef, monthOfRef, toRef } from '#platform/content/read.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { answerRequest } from '#platform/process/worker-answer.ts'
import { SOURCES, type Source, type StoreName } from './garbage.ts'

export interface BlobsOfMonth {
  readonly folder: string
  readonly month: number
  readonly below: number
}

export interface ScanRequest {
  readonly databasePath: string
  readonly store: StoreName
  /** References to check; or a month, of which all blobs below a given reference are checked. */
  readonly candidates: Float64Array | BlobsOfMonth
}

answerRequest(findUnreferenced)

function findUnreferenced({ databasePath, store, candidates }: ScanRequest): Float64Array {
  // Candidates are read before the rows: a blob stored later has rows that this scan may not see, so it must not be a
  // candidate.
  const remaining: RemainingRefs =
    candidates instanceof Float64Array ? new Set(candidates) : createMonthRefs(candidates)
  if (remaining.size === 0) return new Float64Array()
  using db = openReadOnly(databasePath)
  db.run('BEGIN')
  for (const source of SOURCES[store]) {
    for (const ref of readRefs(db, source)) remaining.delete(ref)
    if (remaining.size === 0) break
  }
  // Filled, because Float64Array.from() first collects everything in an array.
  const found = new Float64Array(remaining.size)
  let count = 0
  for (const ref of remaining) found[count++] = ref
  return found
}

/** References for which no row was found yet. */
interface RemainingRefs extends Iterable<number> {
  delete(ref: number): unknown
  readonly size: number
}

/** The blobs of a month, as a bit set because there may be a hundred million of them. */
function createMonthRefs({ folder, month, below }: BlobsOfMonth): RemainingRefs {
  using db = openReadOnly(join(folder, `${formatMonth(month)}.db`))
  const last = db.query<{ id: number | null }, []>('SELECT max(id) AS id FROM parts').get()?.id ?? 0
  const bits = new Uint8Array((last >> 3) + 1)
  let size = 0
  const parts = db.query<{ id: number }, [number, number]>(
    `SELECT id FROM parts WHERE encoding <> ${ENCODING.deleted} AND id <= ? AND id < ?`,
  )
  for (const { id } of parts.iterate(last, idOfRef(below))) {
    bits[id >> 3] = (bits[id >> 3] ?? 0) | (1 << (id & 7))
    size++
  }
  const has = (id: number): boolean => ((bits[id >> 3] ?? 0) & (1 << (id & 7))) !== 0
  return {
    delete(ref) {
      const id = idOfRef(ref)
      if (monthOfRef(ref) !== month || id > last || !has(id)) return
      bits[id >> 3] = (bits[id >> 3] ?? 0) & ~(1 << (id & 7))
      size--
    },
    get size() {
      return size
    },
    *[Symbol.iterator]() {
      for (let id = 1; id <= last; id++) if (has(id)) yield toRef(month, id)
    },
  }
}

/** Matches `"ref":123` in the JSON that the service writes. */
const REF_IN_JSON = /"ref":(\d+)/g

function* readRefs(db: ReturnType<typeof openReadOnly>, { table, columns, json = [] }: Source): Generator<number> {
  const all = [...columns, ...json]
  const hasReference = all.map((column) => `${column} IS NOT NULL`).join(' OR ')
  for (const row of db.query(`SELECT ${all.join(', ')} FROM ${table} WHERE ${hasReference}`).iterate()) {
    const values = row as Record<string, number | string | null>
    for (const column of columns) {
      const ref = values[column]
      if (typeof ref === 'number') yield ref
    }
    for (const column of json) {
      const text = values[column]
      if (typeof text === 'string') for (const match of text.matchAll(REF_IN_JSON)) yield Number(match[1])
    }
  }
}
