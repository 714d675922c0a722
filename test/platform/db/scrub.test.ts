/**
 * @module Tests that after a scrub no file of a database contains a byte of deleted data, and that SQLite finds the
 * database intact.
 */
import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Committer } from '#platform/db/commit.ts'
import { openDatabase, openReadOnly } from '#platform/db/open.ts'
import { releasePages, scrubDatabase } from '#platform/db/scrub.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

const MARK = 'SECRET'

function newDatabase(): { path: string; db: Database; committer: Committer } {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-scrub-'))
  folders.push(folder)
  const path = join(folder, 'some.db')
  const db = openDatabase(path)
  db.run('CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT) STRICT')
  db.run('CREATE UNIQUE INDEX ta ON t (a)')
  db.run('CREATE INDEX tb ON t (b, a)')
  db.run('CREATE TABLE w (k TEXT PRIMARY KEY, v TEXT) STRICT, WITHOUT ROWID')
  return { path, db, committer: new Committer(db, path) }
}

/** A generator with reproducible numbers for a seed. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return state / 0x7fffffff
  }
}

/**
 * Inserts, changes and deletes rows at random, one in twenty of them with the mark: pages split, merge and overflow.
 */
async function churn(committer: Committer, seed: number, rows: number): Promise<void> {
  const random = numbers(seed)
  const below = (most: number): number => Math.floor(random() * most)
  await committer.write(({ db }) => {
    const insert = db.prepare('INSERT INTO t (a, b) VALUES (?, ?)')
    const update = db.prepare('UPDATE t SET b = ? WHERE id = ?')
    const remove = db.prepare('DELETE FROM t WHERE id = ?')
    const keep = db.prepare('INSERT OR REPLACE INTO w VALUES (?, ?)')
    for (let i = 0; i < rows; i++) {
      const name = `${random() < 0.05 ? MARK : 'other'}-${below(1e9)}-${seed}-${i}@example.test`
      insert.run(name, `${'x'.repeat(below(200))}${name}${random() < 0.02 ? 'y'.repeat(9000) : ''}`)
      keep.run(name, 'v'.repeat(below(100)))
      if (i % 3 === 0) update.run('z'.repeat(below(300)), below(i))
      if (i % 7 === 0) remove.run(below(i))
    }
  })
}

const removeMarked = (committer: Committer): Promise<void> =>
  committer.write(({ db }) => {
    db.run(`DELETE FROM t WHERE a LIKE '${MARK}%' OR b LIKE '%${MARK}%'`)
    db.run(`DELETE FROM w WHERE k LIKE '${MARK}%'`)
  })

const marksIn = (path: string): number =>
  ['', '-wal']
    .map((end) => `${path}${end}`)
    .filter((file) => existsSync(file))
    .reduce((sum, file) => sum + readFileSync(file, 'latin1').split(MARK).length - 1, 0)

const rowsOf = (db: Database): unknown => [
  db.query('SELECT count(*) AS n, sum(length(a)) AS a, sum(length(b)) AS b FROM t').get(),
  db.query('SELECT count(*) AS n, sum(length(k)) AS k, sum(length(v)) AS v FROM w').get(),
]

const integrity = (db: Database): unknown => db.query('PRAGMA integrity_check').all()
const INTACT = [{ integrity_check: 'ok' }]

describe('a scrub', () => {
  test.each([1, 2, 3])(
    'leaves no byte of deleted rows in the file and the WAL, and all other rows intact (%d)',
    async (seed) => {
      const { path, db, committer } = newDatabase()
      await churn(committer, seed, 20_000)
      await removeMarked(committer)
      const before = rowsOf(db)
      expect(marksIn(path)).toBeGreaterThan(0)
      expect(await scrubDatabase(committer)).toBe(true)
      expect(marksIn(path)).toBe(0)
      expect([rowsOf(db), integrity(db)]).toEqual([before, INTACT])
      // Later changes of the same pages restore nothing.
      await committer.write(({ db: inside }) => {
        inside.run("UPDATE t SET b = b || 'q' WHERE id % 5 = 0")
        inside.run("INSERT INTO w SELECT 'late' || k, v FROM w WHERE k LIKE '%7%'")
      })
      await committer.close()
      expect(marksIn(path)).toBe(0)
      using again = new Database(path, { readonly: true })
      expect(integrity(again)).toEqual(INTACT)
    },
  )

  test('clears free pages of an earlier version', async () => {
    const { db, committer } = newDatabase()
    db.run('PRAGMA secure_delete = OFF')
    await churn(committer, 9, 10_000)
    await removeMarked(committer)
    db.run('PRAGMA secure_delete = ON')
    expect(await scrubDatabase(committer)).toBe(true)
    // Cells freed without being overwritten stay in the cell area: the scrub clears only free pages and gaps.
    expect(db.query('PRAGMA freelist_count').get()).toEqual({ freelist_count: 0 })
    expect(integrity(db)).toEqual(INTACT)
    await committer.close()
  })

  test('runs while others write, and loses none of their writes', async () => {
    const { path, db, committer } = newDatabase()
    await churn(committer, 4, 20_000)
    await removeMarked(committer)
    let isOver = false
    const writing = (async () => {
      let written = 0
      while (!isOver) {
        await committer.write(({ db: inside }) => {
          inside.run('INSERT INTO t (a, b) VALUES (?, ?)', [`busy-${written}@example.test`, 'b'.repeat(written % 500)])
          if (written % 3 === 0) inside.run('DELETE FROM t WHERE id = ?', [written])
        })
        written++
      }
      return written
    })()
    const isDone = await scrubDatabase(committer)
    isOver = true
    const written = await writing
    expect(isDone).toBe(true)
    expect(db.query("SELECT count(*) AS n FROM t WHERE a LIKE 'busy-%'").get()).toEqual({ n: written })
    expect([marksIn(path), integrity(db)]).toEqual([0, INTACT])
    await committer.close()
  })

  test('reports failure while a reader holds the WAL for long, and succeeds later', async () => {
    const { path, committer } = newDatabase()
    await churn(committer, 5, 5000)
    const reader = openReadOnly(path)
    reader.run('BEGIN')
    reader.query('SELECT count(*) FROM t').get()
    await removeMarked(committer)
    expect(await scrubDatabase(committer)).toBe(false)
    expect(marksIn(path)).toBeGreaterThan(0)
    reader.run('COMMIT')
    reader.close()
    expect(await scrubDatabase(committer)).toBe(true)
    expect(marksIn(path)).toBe(0)
    await committer.close()
  })
})

/** This process's locks on a file, as the kernel lists them. */
const locksOn = (path: string): string[] =>
  readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${statSync(path).ino} `))
    .map((line) => line.replace(/^\d+: /, ''))

// Without them, another process that closes the database, such as sqlite3(1), takes itself for the last user and
// removes the WAL: later writes would be lost.
test.skipIf(!existsSync('/proc/locks'))("keeps the process's locks on the database", async () => {
  const { path, committer } = newDatabase()
  const before = locksOn(path)
  expect(before).toHaveLength(1)
  expect(await scrubDatabase(committer)).toBe(true)
  expect(locksOn(path)).toEqual(before)
  await committer.close()
})

test('does not let released pages pile up in the WAL', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-scrub-'))
  folders.push(folder)
  const path = join(folder, 'some.db')
  const db = openDatabase(path)
  const checkpointBytes = 512 * 1024
  const committer = new Committer(db, path, {
    checkpointBytes,
    checkpoint: async (_, mode) => void db.query(`PRAGMA wal_checkpoint(${mode})`).all(),
  })
  db.run('CREATE TABLE t (id INTEGER PRIMARY KEY, a BLOB)')
  for (let i = 0; i < 20; i++)
    await committer.write((tx) => {
      for (let j = 0; j < 500; j++) tx.db.run('INSERT INTO t (a) VALUES (zeroblob(3000))')
    })
  // Every other row, so that pages must move.
  await committer.write((tx) => void tx.db.run('DELETE FROM t WHERE id % 2 = 0'))
  await committer.checkpoint()
  expect(await releasePages(committer)).toBeGreaterThan(2000)
  expect(statSync(`${path}-wal`).size).toBeLessThan(4 * checkpointBytes)
  await committer.close()
})

test('releases free pages: the file shrinks', async () => {
  const { path, db, committer } = newDatabase()
  await churn(committer, 6, 10_000)
  await committer.write(({ db: inside }) => void inside.run('DELETE FROM t WHERE id > 500'))
  await committer.runExclusive((inside) => void inside.query('PRAGMA wal_checkpoint(TRUNCATE)').all())
  const before = statSync(path).size
  expect(await releasePages(committer)).toBeGreaterThan(100)
  await committer.runExclusive((inside) => void inside.query('PRAGMA wal_checkpoint(TRUNCATE)').all())
  expect(statSync(path).size).toBeLessThan(before / 2)
  expect(integrity(db)).toEqual(INTACT)
  await committer.close()
})
