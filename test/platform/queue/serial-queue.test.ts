import { expect, test } from 'bun:test'
import { SerialQueue } from '#platform/queue/serial-queue.ts'

test('tasks of one owner run one after the other, in order of arrival', async () => {
  const queue = new SerialQueue<string>()
  const log: string[] = []
  const first = Promise.withResolvers<void>()
  const tasks = [
    queue.run('a', async () => {
      log.push('first begins')
      await first.promise
      log.push('first ends')
    }),
    queue.run('a', async () => void log.push('second')),
    queue.run('a', async () => void log.push('third')),
  ]
  await Bun.sleep(1)
  expect(log).toEqual(['first begins'])
  expect(queue.countOf('a')).toBe(3)
  first.resolve()
  await Promise.all(tasks)
  expect(log).toEqual(['first begins', 'first ends', 'second', 'third'])
  expect(queue.countOf('a')).toBe(0)
})

test('a task does not wait for those of other owners', async () => {
  const queue = new SerialQueue<number>()
  void queue.run(1, () => new Promise(() => undefined))
  expect(await queue.run(2, async () => 'done')).toBe('done')
  expect(queue.countOf(1)).toBe(1)
})

test('a task that fails rejects its own call, and the next one runs', async () => {
  const queue = new SerialQueue<number>()
  const failed = queue.run(1, () => Promise.reject(new Error('broken')))
  const next = queue.run(1, async () => 'done')
  await expect(failed).rejects.toThrow('broken')
  expect(await next).toBe('done')
  expect(queue.countOf(1)).toBe(0)
})

test('a task that throws before its first await rejects like any other', async () => {
  const queue = new SerialQueue<number>()
  const failed = queue.run(1, () => {
    throw new Error('broken')
  })
  await expect(failed).rejects.toThrow('broken')
  expect(await queue.run(1, async () => 'done')).toBe('done')
})
