/**
 * @module Group commit against a real database file: what a group does when one of its writes, the disk, or the sync
 * fails.
 */
import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCheckpointer } from '#platform/db/checkpoint.ts'
import { Committer, type CommitterOptions } from '#platform/db/commit.ts'
import { openDatabase } from '#platform/db/open.ts'
import { createDiskGuard } from '#platform/disk/disk.ts'
import { AppError } from '#platform/errors.ts'
import { createLog } from '#platform/log/log.ts'
import { MiB } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

let folder = ''
let opened: Committer[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tassis-commit-'))
  opened = []
})

afterEach(async () => {
  for (const committer of opened) await committer.close()
  rmSync(folder, { recursive: true, force: true })
})

/**
 * A committer of a new database with the table `notes`. Its clock stands still unless a test moves it: with the real
 * one, a group would end early on a machine that is busy for 10 ms.
 */
function openCommitter(options: CommitterOptions = {}): Committer {
  const path = join(folder, 'test.db')
  const db = openDatabase(path)
  db.run('CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)')
  const committer = new Committer(db, path, { clock: new ManualClock(0), ...options })
  opened.push(committer)
  return committer
}

const add = (committer: Committer, body: string): Promise<string> =>
  committer.write((tx) => {
    tx.db.run('INSERT INTO notes (body) VALUES (?)', [body])
    return body
  })

const bodies = (db: Database): string[] =>
  db
    .query<{ body: string }, []>('SELECT body FROM notes ORDER BY id')
    .all()
    .map(({ body }) => body)

/** The outcome of each promise: its value, or its error's code. */
const outcomes = async (writes: readonly Promise<string>[]): Promise<{ kept: string[]; refused: unknown[] }> => {
  const settled = await Promise.allSettled(writes)
  return {
    kept: settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])),
    refused: settled.flatMap((one) => (one.status === 'rejected' ? [codeOf(one.reason)] : [])),
  }
}

const codeOf = (error: unknown): unknown => (error instanceof AppError ? `${error.status} ${error.code}` : error)

describe('writes of several owners', () => {
  // Proves: quota-10
  test('get equal time, and those of one owner stay in order', async () => {
    const clock = new ManualClock(0)
    const committer = openCommitter({ clock })
    const order: string[] = []
    const write = (owner: number, name: string, tookMs: number) =>
      committer.write(
        () => {
          order.push(name)
          clock.advance(tookMs)
        },
        { owner },
      )
    await Promise.all([
      ...['d1', 'd2', 'd3', 'd4'].map((name) => write(1, name, 8)),
      ...['c1', 'c2', 'c3', 'c4'].map((name) => write(2, name, 2)),
    ])
    expect(order).toEqual(['d1', 'c1', 'c2', 'c3', 'c4', 'd2', 'd3', 'd4'])
  })

  test.each([1, 4, 20, 100])(
    'leave the service half of the time when %d of them saturate the writer',
    async (owners) => {
      const clock = new ManualClock(0)
      const committer = openCommitter({ clock })
      const order: ('service' | 'owner')[] = []
      const write = (name: 'service' | 'owner', owner?: number) =>
        committer.write(
          () => {
            order.push(name)
            clock.advance(1)
          },
          { owner },
        )
      await Promise.all([
        ...Array.from({ length: 600 }, (_, i) => write('owner', 1 + (i % owners))),
        ...Array.from({ length: 600 }, () => write('service')),
      ])
      const share = order.slice(0, 600).filter((name) => name === 'service').length / 600
      expect(share).toBeGreaterThan(0.45)
    },
  )

  test('end a group after 10 ms, however few they are', async () => {
    const clock = new ManualClock(0)
    const groups: number[] = []
    let inGroup = 0
    const committer = openCommitter({
      clock,
      flush: () => {
        groups.push(inGroup)
        inGroup = 0
      },
    })
    await Promise.all(
      Array.from({ length: 7 }, () =>
        committer.write((tx) => {
          inGroup++
          tx.add('any', 1)
          clock.advance(4)
        }),
      ),
    )
    expect(groups).toEqual([3, 3, 1])
  })

  test('are all on disk after a barrier, for every owner', async () => {
    const clock = new ManualClock(0)
    const committer = openCommitter({ clock })
    for (const owner of [1, 2, undefined])
      for (let i = 0; i < 3; i++)
        void committer.write(
          (tx) => {
            tx.db.run('INSERT INTO notes (body) VALUES (?)', [`${owner} ${i}`])
            clock.advance(20)
          },
          { owner },
        )
    await committer.barrier()
    expect(bodies(committer.db)).toHaveLength(9)
  })
})

describe('a group', () => {
  test('rolls back only the write that throws, and rejects with the same error', async () => {
    const committer = openCommitter()
    const ownError = new Error('mine')
    const failing = committer.write((tx) => {
      tx.db.run("INSERT INTO notes (body) VALUES ('half')")
      throw ownError
    })
    const written = [add(committer, 'before'), failing, add(committer, 'after')]
    expect(await Promise.allSettled(written)).toEqual([
      { status: 'fulfilled', value: 'before' },
      { status: 'rejected', reason: ownError },
      { status: 'fulfilled', value: 'after' },
    ])
    expect(bodies(committer.db)).toEqual(['before', 'after'])
  })

  test('rolls back only the write that violates a constraint', async () => {
    const committer = openCommitter()
    const duplicate = committer.write((tx) => {
      tx.db.run("INSERT INTO notes (id, body) VALUES (7, 'seven')")
      tx.db.run("INSERT INTO notes (id, body) VALUES (7, 'again')")
      return 'both'
    })
    const { kept, refused } = await outcomes([duplicate, add(committer, 'other')])
    expect({ kept, refused: refused.length, stored: bodies(committer.db) }).toEqual({
      kept: ['other'],
      refused: 1,
      stored: ['other'],
    })
  })

  test('advances numbers without gaps and flushes them once, also after a failed write', async () => {
    const stored = new Map([['a', 10]])
    const flushed: [string, number][][] = []
    const committer = openCommitter({
      flush: (_, __, numbers) => {
        flushed.push([...numbers])
        for (const [name, number] of numbers) stored.set(name, number)
      },
    })
    const advance = (name: string, by: number) =>
      committer.write((tx) => tx.advance(name, by, () => stored.get(name) ?? 0))
    const failing = committer.write((tx) => {
      tx.advance('a', 5, () => stored.get('a') ?? 0)
      throw new Error('no')
    })
    const results = Promise.all([advance('a', 1), advance('b', 2), advance('a', 3), advance('a', 0)])
    expect(failing).rejects.toThrow('no')
    expect(await results).toEqual([11, 2, 14, 14])
    expect(flushed).toEqual([
      [
        ['a', 14],
        ['b', 2],
      ],
    ])
    expect(await advance('a', 1)).toBe(15)
  })

  test('sums its counters and flushes them once, without those of a failed write', async () => {
    const flushed: [string, number][][] = []
    const committer = openCommitter({ flush: (_, deltas) => flushed.push([...deltas]) })
    const counting = (delta: number, fault?: Error) =>
      committer.write((tx) => {
        tx.add('mails', delta)
        if (fault) throw fault
      })
    await Promise.allSettled([counting(1), counting(10, new Error('not this')), counting(100)])
    expect(flushed).toEqual([[['mails', 101]]])
  })

  test('runs afterCommit once its write is durable, before the code that awaits the write; never for a failed one', async () => {
    const committer = openCommitter()
    const order: string[] = []
    const kept = committer
      .write((tx) => tx.afterCommit(() => order.push('after')))
      .then(() => {
        order.push('resolved')
      })
    const failed = committer.write((tx) => {
      tx.afterCommit(() => order.push('never'))
      throw new Error('mine')
    })
    await Promise.allSettled([kept, failed])
    expect(order).toEqual(['after', 'resolved'])
  })

  test('stores all of 1000 concurrent writes, in the order of their calls', async () => {
    const committer = openCommitter()
    const wanted = Array.from({ length: 1000 }, (_, number) => `note ${number}`)
    expect(await Promise.all(wanted.map((body) => add(committer, body)))).toEqual(wanted)
    expect(bodies(committer.db)).toEqual(wanted)
  })

  test('does not include writes requested while it runs; they join the next group', async () => {
    const committer = openCommitter()
    let inner: Promise<string> | undefined
    await committer.write((tx) => {
      tx.db.run("INSERT INTO notes (body) VALUES ('outer')")
      inner = add(committer, 'inner')
    })
    expect(await inner).toBe('inner')
    expect(bodies(committer.db)).toEqual(['outer', 'inner'])
  })

  test('has ended before a later barrier resolves', async () => {
    const committer = openCommitter()
    const written = Array.from({ length: 300 }, (_, number) => add(committer, String(number)))
    await committer.barrier()
    expect(bodies(committer.db)).toHaveLength(300)
    await Promise.all(written)
  })
})

describe('a full disk', () => {
  const large = (number: number) => `${number} ${'x'.repeat(20_000)}`

  // Proves: storage-4
  test('refuses with 507 insufficient_storage, keeps what was confirmed, and recovers without a restart', async () => {
    const committer = openCommitter()
    await add(committer, 'before')
    const pages = committer.db.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
    committer.db.run(`PRAGMA max_page_count = ${pages + 40}`)
    const full = await outcomes(Array.from({ length: 60 }, (_, number) => add(committer, large(number))))
    expect(new Set(full.refused)).toEqual(new Set(['507 insufficient_storage']))
    expect(bodies(committer.db)).toEqual(['before', ...full.kept])

    // Each write passes as long as there is space.
    const singly: string[] = []
    for (let number = 100; number < 130; number++) {
      const { kept } = await outcomes([add(committer, large(number))])
      singly.push(...kept)
    }
    expect(bodies(committer.db)).toEqual(['before', ...full.kept, ...singly])
    expect(singly.length).toBeLessThan(30)

    committer.db.run('PRAGMA max_page_count = 1000000')
    expect(await add(committer, 'recovered')).toBe('recovered')
    expect(bodies(committer.db).at(-1)).toBe('recovered')
  })

  test('confirms a small write beside one that does not fit only if it is stored', async () => {
    const committer = openCommitter()
    const pages = committer.db.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
    committer.db.run(`PRAGMA max_page_count = ${pages + 4}`)
    const { kept } = await outcomes([add(committer, 'small'), add(committer, large(1)), add(committer, 'smaller')])
    expect(bodies(committer.db)).toEqual(kept)
  })
})

describe('a failed sync', () => {
  /** A committer that syncs a pipe, which the system refuses. */
  function openUnsyncable(options: CommitterOptions): Committer {
    const db = openDatabase(join(folder, 'real.db'))
    db.run('CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)')
    Bun.spawnSync(['mkfifo', join(folder, 'pipe-wal')])
    const committer = new Committer(db, join(folder, 'pipe'), options)
    opened.push(committer)
    return committer
  }

  test('rejects all waiting and later writes, and is reported once', async () => {
    const reported: Error[] = []
    const committer = openUnsyncable({ onBroken: (error) => reported.push(error) })
    const after: string[] = []
    const watched = committer.write((tx) => {
      tx.afterCommit(() => after.push('ran'))
      return 'watched'
    })
    const first = await outcomes([
      watched,
      ...Array.from({ length: 200 }, (_, number) => add(committer, String(number))),
    ])
    const second = await outcomes([add(committer, 'later')])
    expect({ kept: [...first.kept, ...second.kept], codes: new Set([...first.refused, ...second.refused]) }).toEqual({
      kept: [],
      codes: new Set(['503 storage_failed']),
    })
    expect({ reported: reported.length, after }).toEqual({ reported: 1, after: [] })
  })
})

describe('checkpoints', () => {
  test('keep the write-ahead log small, however slow they are, and lose nothing', async () => {
    const checkpointer = createCheckpointer(createLog('silent'))
    const committer = openCommitter({
      checkpointBytes: 32 * MiB,
      checkpoint: async (path, mode) => {
        // The writers below write more than 32 MiB in this time, unless they are held.
        await Bun.sleep(400)
        await checkpointer.run(path, mode)
      },
    })
    const body = 'x'.repeat(100_000)
    const writes = 2500
    let largestBytes = 0
    let next = 0
    const writer = async () => {
      while (next < writes) {
        next++
        await add(committer, body)
        largestBytes = Math.max(largestBytes, statSync(join(folder, 'test.db-wal')).size)
      }
    }
    await Promise.all(Array.from({ length: 20 }, writer))
    const largestGroupBytes = 4 * MiB
    expect(largestBytes).toBeLessThan(64 * MiB + largestGroupBytes)
    expect(committer.db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM notes').get()?.n).toBe(writes)
    await committer.barrier()
    await committer.close()
    opened = []
    checkpointer.close()
  })

  test('that have begun are awaited by close', async () => {
    const begun = Promise.withResolvers<void>()
    const over = Promise.withResolvers<void>()
    const committer = openCommitter({
      checkpointBytes: 1,
      checkpoint: () => {
        begun.resolve()
        return over.promise
      },
    })
    await add(committer, 'large enough')
    await begun.promise
    let isClosed = false
    const closed = committer.close().then(() => {
      isClosed = true
    })
    opened = []
    // A close that did not wait for the checkpoint would end within these ticks.
    await committer.barrier()
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect(isClosed).toBe(false)
    over.resolve()
    await closed
  })
})

describe('the reserve of the disk', () => {
  const openOnDisk = (freeBytes: () => number, minFreeBytes: number) => {
    const clock = new ManualClock()
    const disk = createDiskGuard({ folder, minFreeBytes, clock, readFreeBytes: async () => freeBytes() })
    return { clock, committer: openCommitter({ disk }) }
  }

  test('is used only by writes that request it, even within one group', async () => {
    const { committer } = openOnDisk(() => 100, 101)
    const finish = committer.writeFromReserve(({ db }) => void db.run("INSERT INTO notes (body) VALUES ('finished')"))
    const { kept, refused } = await outcomes([add(committer, 'new'), add(committer, 'other')])
    await finish
    expect({ kept, refused, bodies: bodies(committer.db) }).toEqual({
      kept: [],
      refused: ['507 insufficient_storage', '507 insufficient_storage'],
      bodies: ['finished'],
    })
  })

  // Proves: storage-5
  test('cannot be used by one write, nor by the writes of one group together', async () => {
    const { committer } = openOnDisk(() => 8 * MiB, 2 * MiB)
    const body = 'x'.repeat(MiB)
    // 6 MiB may be used: once in the WAL, and again when it is copied.
    const { kept, refused } = await outcomes(Array.from({ length: 6 }, () => add(committer, body)))
    expect([kept.length, refused]).toEqual([2, Array(4).fill('507 insufficient_storage')])
    expect((await outcomes([add(committer, 'x'.repeat(4 * MiB))])).refused).toEqual(['507 insufficient_storage'])
    expect(bodies(committer.db)).toHaveLength(2)
  })

  test('accounts for writes since the last query of the system', async () => {
    const { committer } = openOnDisk(() => 8 * MiB, 2 * MiB)
    const body = 'x'.repeat(MiB)
    const results: unknown[] = []
    for (let i = 0; i < 5; i++) results.push(await add(committer, body).then(() => 'kept', codeOf))
    expect(results).toEqual(['kept', 'kept', ...Array(3).fill('507 insufficient_storage')])
  })

  test('is queried again after a second', async () => {
    let free = 0
    const { clock, committer } = openOnDisk(() => free, 1)
    expect((await outcomes([add(committer, 'early')])).refused).toEqual(['507 insufficient_storage'])
    free = MiB
    clock.advance(1000)
    expect((await outcomes([add(committer, 'later')])).kept).toEqual(['later'])
  })
})

describe('a database that another process holds', () => {
  /** Acquires the write lock as another process does: over a separate connection. */
  const lock = (): { release(): void } => {
    const other = new Database(join(folder, 'test.db'))
    other.run('BEGIN IMMEDIATE')
    return {
      release() {
        other.run('ROLLBACK')
        other.close()
      },
    }
  }

  test('makes writes wait without blocking the event loop, and they are stored once it is released', async () => {
    const committer = openCommitter()
    const other = lock()
    const written = [add(committer, 'one'), add(committer, 'two')]
    let isOver = false
    void Promise.allSettled(written).then(() => {
      isOver = true
    })
    // If SQLite waited for the lock, the writes would be refused after the first of these steps.
    for (let step = 0; step < 50; step++) await Bun.sleep(1)
    expect(isOver).toBe(false)
    expect(bodies(committer.db)).toEqual([])
    other.release()
    expect(await Promise.all(written)).toEqual(['one', 'two'])
    expect(bodies(committer.db)).toEqual(['one', 'two'])
  })

  test('refuses writes with 503 storage_unavailable after some seconds, and accepts later ones', async () => {
    const committer = openCommitter()
    const other = lock()
    const began = performance.now()
    const refused = outcomes([add(committer, 'one'), committer.writeFromReserve(() => 'two')])
    expect(await refused).toEqual({ kept: [], refused: ['503 storage_unavailable', '503 storage_unavailable'] })
    expect(performance.now() - began).toBeGreaterThanOrEqual(5000)
    const later = add(committer, 'later')
    other.release()
    expect(await later).toBe('later')
    expect(bodies(committer.db)).toEqual(['later'])
  })
})
