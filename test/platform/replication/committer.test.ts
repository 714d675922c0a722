/** @module A Committer with a replica: what waits for the append, and what no checkpoint may copy before it. */
import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Committer, type CommitterOptions } from '#platform/db/commit.ts'
import { openDatabase, openReadOnly } from '#platform/db/open.ts'
import { scrubDatabase } from '#platform/db/scrub.ts'
import type { DiskGuard } from '#platform/disk/disk.ts'
import { AppError } from '#platform/errors.ts'
import { unpackEntries } from '#platform/replication/entries.ts'
import { Leader } from '#platform/replication/leader.ts'
import { readPosition } from '#platform/replication/position.ts'
import { LogWriter } from '#platform/replication/writer.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { CLUSTER } from './database.ts'
import { MemoryLog } from './memory-log.ts'

let folder = ''
let log: MemoryLog
let opened: Committer[] = []
let passes: string[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tassis-replica-'))
  log = new MemoryLog()
  opened = []
  passes = []
})
afterEach(async () => {
  log.onArrival = () => undefined
  for (const committer of opened) await committer.close()
  rmSync(folder, { recursive: true, force: true })
})

const path = () => join(folder, 'tassis.db')

function runCheckpoint(file: string, mode: string): void {
  passes.push(mode)
  const db = new Database(file, { readwrite: true })
  db.query(`PRAGMA wal_checkpoint(${mode})`).all()
  db.close()
}

async function openCommitter(options: CommitterOptions = {}) {
  const lost: string[] = []
  const writer = new LogWriter(log.log, { epoch: 1, seq: 0, crc: 0, onLost: (reason) => lost.push(reason) })
  const position = { cluster: CLUSTER, directory: CLUSTER, seq: 0, crc: 0, epoch: 1, wals: {} }
  const leader = new Leader(folder, position, writer)
  const db = openDatabase(path())
  db.run('CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)')
  const committer = new Committer(db, path(), {
    clock: new ManualClock(0),
    replica: leader,
    checkpoint: async (file, mode) => runCheckpoint(file, mode),
    ...options,
  })
  opened.push(committer)
  await committer.barrier()
  return { committer, leader, lost }
}

const add = (committer: Committer, body: string): Promise<string> =>
  committer.write((tx) => {
    tx.db.run('INSERT INTO notes (body) VALUES (?)', [body])
    return body
  })

/** Which of these texts are in the database file, without its write-ahead log. */
const inFile = (...texts: readonly string[]): string[] => {
  const file = readFileSync(path(), 'latin1')
  return texts.filter((text) => file.includes(text))
}

/** The same of each row of the log. */
const inLog = (...texts: readonly string[]): string[][] =>
  log.rows.map(({ data }) => {
    const bytes = unpackEntries(data)
      .map((entry) => Buffer.from(entry.bytes).toString('latin1'))
      .join()
    return texts.filter((text) => bytes.includes(text))
  })

describe('a write', () => {
  test('resolves, and runs what follows it, only when the log has it', async () => {
    const durable: unknown[] = []
    const { committer } = await openCommitter({ onDurable: (deltas) => durable.push([...deltas]) })
    const held = log.hold()
    const order: string[] = []
    const write = committer
      .write((tx) => {
        tx.db.run("INSERT INTO notes (body) VALUES ('one')")
        tx.add('sent', 1)
        tx.afterCommit(() => order.push('afterCommit'))
      })
      .then(() => order.push('resolved'))
    await held.arrived
    // The sync of the disk takes less than this.
    await Bun.sleep(50)
    expect([order, durable, committer.db.query('SELECT body FROM notes').values()]).toEqual([[], [], [['one']]])
    held.release()
    await write
    expect([order, durable]).toEqual([['afterCommit', 'resolved'], [[['sent', 1]]]])
  })

  test('is in the log in the order of the commits, and those that came meanwhile follow it', async () => {
    const { committer } = await openCommitter()
    log.rows = []
    const held = log.hold()
    const resolved: string[] = []
    const names = ['AAAA', 'BBBB', 'CCCC']
    const writes = [add(committer, 'AAAA').then((name) => resolved.push(name))]
    await held.arrived
    writes.push(...names.slice(1).map((name) => add(committer, name).then(() => resolved.push(name))))
    await Bun.sleep(20)
    expect(committer.db.query('SELECT count(*) FROM notes').values()).toEqual([[1]])
    held.release()
    await Promise.all(writes)
    expect([resolved, inLog(...names)]).toEqual([names, [['AAAA'], names]])
  })

  test('that failed, or was rolled back to its savepoint, is not in the log', async () => {
    const { committer } = await openCommitter()
    log.rows = []
    const failed = committer.write(({ db }) => {
      db.run("INSERT INTO notes (body) VALUES ('UNDONE')")
      throw new Error('mine')
    })
    await Promise.allSettled([add(committer, 'DONE'), failed])
    await expect(
      committer.write(({ db }) => {
        db.run(`INSERT INTO notes (body) VALUES ('ALONE ${'x'.repeat(20_000_000)}')`)
        throw new Error('mine')
      }),
    ).rejects.toThrow('mine')
    await add(committer, 'NEXT')
    expect(inLog('DONE', 'UNDONE', 'ALONE', 'NEXT')).toEqual([['DONE'], ['DONE', 'NEXT']])
  })

  test('and all that waits is rejected when the log refuses it, and nothing more reaches the database file', async () => {
    const broken: Error[] = []
    const { committer, lost } = await openCommitter({ onBroken: (error) => broken.push(error) })
    await committer.checkpoint()
    passes = []
    const held = log.hold()
    const first = add(committer, 'FIRST')
    await held.arrived
    const others = [add(committer, 'SECOND'), committer.runExclusive(() => 'job')]
    log.epoch++
    held.release()
    const settled = await Promise.allSettled([first, ...others, committer.checkpoint()])
    settled.push(...(await Promise.allSettled([add(committer, 'THIRD'), committer.checkpoint()])))
    const refused = settled.map((one) =>
      one.status === 'rejected' && one.reason instanceof AppError
        ? [one.reason.status, one.reason.retryAfterSeconds]
        : one.status,
    )
    expect(refused).toEqual([[503, 5], [503, 5], [503, 5], 'fulfilled', [503, 5], 'fulfilled'])
    await committer.close()
    opened = []
    // The last connection would copy the write-ahead log when it is closed, so it stays open.
    expect(committer.db.query('SELECT 1').values()).toEqual([[1]])
    expect([passes, inFile('FIRST', 'SECOND'), lost, broken]).toEqual([
      [],
      [],
      ['other leads now (epoch 2, ours was 1)'],
      [],
    ])
  })
})

describe('a checkpoint', () => {
  test('waits for the append that is on its way', async () => {
    const { committer } = await openCommitter()
    const held = log.hold()
    const write = add(committer, 'UNSTORED')
    await held.arrived
    const checkpoint = committer.checkpoint()
    await Bun.sleep(50)
    expect([passes, inFile('UNSTORED')]).toEqual([[], []])
    held.release()
    await Promise.all([write, checkpoint])
    expect([passes, inFile('UNSTORED')]).toEqual([['PASSIVE', 'TRUNCATE'], ['UNSTORED']])
  })

  test('that runs already copies what was stored, but no commit that came since', async () => {
    let held: ReturnType<MemoryLog['hold']> | undefined
    let write: Promise<string> | undefined
    let found: string[] = []
    const { committer } = await openCommitter({
      async checkpoint(file, mode) {
        if (mode === 'PASSIVE') {
          held = log.hold()
          write = add(committer, 'UNSTORED')
          await held.arrived
        }
        runCheckpoint(file, mode)
        if (mode === 'PASSIVE') found = inFile('STORED EARLIER', 'UNSTORED')
        setTimeout(() => held?.release(), 20)
      },
    })
    // Pages that were changed again since then are not copied.
    await committer.write(({ db }) => void db.run("CREATE TABLE others AS SELECT 'STORED EARLIER'"))
    await committer.checkpoint()
    expect([found, inFile('UNSTORED')]).toEqual([['STORED EARLIER'], ['UNSTORED']])
    await write
  })

  test('does not copy a group that began in the same moment', async () => {
    const refreshed = Promise.withResolvers<void>()
    let gate: Promise<void> | undefined
    const disk = {
      refresh: () => gate,
      register: () => () => undefined,
      countWritten: () => undefined,
      hasSpaceFor: () => true,
    }
    const { committer } = await openCommitter({ disk: disk as unknown as DiskGuard })
    await committer.checkpoint()
    passes = []
    gate = refreshed.promise
    const held = log.hold()
    const write = add(committer, 'UNSTORED')
    await new Promise<void>((resolve) => setImmediate(() => setImmediate(() => resolve())))
    refreshed.resolve()
    const checkpoint = committer.checkpoint()
    await held.arrived
    await Bun.sleep(20)
    expect([passes, inFile('UNSTORED')]).toEqual([[], []])
    held.release()
    await Promise.all([write, checkpoint])
  })
})

describe('an exclusive job', () => {
  test('with the file waits until everything is in the log, and its own writes follow', async () => {
    const { committer } = await openCommitter()
    log.rows = []
    const held = log.hold()
    const write = add(committer, 'WRITTEN')
    await held.arrived
    let isRun = false
    const job = committer.runExclusiveWithFile(({ isWhole }) => {
      isRun = true
      committer.db.run("INSERT INTO notes (body) VALUES ('OF THE JOB')")
      return isWhole
    })
    await Bun.sleep(20)
    expect([isRun, passes]).toEqual([false, []])
    held.release()
    await write
    expect(await job).toBe(true)
    await committer.barrier()
    expect([passes, inLog('WRITTEN', 'OF THE JOB')]).toEqual([['TRUNCATE'], [['WRITTEN'], ['WRITTEN', 'OF THE JOB']]])
  })

  test('that scrubs the file puts what it zeroed into the log', async () => {
    const { committer } = await openCommitter()
    for (let i = 0; i < 40; i++) await add(committer, `${i} ${'y'.repeat(100)}`)
    await committer.write(({ db }) => void db.run('DELETE FROM notes WHERE id % 2 = 0'))
    expect(await scrubDatabase(committer)).toBe(true)
    await committer.barrier()
    const kinds = log.rows.flatMap(({ data }) => unpackEntries(data).map(({ kind }) => kind))
    expect(kinds.at(-1)).toBe('scrub')
  })
})

test('a directory whose write-ahead log could not be emptied at the end says where it ends', async () => {
  const { committer, leader } = await openCommitter()
  await leader.savePosition()
  await add(committer, 'LAST')
  // Like a disk that is full, it keeps the log from being emptied.
  const reader = openReadOnly(path())
  reader.run('BEGIN')
  reader.query('SELECT * FROM notes').all()
  await add(committer, 'UNREAD')
  await committer.close()
  opened = []
  leader.settle()
  const position = readPosition(folder)
  reader.close()
  expect([existsSync(`${path()}-wal`), position?.epoch, Object.keys(position?.wals ?? {})]).toEqual([
    true,
    1,
    ['tassis.db'],
  ])
})
