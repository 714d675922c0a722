import { expect, test } from 'bun:test'
import type { PreparedJob } from '#features/delivery/job.ts'
import { MemoryQueue } from '#features/delivery/memory-queue.ts'
import { MemoryBudget } from '#platform/memory-budget.ts'

const MiB = 1024 * 1024

/** Only the size counts. */
const ofSize = (sizeBytes: number): PreparedJob => ({ sizeBytes }) as PreparedJob

test('large bulk messages have memory after all other large ones, in the order of their coming', () => {
  const started: string[] = []
  const queue = new MemoryQueue<string>(
    new MemoryBudget(8 * MiB),
    (owner) => started.push(owner),
    (owner) => owner.startsWith('bulk'),
  )
  for (const owner of ['first', 'bulk1', 'second', 'bulk2', 'third']) queue.enter(owner, ofSize(2 * MiB))
  queue.enter('small', ofSize(1000))
  expect(started).toEqual(['first', 'small'])
  for (const owner of ['first', 'second', 'third', 'bulk1']) {
    queue.release(owner)
    queue.startWaiting()
  }
  expect(started).toEqual(['first', 'small', 'second', 'third', 'bulk1', 'bulk2'])
})

test('a large message that finds only bulk mail waiting for memory is started at once if there is memory for it', () => {
  const started: string[] = []
  const queue = new MemoryQueue<string>(
    new MemoryBudget(16 * MiB),
    (owner) => started.push(owner),
    (owner) => owner.startsWith('bulk'),
  )
  queue.enter('first', ofSize(2 * MiB))
  queue.enter('bulk', ofSize(3 * MiB))
  queue.enter('second', ofSize(2 * MiB))
  expect(started).toEqual(['first', 'second'])
})
