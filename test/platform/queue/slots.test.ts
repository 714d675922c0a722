import { expect, test } from 'bun:test'
import { Slots } from '#platform/queue/slots.ts'

const never = new AbortController().signal
const settle = () => new Promise((resolve) => setImmediate(resolve))

/** Starts tasks that a test ends by name. */
function startTasks(slots: Slots, signal = never) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const start = (name: string): Promise<string | undefined> =>
    slots.run(signal, async () => {
      begun.push(name)
      await new Promise<void>((resolve) => ends.set(name, resolve))
      return name
    })
  return { begun, start, end: (name: string) => ends.get(name)?.() }
}

test('no more tasks than the limit run concurrently, and the others start in order of arrival', async () => {
  const slots = new Slots(2)
  const { begun, start, end } = startTasks(slots)
  const tasks = ['a', 'b', 'c', 'd'].map(start)
  await settle()
  expect(begun).toEqual(['a', 'b'])
  end('b')
  await settle()
  expect(begun).toEqual(['a', 'b', 'c'])
  for (const name of ['a', 'c']) end(name)
  await settle()
  end('d')
  expect(await Promise.all(tasks)).toEqual(['a', 'b', 'c', 'd'])
  expect(slots.isIdle).toBe(true)
})

test('a failing task frees its slot and rejects its call', async () => {
  const slots = new Slots(1)
  const failed = slots.run(never, () => Promise.reject(new Error('broken')))
  const next = slots.run(never, async () => 'next')
  await expect(failed).rejects.toThrow('broken')
  expect(await next).toBe('next')
  expect(slots.isIdle).toBe(true)
})

test('a task aborted while it waits never runs, and the next one takes its turn', async () => {
  const slots = new Slots(1)
  const aborting = new AbortController()
  const { begun, start, end } = startTasks(slots)
  void start('a')
  const left = slots.run(aborting.signal, async () => 'never')
  const next = slots.run(never, async () => 'next')
  aborting.abort()
  expect(await left).toBe(undefined)
  expect(await slots.run(aborting.signal, async () => 'never')).toBe(undefined)
  end('a')
  expect(await next).toBe('next')
  expect(begun).toEqual(['a'])
})

test('an abort after a task has begun has no effect', async () => {
  const slots = new Slots(1)
  const aborting = new AbortController()
  const { start, end } = startTasks(slots, aborting.signal)
  const tasks = [start('a'), start('b')]
  await settle()
  end('a')
  await settle()
  aborting.abort()
  end('b')
  expect(await Promise.all(tasks)).toEqual(['a', 'b'])
  expect(slots.isIdle).toBe(true)
})

test('a task is not run when too many wait', async () => {
  const slots = new Slots(1, 1)
  const { begun, start, end } = startTasks(slots)
  const tasks = ['a', 'b', 'c'].map(start)
  expect(await tasks[2]).toBe(undefined)
  end('a')
  await settle()
  end('b')
  await Promise.all(tasks)
  expect(begun).toEqual(['a', 'b'])
})
