/**
 * @module Worker that looks which references into a content store rows still hold. Reads by a connection of its own, in one read transaction, so that it sees
 * one moment. Talks with `scan.ts` only; changes nothing.
 */
import { join } from 'node:path'
import { ENCODING, monthName, refOf } from '#platform/content/read.ts'
import { openReadOnly } from '#platform/db/open.ts'
import type { StoreName } from './garbage.ts'
import { SOURCES, type Source } from './sources.ts'

declare const self: Worker

export interface ScanRequest {
  readonly id: number
  readonly databasePath: string
  readonly store: StoreName
  /** References that are asked about; a month instead: all of its parts. */
  readonly candidates: Float64Array | { readonly folder: string; readonly month: number }
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
  const asked = candidates instanceof Float64Array ? candidates : partsOf(candidates.folder, candidates.month)
  const left = new Set(asked)
  if (left.size === 0) return new Float64Array()
  const db = openReadOnly(databasePath)
  try {
    db.run('BEGIN')
    for (const source of SOURCES[store]) {
      for (const ref of refsIn(db, source)) left.delete(ref)
      if (left.size === 0) break
    }
    return Float64Array.from(left)
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

function partsOf(folder: string, month: number): Float64Array {
  const db = openReadOnly(join(folder, `${monthName(month)}.db`))
  try {
    const rows = db
      .query<{ id: number }, []>(`SELECT id FROM parts WHERE encoding <> ${ENCODING.gone}`)
      .values() as number[][]
    return Float64Array.from(rows, ([id = 0]) => refOf(month, id))
  } finally {
    db.close()
  }
}
