import { expect, test } from 'bun:test'
import { tmpdir } from 'node:os'
import { createDiskGuard, enoughAfterLow } from '#platform/disk/disk.ts'
import { systemClock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

test('a disk is low when less than the minimum is free', async () => {
  const isLow = (minFreeBytes: number, folder = tmpdir()) =>
    createDiskGuard({ folder, minFreeBytes, clock: systemClock }).isLow()
  expect(await isLow(1)).toBe(false)
  expect(await isLow(Number.MAX_SAFE_INTEGER)).toBe(true)
})

test('a disk that cannot be queried is low, unless no minimum is set', async () => {
  const folder = '/there/is/no/such/folder'
  expect(await createDiskGuard({ folder, minFreeBytes: 1, clock: systemClock }).isLow()).toBe(true)
  expect(await createDiskGuard({ folder, minFreeBytes: 0, clock: systemClock }).isLow()).toBe(false)
})

test('exactly the minimum is enough', async () => {
  const guard = createDiskGuard({ folder: '', minFreeBytes: 100, clock: systemClock, readFreeBytes: async () => 100 })
  expect(await guard.isLow()).toBe(false)
})

test('a result is valid for a second, and concurrent callers share one query', async () => {
  const clock = new ManualClock()
  const pendingQueries: ((freeBytes: number) => void)[] = []
  const guard = createDiskGuard({
    folder: '',
    minFreeBytes: 100,
    clock,
    readFreeBytes: () => new Promise((resolve) => pendingQueries.push(resolve)),
  })
  const waiting = [guard.isLow(), guard.isLow()]
  clock.advance(5000)
  waiting.push(guard.isLow())
  expect(pendingQueries).toHaveLength(1)
  pendingQueries[0]?.(99)
  expect(await Promise.all(waiting)).toEqual([true, true, true])
  clock.advance(999)
  expect(await guard.isLow()).toBe(true)
  expect(pendingQueries).toHaveLength(1)
  clock.advance(1)
  const mended = guard.isLow()
  expect(pendingQueries).toHaveLength(2)
  pendingQueries[1]?.(125)
  expect(await mended).toBe(false)
})

test('bytes written after a query are subtracted until the next one', async () => {
  const clock = new ManualClock()
  let free = 1000
  const guard = createDiskGuard({ folder: '', minFreeBytes: 100, clock, readFreeBytes: async () => free })
  expect(await guard.isLow()).toBe(false)
  expect([guard.hasSpaceFor(900), guard.hasSpaceFor(901)]).toEqual([true, false])
  guard.countWritten(500)
  expect([guard.hasSpaceFor(400), guard.hasSpaceFor(401)]).toEqual([true, false])
  guard.countWritten(401)
  expect(await guard.isLow()).toBe(true)
  free = 125 + 500
  clock.advance(1000)
  expect(await guard.isLow()).toBe(false)
  expect([guard.hasSpaceFor(525), guard.hasSpaceFor(526)]).toEqual([true, false])
})

test('bytes written during a query are subtracted from its result', async () => {
  const pendingQueries: ((freeBytes: number) => void)[] = []
  const freeBytesOf = () => new Promise<number>((resolve) => pendingQueries.push(resolve))
  const guard = createDiskGuard({ folder: '', minFreeBytes: 100, clock: new ManualClock(), readFreeBytes: freeBytesOf })
  guard.countWritten(700)
  const answer = guard.isLow()
  guard.countWritten(30)
  pendingQueries[0]?.(200)
  expect(await answer).toBe(false)
  expect([guard.hasSpaceFor(70), guard.hasSpaceFor(71)]).toEqual([true, false])
})

test('a log counts against the free space, since it is copied before it is emptied; a low disk empties it', async () => {
  const clock = new ManualClock()
  const guard = createDiskGuard({ folder: '', minFreeBytes: 100, clock, readFreeBytes: async () => 3 * MiB })
  const checkpoints: string[] = []
  const writer = (name: string, walBytes: number) => ({
    walBytes,
    checkpoint: async () => void checkpoints.push(name),
  })
  guard.register(writer('large', MiB))
  const unregister = guard.register(writer('larger', 2 * MiB))
  guard.register(writer('small', 1))
  expect(await guard.isLow()).toBe(true)
  expect(checkpoints).toEqual(['large', 'larger'])
  unregister()
  expect(await guard.isLow()).toBe(false)
  expect(guard.hasSpaceFor(2 * MiB - 101)).toBe(true)
  clock.advance(1000)
  await guard.isLow()
  expect(checkpoints).toEqual(['large', 'larger'])
})

test('a change is reported once, with the free space, and at most once a minute', async () => {
  const clock = new ManualClock()
  const changes: unknown[] = []
  let free: number | undefined = 100
  const guard = createDiskGuard({
    folder: '',
    minFreeBytes: 100,
    clock,
    readFreeBytes: async () => free ?? Promise.reject(new Error('no such disk')),
    onChange: (isLow, freeBytes) => changes.push([isLow, freeBytes]),
  })
  const askWith = async (freeBytes: number | undefined, laterMs = 1000) => {
    clock.advance(laterMs)
    free = freeBytes
    await guard.isLow()
  }
  await askWith(100)
  await askWith(99)
  await askWith(98)
  for (let second = 0; second < 57; second++) await askWith(second % 2 === 0 ? 125 : 97)
  expect(changes).toEqual([[true, 99]])
  // A change within the minute is reported at its end.
  await askWith(126)
  await askWith(126)
  expect(changes).toEqual([
    [true, 99],
    [false, 126],
  ])
  await askWith(undefined, 60_000)
  expect(changes.slice(2)).toEqual([[true, undefined]])
})

test('a low disk is low until a quarter of the minimum is free on top, as emptying its log alone does not change', async () => {
  const clock = new ManualClock()
  let freeBytes = 67 * MiB
  const guard = createDiskGuard({ folder: '', minFreeBytes: 64 * MiB, clock, readFreeBytes: async () => freeBytes })
  const log = { walBytes: 4 * MiB, checkpoint: async () => undefined }
  guard.register(log)
  const results: boolean[] = []
  for (const [free, walBytes] of [
    [67, 4],
    [71, 0],
    [67, 4],
    [79, 0],
    [80, 0],
    [70, 4],
  ] as const) {
    clock.advance(1000)
    freeBytes = free * MiB
    log.walBytes = walBytes * MiB
    results.push(await guard.isLow())
  }
  expect(results).toEqual([true, true, true, true, false, false])
  expect([enoughAfterLow(0), enoughAfterLow(1024 * MiB)]).toEqual([0, 1088 * MiB])
})
