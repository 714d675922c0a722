/**
 * @module Records the highest row id that a content store has issued for each month, in a file beside the store's
 * folder. When a month's database was lost or restored from a backup, new ids start above the recorded id: reusing an
 * id would show one account's mail to another.
 */
import { readFileSync } from 'node:fs'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { formatMonth } from './read.ts'

export interface IssuedIds {
  /** The highest id that may have been issued for a month; 0: no id was issued. */
  highest(month: number): number
  /** Records on disk, before it returns, that ids up to this one may be issued. Call it before issuing them. */
  record(month: number, id: number): void
  /** Records the last issued id of a month at an orderly shutdown, so that no id is skipped. */
  settle(month: number, lastId: number): void
}

/** Number of ids recorded in advance, so that the file is rarely written. A crash skips at most this many ids. */
const IDS_PER_RECORD = 4096

/** @param path of the file; created when the first id is recorded */
export function createIssuedIds(path: string): IssuedIds {
  const highest = read(path)
  const store = (month: number, id: number): void => {
    const next = { ...highest, [formatMonth(month)]: id }
    replaceFileSync(path, JSON.stringify(next))
    highest[formatMonth(month)] = id
  }
  const highestOf = (month: number): number => highest[formatMonth(month)] ?? 0
  return {
    highest: highestOf,
    record(month, id) {
      if (id > highestOf(month)) store(month, id + IDS_PER_RECORD)
    },
    settle(month, lastId) {
      if (highestOf(month) > lastId) store(month, lastId)
    },
  }
}

function read(path: string): Record<string, number> {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>
  } catch (error) {
    // The data directory is new.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return {}
    throw error
  }
}
