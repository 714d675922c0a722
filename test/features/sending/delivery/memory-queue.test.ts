import { expect, test } from 'bun:test'
import { MemoryQueue } from '#features/sending/delivery/attempt/attempt-starter.ts'
import type { PreparedJob } from '#features/sending/delivery/message/job.ts'
import { MemoryBudget } from '#platform/process/memory-budget.ts'
import { MiB } from '#platform/units.ts'

let ids = 0
/** The first of the email ids that `createJob` assigns when a test sets none; tests set only lower ids. */
const UNNAMED_EMAILS = 1_000_000
/** Accounts above this number are its sub-accounts. */
const SUB_ACCOUNTS = 1000

/** The queue reads only these fields. */
const createJob = (
  sizeBytes: number,
  { accountId = ids, emailId = UNNAMED_EMAILS + ids, isBodyShared = true } = {},
): PreparedJob => ({ sizeBytes, isBodyShared, job: { accountId, emailId, recipientId: ids++ } }) as PreparedJob

/** A queue that records started jobs; bulk mail and the second Worker are marked by the owner's name. */
function startQueue(limitBytes: number) {
  const started: string[] = []
  const memory = new MemoryBudget(limitBytes)
  const queue = new MemoryQueue<string>({
    memory,
    tenantOf: (accountId) => Math.min(accountId, SUB_ACCOUNTS),
    start: (owner) => started.push(owner),
    isBulk: (owner) => owner.startsWith('bulk'),
    workerOf: (owner) => (owner.endsWith('elsewhere') ? 1 : 0),
  })
  const end = (owner: string) => {
    queue.release(owner)
    queue.startWaiting()
  }
  return { queue, memory, started, end }
}

test('large bulk messages get memory after all other large ones, in order of arrival', () => {
  const { queue, started, end } = startQueue(8 * MiB)
  for (const owner of ['first', 'bulk1', 'second', 'bulk2', 'third']) queue.enqueue(owner, createJob(2 * MiB))
  queue.enqueue('small', createJob(1000))
  expect(started).toEqual(['first', 'small'])
  for (const owner of ['first', 'second', 'third', 'bulk1']) end(owner)
  expect(started).toEqual(['first', 'small', 'second', 'third', 'bulk1', 'bulk2'])
})

test('a large message starts immediately when only bulk mail waits and there is memory for it', () => {
  const { queue, started } = startQueue(16 * MiB)
  queue.enqueue('first', createJob(2 * MiB))
  queue.enqueue('bulk', createJob(3 * MiB))
  queue.enqueue('second', createJob(2 * MiB))
  expect(started).toEqual(['first', 'second'])
})

test('accounts take turns for memory, so an account with many large messages delays only its own', () => {
  const { queue, started, end } = startQueue(8 * MiB)
  for (let i = 0; i < 5; i++) queue.enqueue(`many ${i}`, createJob(2 * MiB, { accountId: 1 }))
  queue.enqueue('other', createJob(2 * MiB, { accountId: 2 }))
  expect(started).toEqual(['many 0'])
  end('many 0')
  end(started.at(-1) ?? '')
  expect(started).toContain('other')
})

test('an account that holds an eighth of the memory leaves the rest to others, bulk mail too', () => {
  const { queue, started, end } = startQueue(64 * MiB)
  for (let i = 0; i < 4; i++) queue.enqueue(`slow ${i}`, createJob(2 * MiB, { accountId: 1 }))
  expect(started).toEqual(['slow 0', 'slow 1'])
  queue.enqueue('other', createJob(2 * MiB, { accountId: 2 }))
  queue.enqueue('bulk', createJob(2 * MiB, { accountId: 3 }))
  expect(started).toEqual(['slow 0', 'slow 1', 'other', 'bulk'])
  end('slow 0')
  expect(started.at(-1)).toBe('slow 2')
})

test('sub-accounts of one parent share the memory of one account', () => {
  const { queue, started, end } = startQueue(64 * MiB)
  queue.enqueue('parent', createJob(4 * MiB, { accountId: SUB_ACCOUNTS }))
  queue.enqueue('sub 1', createJob(4 * MiB, { accountId: SUB_ACCOUNTS + 1 }))
  queue.enqueue('sub 2', createJob(4 * MiB, { accountId: SUB_ACCOUNTS + 2 }))
  queue.enqueue('other', createJob(4 * MiB, { accountId: 1 }))
  expect(started).toEqual(['parent', 'other'])
  end('parent')
  expect(started).toEqual(['parent', 'other', 'sub 1'])
})

test('a started job blocks jobs that wait for its memory: of other accounts, or of its own', () => {
  const { queue } = startQueue(16 * MiB)
  const inTheWay = (owner: string) => [queue.isBlockingOthers(owner), queue.isBlockingOwn(owner)]
  for (let account = 1; account <= 3; account++)
    queue.enqueue(`a${account}`, createJob(1 * MiB, { accountId: account }))
  queue.enqueue('small', createJob(1000, { accountId: 3 }))
  expect([queue.hasWaiting, ...['a1', 'a2', 'a3', 'small'].map(inTheWay)]).toEqual([
    false,
    ...Array(4).fill([false, false]),
  ])
  // Its account is at its limit, so it blocks no other.
  queue.enqueue('a1 again', createJob(1 * MiB, { accountId: 1 }))
  expect([queue.hasWaiting, ...['a1', 'a2', 'a3'].map(inTheWay)]).toEqual([
    true,
    [false, true],
    [false, false],
    [false, false],
  ])
  queue.enqueue('bulk other', createJob(2 * MiB, { accountId: 4 }))
  expect(['a1', 'a2', 'a3', 'small', 'a1 again'].map(inTheWay)).toEqual([
    [true, true],
    [true, false],
    [true, false],
    [false, false],
    [false, false],
  ])
})

test('a body is not kept in memory for more recipients while other mail waits for its memory', () => {
  const { queue, started, end } = startQueue(16 * MiB)
  const email = { accountId: 1, emailId: 7 }
  queue.enqueue('first', createJob(3 * MiB, email))
  queue.enqueue('other', createJob(3 * MiB, { accountId: 2 }))
  queue.enqueue('second', createJob(3 * MiB, email))
  expect(started).toEqual(['first'])
  end('first')
  expect(started).toEqual(['first', 'other'])
  queue.enqueue('third', createJob(3 * MiB, email))
  end('other')
  expect(started).toEqual(['first', 'other', 'second', 'third'])
})

test('deliveries use at most half of the memory, unless a single message needs more', () => {
  const { queue, started, memory } = startQueue(16 * MiB)
  for (let account = 1; account <= 5; account++)
    queue.enqueue(`a${account}`, createJob(1 * MiB, { accountId: account }))
  expect([started.length, memory.inUseBytes]).toEqual([4, 8 * MiB])
  const alone = startQueue(16 * MiB)
  alone.queue.enqueue('huge', createJob(40 * MiB))
  expect(alone.started).toEqual(['huge'])
})

test('recipients of one email share its memory in each Worker, and the last of them releases it', () => {
  const { queue, started, memory, end } = startQueue(64 * MiB)
  const email = { accountId: 1, emailId: 7 }
  const job = () => createJob(4 * MiB, email)
  queue.enqueue('holds', createJob(4 * MiB, { accountId: 1 }))
  for (const owner of ['a', 'b', 'c elsewhere']) queue.enqueue(owner, job())
  expect(started).toEqual(['holds'])
  end('holds')
  expect([started, memory.inUseBytes]).toEqual([['holds', 'a', 'b'], 8 * MiB])
  queue.enqueue('d', job())
  expect([started.at(-1), memory.inUseBytes]).toEqual(['d', 8 * MiB])
  for (const owner of ['a', 'b', 'd']) {
    expect([queue.hasWaiting, started.includes('c elsewhere')]).toEqual([true, false])
    end(owner)
  }
  expect([started.at(-1), memory.inUseBytes]).toEqual(['c elsewhere', 8 * MiB])
  end('c elsewhere')
  expect(memory.inUseBytes).toBe(0)
})

test('recipients with their own bodies use memory each', () => {
  const { queue, memory } = startQueue(64 * MiB)
  const email = { accountId: 1, emailId: 7, isBodyShared: false }
  queue.enqueue('a', createJob(2 * MiB, email))
  queue.enqueue('b', createJob(2 * MiB, email))
  expect(memory.inUseBytes).toBe(8 * MiB)
})
