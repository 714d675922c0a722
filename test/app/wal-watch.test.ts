/** @module Tests the write-ahead log of a database that another process reads for a long time. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createWalWatcher, findReaders } from '#app/wal-watch.ts'
import { createCheckpointer } from '#platform/db/checkpoint.ts'
import { Committer } from '#platform/db/commit.ts'
import { openDatabase } from '#platform/db/open.ts'
import { createLog } from '#platform/log/log.ts'
import { KiB, MiB, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

/** Program that starts a read transaction on a database and prints a line. */
const READER = `const { Database } = require('bun:sqlite'); const db = new Database(process.argv[1])
db.run('BEGIN'); db.query('SELECT COUNT(*) FROM notes').get(); console.log('reads'); setInterval(() => {}, 1000)`

test('a write-ahead log blocked by a reader is logged with the reader at each doubling and emptied within a minute after it ends', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-wal-'))
  const clock = new ManualClock()
  const lines: Record<string, unknown>[] = []
  const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line)) }, clock)
  const checkpointer = createCheckpointer(log)
  const path = join(folder, 'test.db')
  const db = openDatabase(path)
  db.run('CREATE TABLE notes (body TEXT)')
  const commit = new Committer(db, path, {
    checkpointBytes: 256 * KiB,
    checkpoint: (file, mode) => checkpointer.run(file, mode),
    onCheckpoint: createWalWatcher(clock, log, MiB),
  })
  const write = async (bytes: number) => {
    const body = 'x'.repeat(64 * KiB)
    for (let written = 0; written < bytes; written += body.length)
      await commit.write((tx) => void tx.db.run('INSERT INTO notes VALUES (?)', [body]))
    await commit.checkpoint()
  }
  const walBytes = () => statSync(`${path}-wal`).size
  await write(2 * MiB)
  expect({ walBytes: walBytes(), lines }).toEqual({ walBytes: 0, lines: [] })
  const reader = Bun.spawn([process.execPath, '-e', READER, path], { stdout: 'pipe', stderr: 'inherit' })
  try {
    await commit.write((tx) => void tx.db.run("INSERT INTO notes VALUES ('in the log')"))
    const readerOutput = reader.stdout.getReader()
    await readerOutput.read()
    await write(5 * MiB)
    expect(walBytes()).toBeGreaterThan(5 * MiB)
    expect(findReaders(path)).toEqual([reader.pid])
    const sizes = lines.map(({ walBytes: size }) => Number(size))
    expect(sizes.length).toBeGreaterThanOrEqual(2)
    for (const [i, size] of sizes.entries())
      expect(size).toBeGreaterThanOrEqual(i === 0 ? MiB : 2 * (sizes[i - 1] ?? 0))
    expect(lines[0]).toMatchObject({ level: 'warn', file: 'test.db', processes: [reader.pid] })
    reader.kill()
    await reader.exited
    // No further writes.
    expect(walBytes()).toBeGreaterThan(5 * MiB)
    clock.advance(minutes(1))
    await eventually(() => walBytes() === 0)
    await eventually(() => lines.length === sizes.length + 1)
    expect(lines.at(-1)).toMatchObject({ level: 'info', file: 'test.db' })
    clock.advance(minutes(10))
    expect(lines).toHaveLength(sizes.length + 1)
  } finally {
    reader.kill()
    await commit.close()
    checkpointer.close()
    rmSync(folder, { recursive: true, force: true })
  }
}, 300_000)
