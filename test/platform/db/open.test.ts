import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hideParameters, openDatabase, prepareStatements, readSnapshot } from '#platform/db/open.ts'

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

describe('prepared statements', () => {
  test('hide their parameters from the planner, but no text in quotes', () => {
    expect(hideParameters(`SELECT "a?" FROM x WHERE b = ? AND c IN (?1, ?2) AND d <> 'why? it''s' LIMIT ?`)).toBe(
      `SELECT "a?" FROM x WHERE b = +? AND c IN (+?1, +?2) AND d <> 'why? it''s' LIMIT +?`,
    )
  })

  test('store and compare values of every type as they are', () => {
    const { db } = openWithRow()
    db.run('CREATE TABLE kept (id INTEGER PRIMARY KEY, word TEXT, amount REAL, octets BLOB) STRICT')
    const sql = prepareStatements((preparer) => ({
      insert: preparer.prepare('INSERT INTO kept (word, amount, octets) VALUES (?, ?, ?)'),
      find: preparer.prepare<{ id: number }, [string | null, number, Uint8Array, number]>(
        'SELECT id FROM kept WHERE word IS ? AND amount = ? AND octets = ? ORDER BY id LIMIT ?',
      ),
      first: preparer.prepare<{ word: string | null; amount: number; octets: Uint8Array }, []>(
        'SELECT word, amount, octets FROM kept ORDER BY id',
      ),
    }))(db)
    const octets = new Uint8Array([0, 255])
    for (const word of ['007', null]) sql.insert.run(word, 7, octets)
    expect(sql.first.all()).toEqual(['007', null].map((word) => ({ word, amount: 7, octets })))
    for (const [index, word] of ['007', null].entries())
      expect(sql.find.all(word, 7, octets, 5)).toEqual([{ id: index + 1 }])
    expect(sql.find.all('7', 7, octets, 5)).toEqual([])
    db.close()
  })
})

test('SQLite has the fix of the WAL-reset bug (3.51.3), because a Worker checkpoints while the main thread writes', () => {
  using db = new Database(':memory:')
  const version = db.query<{ version: string }, []>('SELECT sqlite_version() AS version').get()?.version ?? ''
  expect(Bun.semver.order(version, '3.51.3')).toBeGreaterThanOrEqual(0)
})
