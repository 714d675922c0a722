import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase, readSnapshot } from '#platform/db/open.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function openWithRow(): { db: Database; path: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-open-'))
  folders.push(folder)
  const path = join(folder, 'tassis.db')
  const db = openDatabase(path)
  db.run('CREATE TABLE things (size INTEGER NOT NULL) STRICT')
  db.run('INSERT INTO things VALUES (1)')
  return { db, path }
}

const sizeOf = (db: Database): number | undefined =>
  db.query<{ size: number }, []>('SELECT size FROM things').get()?.size

describe('reads in a snapshot', () => {
  test('see one state, whatever another process writes meanwhile', () => {
    const { db, path } = openWithRow()
    using other = new Database(path)
    const seen = readSnapshot(db, () => {
      const first = sizeOf(db)
      other.run('UPDATE things SET size = 2')
      return { first, second: sizeOf(db) }
    })
    expect({ seen, after: sizeOf(db) }).toEqual({ seen: { first: 1, second: 1 }, after: 2 })
    db.close()
  })

  test('that throw leave no transaction open', () => {
    const { db } = openWithRow()
    const read = () =>
      readSnapshot(db, () => {
        sizeOf(db)
        throw new Error('refused')
      })
    expect(read).toThrow('refused')
    expect(db.inTransaction).toBe(false)
    db.close()
  })

  test('within a transaction see its writes, and leave it open', () => {
    const { db } = openWithRow()
    db.run('BEGIN IMMEDIATE')
    db.run('UPDATE things SET size = 3')
    expect({ size: readSnapshot(db, () => sizeOf(db)), isOpen: db.inTransaction }).toEqual({ size: 3, isOpen: true })
    db.run('ROLLBACK')
    expect(sizeOf(db)).toBe(1)
    db.close()
  })
})
