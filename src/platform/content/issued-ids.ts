/**
 * @module Up to which id a content store has given out rows of each month, in a file beside its folder. A month whose database was lost, or put back
 * from a backup, goes on above them: an id that is given twice would show the mail of one account to another.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { formatMonth } from './read.ts'

export interface IssuedIds {
  /** No id above this was ever given out; 0: none of this month was. */
  highest(month: number): number
  /** Call before ids up to this one are given out: they are noted on disk when it returns. */
  record(month: number, id: number): void
  /** The last id of a month that is closed in order, so that none is left out. */
  settle(month: number, lastId: number): void
}

/** Noted at once, so that few writes note; after a crash so many ids may be left out. */
const IDS_PER_RECORD = 4096

/** @param path of the file; made when the first id is noted */
export function createIssuedIds(path: string): IssuedIds {
  const highest = read(path)
  const store = (month: number, id: number): void => {
    const next = { ...highest, [formatMonth(month)]: id }
    write(path, JSON.stringify(next))
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
    // A data directory of an earlier version, or a new one.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return {}
    throw error
  }
}

function write(path: string, text: string): void {
  const temporary = `${path}.tmp`
  syncFile(temporary, 'w', (file) => void writeSync(file, text))
  renameSync(temporary, path)
  syncFile(dirname(path), 'r')
}

function syncFile(path: string, flags: 'r' | 'w', fill: (file: number) => void = () => undefined): void {
  const file = openSync(path, flags, 0o600)
  try {
    fill(file)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
