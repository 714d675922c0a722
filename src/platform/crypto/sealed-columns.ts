/**
 * @module Finds what is sealed in a database, and seals it again under the newest master key, in batches. Can run at any
 * time, any number of times: a row is sealed again in the transaction that reads it. Does not know what is sealed.
 */
import type { Database } from 'bun:sqlite'
import type { Committer } from '#platform/db/commit.ts'
import type { Tx } from '#platform/db/open.ts'
import { attempt } from '#platform/errors.ts'
import type { KeyRing } from './crypto.ts'

/** The sealed columns of a table. The feature that declares the table declares these. */
export interface SealedColumns {
  readonly table: string
  /** The integer primary key. */
  readonly id: string
  /** SQL of the value from which the contexts are made; that of a UUID is bytes. */
  readonly owner: string
  /** Column names, each with the seal context of a row. */
  readonly columns: Readonly<Record<string, (owner: never) => string>>
  /** In a text column: stands before the base64 of the ciphertext. Text without it is not sealed. */
  readonly textPrefix?: string
}

interface Row {
  readonly id: number
  readonly owner: unknown
  readonly [column: string]: unknown
}

/** A ciphertext in a row. */
interface Sealed {
  readonly column: string
  readonly bytes: Uint8Array
  /** Fingerprint of its key; undefined: a key that is not in the ring, or no ciphertext. */
  readonly fingerprint: string | undefined
}

/** Rows read per query: a row has some kilobytes. */
const BATCH_SIZE = 100

const readRows = (db: Database, { table, id, owner, columns }: SealedColumns, after: number): Row[] =>
  db
    .query<Row, [number, number]>(
      `SELECT ${id} AS id, ${owner} AS owner, ${Object.keys(columns).join(', ')} FROM ${table} WHERE ${id} > ? ORDER BY ${id} LIMIT ?`,
    )
    .all(after, BATCH_SIZE)

function listSealed(keys: KeyRing, { columns, textPrefix }: SealedColumns, row: Row): Sealed[] {
  return Object.keys(columns).flatMap((column) => {
    const bytes = toBytes(row[column], textPrefix)
    return bytes === undefined || bytes.length === 0 ? [] : [{ column, bytes, fingerprint: keys.fingerprintOf(bytes) }]
  })
}

function toBytes(value: unknown, textPrefix: string | undefined): Uint8Array | undefined {
  if (textPrefix === undefined) return value instanceof Uint8Array ? value : undefined
  return typeof value === 'string' && value.startsWith(textPrefix)
    ? new Uint8Array(Buffer.from(value.slice(textPrefix.length), 'base64'))
    : undefined
}

export interface Resealing {
  /** Number of ciphertexts sealed again. */
  readonly resealed: number
  /** Number of ciphertexts that no key in the ring opens; they stay as they are. */
  readonly unreadable: number
}

interface ResealOptions {
  readonly db: Database
  readonly commit: Pick<Committer, 'write'>
  readonly keys: KeyRing
  readonly signal?: AbortSignal | undefined
}

/**
 * Seals again what is not sealed under the newest key, until aborted. What is written while this runs may be
 * sealed under a former key still, so call it until it finds nothing.
 */
export async function resealAll(
  { db, commit, keys, signal }: ResealOptions,
  tables: readonly SealedColumns[],
): Promise<Resealing> {
  let resealed = 0
  let unreadable = 0
  for (const table of tables) {
    for await (const rows of scan(db, table)) {
      if (signal?.aborted) return { resealed, unreadable }
      const outdated = rows.filter((row) => listSealed(keys, table, row).some((each) => isOutdated(keys, each)))
      const [first] = outdated
      if (first === undefined) continue
      const done = await commit.write((tx) => resealRows(tx, keys, table, first.id - 1))
      resealed += done.resealed
      unreadable += done.unreadable
    }
  }
  return { resealed, unreadable }
}

const isOutdated = (keys: KeyRing, { fingerprint }: Sealed): boolean => fingerprint !== keys.fingerprint()

function resealRows(tx: Tx, keys: KeyRing, table: SealedColumns, after: number): Resealing {
  let resealed = 0
  let unreadable = 0
  for (const row of readRows(tx.db, table, after)) {
    for (const sealed of listSealed(keys, table, row).filter((each) => isOutdated(keys, each))) {
      // Undefined when no key opens it, or its owner is gone.
      const bytes = attempt(() => {
        const context = table.columns[sealed.column]?.(row.owner as never) ?? ''
        return keys.seal(keys.unseal(sealed.bytes, context), context)
      })
      if (bytes === undefined) {
        unreadable++
        continue
      }
      const value = table.textPrefix === undefined ? bytes : table.textPrefix + bytes.toBase64()
      tx.db.query(`UPDATE ${table.table} SET ${sealed.column} = ? WHERE ${table.id} = ?`).run(value, row.id)
      resealed++
    }
  }
  return { resealed, unreadable }
}

/** Number of ciphertexts by the fingerprint of their key; under `''` those of keys that are not in the ring. */
export async function countSealed(
  { db, keys }: Pick<ResealOptions, 'db' | 'keys'>,
  tables: readonly SealedColumns[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>()
  for (const table of tables) {
    for await (const rows of scan(db, table)) {
      for (const { fingerprint = '' } of rows.flatMap((row) => listSealed(keys, table, row)))
        counts.set(fingerprint, (counts.get(fingerprint) ?? 0) + 1)
    }
  }
  return counts
}

/** The rows in batches; yields to the event loop between them. */
async function* scan(db: Database, table: SealedColumns): AsyncGenerator<readonly Row[]> {
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const rows = readRows(db, table, after)
    const last = rows.at(-1)
    if (last === undefined) return
    yield rows
    after = last.id
    await new Promise((resolve) => setImmediate(resolve))
  }
}
