/**
 * @module The databases of a content store, one per month, each with its committer; created and opened on demand. Records
 * the highest row id that was issued for each month in a file beside the store's folder: when a database was lost or
 * restored from a backup, new ids start above it, since reusing an id would show one account's mail to another.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { unlessMissing } from '#platform/errors.ts'
import { Committer, type CommitterOptions } from '../db/commit.ts'
import { openDatabase } from '../db/open.ts'
import { ENCODING, formatMonth } from './read.ts'

/**
 * Identical blobs from this size on are found by an index over their hash. Smaller blobs are found only while their
 * hashes are cached: an index entry changes a random page, which costs more to write than a small blob, and the cost
 * grows with the number of blobs in the month.
 */
export const MIN_INDEXED_BYTES = 16 * 1024
/**
 * Several bodies of mail fit a page of this size. Of the default of 4 KiB, a third would stay unused, because a
 * compressed body rarely fits beside another; a larger one would be written again for each single body.
 */
const PAGE_BYTES = 16 * 1024

const SCHEMA = `CREATE TABLE IF NOT EXISTS parts (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL, size_bytes INTEGER NOT NULL, encoding INTEGER NOT NULL, data BLOB
) STRICT`

/** Number of ids recorded in advance, so that the file is rarely written. A crash skips at most this many ids. */
const IDS_PER_RECORD = 4096

export type Months = ReturnType<typeof createMonths>

/**
 * Makes new ids start above every issued one, including ids of a deleted database: inserts a row with the highest
 * issued id, so that SQLite continues above it.
 */
function skipIssuedIds(db: Database, highest: number): void {
  if (readLastId(db) < highest)
    db.run(`INSERT INTO parts (id, hash, size_bytes, encoding) VALUES (?, randomblob(16), 0, ${ENCODING.deleted})`, [
      highest,
    ])
}

const readLastId = (db: Database): number =>
  db.query<{ id: number | null }, []>('SELECT max(id) AS id FROM parts').get()?.id ?? 0

export function createMonths(folder: string, options: CommitterOptions) {
  const open = new Map<number, Committer>()
  const issuedPath = `${folder}.ids`
  const issued = readIssued(issuedPath)
  /** The path of a month's database, whether or not it exists. */
  const path = (month: number): string => join(folder, `${formatMonth(month)}.db`)
  const highestOf = (month: number): number => issued[formatMonth(month)] ?? 0
  const setHighest = (month: number, id: number): void => {
    const content = JSON.stringify({ ...issued, [formatMonth(month)]: id })
    replaceFileSync(issuedPath, content)
    options.replica?.replaceFile(issuedPath, content)
    issued[formatMonth(month)] = id
  }
  const close = async (month: number): Promise<void> => {
    const committer = open.get(month)
    open.delete(month)
    if (!committer) return
    await committer.barrier()
    const lastId = readLastId(committer.db)
    await committer.close()
    // At an orderly shutdown no id is skipped.
    if (highestOf(month) > lastId) setHighest(month, lastId)
  }
  return {
    path,
    /** Opens the database if necessary. */
    committer(month: number): Committer {
      let committer = open.get(month)
      if (!committer) {
        const db = openDatabase(path(month), PAGE_BYTES)
        db.run(SCHEMA)
        db.run(`CREATE UNIQUE INDEX IF NOT EXISTS parts_hash ON parts (hash) WHERE size_bytes >= ${MIN_INDEXED_BYTES}`)
        skipIssuedIds(db, highestOf(month))
        committer = new Committer(db, path(month), options)
        open.set(month, committer)
      }
      return committer
    },
    /** The databases that are open. */
    databases: (): Database[] => [...open.values()].map(({ db }) => db),
    /** Records on disk, before it returns, that ids up to this one may be issued. Call it before issuing them. */
    recordIssued(month: number, id: number): void {
      if (id > highestOf(month)) setHighest(month, id + IDS_PER_RECORD)
    },
    close,
    async closeAll(): Promise<void> {
      await Promise.all([...open.keys()].map(close))
    },
  }
}

/** None in a new data directory. */
const readIssued = (path: string): Record<string, number> =>
  JSON.parse(unlessMissing(() => readFileSync(path, 'utf8')) ?? '{}')
