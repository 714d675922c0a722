import { Database } from 'bun:sqlite'
import { afterEach, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cutWals, hasWals } from '#platform/replication/recover.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-recover-'))
  folders.push(folder)
  return folder
}

/** A directory as a crash leaves it, whose log has the first of two commits. */
function crashAfterTwoCommits() {
  const [running, crashed] = [createFolder(), createFolder()]
  const wal = join(running, 'tassis.db-wal')
  using db = new Database(join(running, 'tassis.db'))
  db.run('PRAGMA journal_mode = WAL')
  db.run('CREATE TABLE letters (text TEXT)')
  db.run("INSERT INTO letters VALUES ('in the log')")
  const end = { salt: readFileSync(wal).toString('hex', 16, 24), end: statSync(wal).size }
  db.run("INSERT INTO letters VALUES ('in no log')")
  cpSync(running, crashed, { recursive: true })
  return { dataDir: crashed, end, path: join(crashed, 'tassis.db') }
}

/** Rows of a connection, which is closed with its statement. */
function readLetters(path: string): unknown[] {
  using db = new Database(path)
  using statement = db.prepare('SELECT text FROM letters')
  return statement.values().flat()
}

test.each([
  [
    'ends where the last row of the log does',
    (end: { salt: string; end: number }) => [['tassis.db', end]] as const,
    ['in the log'],
  ],
  ['is emptied when the log has nothing of it', () => [], undefined],
])('a write-ahead log %s, also when another process had it open before', async (_, toEnds, letters) => {
  const { dataDir, end, path } = crashAfterTwoCommits()
  const ends = new Map(toEnds(end))
  const other = new Database(path)
  const statement = other.prepare('SELECT text FROM letters')
  expect(statement.values()).toHaveLength(2)
  await expect(cutWals(dataDir, ends)).rejects.toMatchObject({ code: 'SQLITE_BUSY' })
  statement.finalize()
  // Its index of the log names frames that are gone, and it copies none of them.
  other.close()
  await cutWals(dataDir, ends)
  expect(hasWals(dataDir)).toBe(false)
  if (letters) expect(readLetters(path)).toEqual(letters)
  else expect(() => readLetters(path)).toThrow('no such table')
})
