import { expect, test } from 'bun:test'
import { retry, STORAGE_RETRY_MS, StorageRetries } from '#platform/queue/retry.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const settle = () => new Promise((resolve) => setImmediate(resolve))

/** Fails this many times, then returns the number of calls. */
function failing(times: number): () => Promise<number> {
  let calls = 0
  return async () => {
    calls++
    if (calls <= times) throw new Error(`failure ${calls}`)
    return calls
  }
}

test('work is tried again after each delay until it succeeds', async () => {
  const clock = new ManualClock(0)
  const failures: string[] = []
  const result = retry(failing(2), {
    clock,
    delayMs: 100,
    isRetried: (error, count) => failures.push(`${count}: ${(error as Error).message}`) > 0,
  })
  await settle()
  expect(failures).toEqual(['1: failure 1'])
  clock.advance(99)
  await settle()
  expect(failures).toHaveLength(1)
  clock.advance(1)
  await settle()
  clock.advance(100)
  expect(await result).toBe(3)
  expect(failures).toEqual(['1: failure 1', '2: failure 2'])
})

test('an error that is not retried is thrown', async () => {
  const clock = new ManualClock(0)
  const broken = () => {
    throw new Error('broken')
  }
  await expect(retry(broken, { clock, delayMs: 100, isRetried: () => false })).rejects.toThrow('broken')
})

test('work that succeeds immediately has run when retry returns', () => {
  let isDone = false
  void retry(
    () => {
      isDone = true
    },
    { clock: new ManualClock(0), delayMs: 100, isRetried: () => true },
  )
  expect(isDone).toBe(true)
})

test('writes that the storage refuses are counted until the last one is stored', async () => {
  const clock = new ManualClock(0)
  let recovered = 0
  const retries = new StorageRetries(clock, () => recovered++)
  const one = retries.store(failing(1), () => 'storage')
  const two = retries.store(failing(2), () => 'storage')
  await settle()
  expect(retries.refusedCount).toBe(2)
  clock.advance(STORAGE_RETRY_MS)
  expect(await one).toBe(2)
  expect(retries.refusedCount).toBe(1)
  expect(recovered).toBe(0)
  await settle()
  clock.advance(STORAGE_RETRY_MS)
  expect(await two).toBe(3)
  expect(retries.refusedCount).toBe(0)
  expect(recovered).toBe(1)
})

test('a write that fails for its own reason is retried and not counted', async () => {
  const clock = new ManualClock(0)
  let recovered = 0
  const retries = new StorageRetries(clock, () => recovered++)
  const result = retries.store(failing(2), (_, failures) => (failures === 1 ? 'storage' : 'own'))
  await settle()
  expect(retries.refusedCount).toBe(1)
  clock.advance(STORAGE_RETRY_MS)
  await settle()
  expect(retries.refusedCount).toBe(0)
  expect(recovered).toBe(1)
  clock.advance(STORAGE_RETRY_MS)
  expect(await result).toBe(3)
  expect(recovered).toBe(1)
})

test('a write that is given up resolves with undefined and is no longer counted', async () => {
  const clock = new ManualClock(0)
  const retries = new StorageRetries(clock)
  const result = retries.store(failing(9), (_, failures) => (failures < 3 ? 'storage' : 'given-up'))
  for (let i = 0; i < 2; i++) {
    await settle()
    expect(retries.refusedCount).toBe(1)
    clock.advance(STORAGE_RETRY_MS)
  }
  expect(await result).toBe(undefined)
  expect(retries.refusedCount).toBe(0)
})

test('a write that succeeds immediately reports no recovery', async () => {
  let recovered = 0
  const retries = new StorageRetries(new ManualClock(0), () => recovered++)
  expect(await retries.store(failing(0), () => 'storage')).toBe(1)
  expect(recovered).toBe(0)
})
