/**
 * @module Records the highest row id that a content store has issued for each month, in a file beside its folder. A
 * month whose database was lost or restored from a backup continues above it: reusing an id would show one account's
 * mail to another.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { formatMonth } from './read.ts'

export interface IssuedIds {
  /** No id above this was ever issued; 0: none of this month. */
  highest(month: number): number
  /** Call before issuing ids up to this one: they are recorded on disk when it returns. */
  record(month: number, id: number): void
  /** Records the last id of a month at an orderly close, so that none is skipped. */
  settle(month: number, lastId: number): void
}

/** Recorded in advance, so that few writes record; after a crash up to this many ids are skipped. */
const IDS_PER_RECORD = 4096

/** @param path of the file; created when the first id is recorded */
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
    // The data directory is new, or of an earlier version.
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
