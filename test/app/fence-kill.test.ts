/**
 * @module Fencing is all or nothing: a process is killed at random moments while it fences copies. `FENCE_COPIES` sets
 * how many (default 6).
 */
import { Database } from 'bun:sqlite'
import { afterAll, expect, setDefaultTimeout, test } from 'bun:test'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrations } from '#app/migrations.ts'
import { markAsCopy, readCopyMark, readFence } from '#features/core/fence/restored.ts'
import { migrate } from '#platform/db/migrate.ts'
import { openDatabase } from '#platform/db/open.ts'

setDefaultTimeout(300_000)

const COPIES = Number(process.env['FENCE_COPIES'] ?? 6)
const folder = mkdtempSync(join(tmpdir(), 'tassis-fence-kill-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What a fence changes: all of it is as in the copy, or all of it is new. */
function readState(path: string) {
  using db = new Database(path)
  const one = (sql: string) => db.query<{ n: number | null }, []>(sql).get()?.n ?? 0
  return {
    isMarked: readCopyMark(db) !== undefined,
    isFenced: readFence(db) !== undefined,
    areIdsRaised: one("SELECT seq AS n FROM sqlite_sequence WHERE name = 'emails'") > 1_000_000,
    areNumbersRaised: one('SELECT last_seq AS n FROM event_sequences') > 1_000_000,
    gaps: one('SELECT count(*) AS n FROM event_gaps'),
    seq: one('SELECT last_seq AS n FROM event_sequences'),
    integrity: db.query<{ integrity_check: string }, []>('PRAGMA integrity_check').get()?.integrity_check,
  }
}

const OLD = { isMarked: true, isFenced: false, areIdsRaised: false, areNumbersRaised: false, gaps: 0, integrity: 'ok' }
const NEW = { isMarked: false, isFenced: true, areIdsRaised: true, areNumbersRaised: true, gaps: 2, integrity: 'ok' }

test('a copy whose fencing was killed is either untouched or fenced, and is fenced once', async () => {
  const template = join(folder, 'template.db')
  const made = openDatabase(template)
  migrate(made, migrations)
  made.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('emails', 7)")
  made.run('INSERT INTO event_sequences (account_id, last_seq) VALUES (1, 9)')
  markAsCopy(made, { kind: 'backup', takenAt: null })
  made.close()
  const paths = Array.from({ length: COPIES }, (_, index) => {
    const path = join(folder, `copy-${index}.db`)
    copyFileSync(template, path)
    return path
  })
  const numbers = new Map<string, number>()
  let kills = 0
  let left = paths
  while (left.length > 0) {
    await using child = Bun.spawn([process.execPath, join(import.meta.dir, 'fence-child.ts'), ...left], {
      stdout: 'pipe',
      stderr: 'inherit',
    })
    // Once it has fenced one, it is killed after up to a few more, in the middle of whatever it does then.
    await child.stdout.getReader().read()
    await Bun.sleep(Math.random() * 15)
    child.kill('SIGKILL')
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
    kills++
    const states = left.map((path) => ({ path, ...readState(path) }))
    for (const { path, seq, ...state } of states) {
      expect(state).toEqual(state.isMarked ? OLD : NEW)
      if (!state.isMarked) numbers.set(path, seq)
    }
    left = states.filter(({ isMarked }) => isMarked).map(({ path }) => path)
  }
  for (const path of paths) expect(readState(path)).toEqual({ ...NEW, seq: numbers.get(path) ?? 0 })
  expect(numbers.size).toBe(COPIES)
  if (process.env['FENCE_COPIES']) process.stdout.write(`${COPIES} copies, ${kills} kills\n`)
})
