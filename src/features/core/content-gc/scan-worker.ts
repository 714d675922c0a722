/**
 * @module Worker that looks which references into a content store rows still hold. Reads by a connection of its own, in one read transaction, so that it sees
 * one moment. Talks with `scan.ts` only; changes nothing.
 */
import { join } from 'node:path'
import { ENCODING, idOfRef, monthName, monthOfRef, refOf } from '#platform/content/read.ts'
import { openReadOnly } from '#platform/db/open.ts'
import type { StoreName } from './garbage.ts'
import { SOURCES, type Source } from './sources.ts'

declare const self: Worker

export interface PartsOfMonth {
  readonly folder: string
  readonly month: number
  readonly below: number
}

export interface ScanRequest {
  readonly id: number
  readonly databasePath: string
  readonly store: StoreName
  /** References that are asked about; a month instead: all of its parts below a reference. */
  readonly candidates: Float64Array | PartsOfMonth
}

export interface ScanAnswer {
  readonly id: number
  /** Those that no row holds. */
  readonly unheld?: Float64Array
  readonly error?: string
}

self.onmessage = ({ data }: MessageEvent<ScanRequest>) => {
  try {
    self.postMessage({ id: data.id, unheld: unheldOf(data) } satisfies ScanAnswer)
  } catch (error) {
    self.postMessage({
      id: data.id,
      error: error instanceof Error ? error.message : String(error),
    } satisfies ScanAnswer)
  }
}

function unheldOf({ databasePath, store, candidates }: ScanRequest): Float64Array {
  // Before the rows: a part that comes meanwhile is no candidate.
  const left = candidates instanceof Float64Array ? those(candidates) : partsOf(candidates)
  if (left.size() === 0) return new Float64Array()
  const db = openReadOnly(databasePath)
  try {
    db.run('BEGIN')
    for (const source of SOURCES[store]) {
      for (const ref of refsIn(db, source)) left.delete(ref)
      if (left.size() === 0) break
    }
    return left.toArray()
  } finally {
    db.close()
  }
}

/** References that no row was found for yet. */
interface Left {
  delete(ref: number): void
  size(): number
  toArray(): Float64Array
}

function those(refs: Float64Array): Left {
  const left = new Set(refs)
  return { delete: (ref) => left.delete(ref), size: () => left.size, toArray: () => Float64Array.from(left) }
}

/** The parts of a month, a bit each: there may be a hundred million. */
function partsOf({ folder, month, below }: PartsOfMonth): Left {
  const db = openReadOnly(join(folder, `${monthName(month)}.db`))
  try {
    const last = db.query<{ id: number | null }, []>('SELECT max(id) AS id FROM parts').get()?.id ?? 0
    const bits = new Uint8Array((last >> 3) + 1)
    let size = 0
    const parts = db.query<{ id: number }, [number, number]>(
      `SELECT id FROM parts WHERE encoding <> ${ENCODING.gone} AND id <= ? AND id < ?`,
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
      size: () => size,
      toArray() {
        const refs = new Float64Array(size)
        for (let id = 1, found = 0; id <= last; id++) if (has(id)) refs[found++] = refOf(month, id)
        return refs
      },
    }
  } finally {
    db.close()
  }
}

/** `"ref":123` of the JSON that we write ourselves. */
const REF = /"ref":(\d+)/g

function* refsIn(db: ReturnType<typeof openReadOnly>, { table, columns, json = [] }: Source): Generator<number> {
  const all = [...columns, ...json]
  const held = all.map((column) => `${column} IS NOT NULL`).join(' OR ')
  for (const row of db.query(`SELECT ${all.join(', ')} FROM ${table} WHERE ${held}`).iterate()) {
    const values = row as Record<string, number | string | null>
    for (const column of columns) {
      const ref = values[column]
      if (typeof ref === 'number') yield ref
    }
    for (const column of json) {
      const text = values[column]
      if (typeof text === 'string') for (const match of text.matchAll(REF)) yield Number(match[1])
    }
  }
}
