import { expect, test } from 'bun:test'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { Counts } from '#platform/queue/counts.ts'
import { RoundRobin } from '#platform/queue/round-robin.ts'

const drain = (queue: RoundRobin<string>, isServable?: (owner: number) => boolean): string[] => {
  const items: string[] = []
  for (let next = queue.shift(isServable); next; next = queue.shift(isServable)) items.push(next.item)
  return items
}

test('owners take turns, one item each time, in order of arrival', () => {
  const queue = new RoundRobin<string>()
  for (const item of ['a1', 'a2', 'a3']) queue.add(1, item)
  for (const item of ['b1', 'b2']) queue.add(2, item)
  queue.add(3, 'c1')
  expect(queue.all()).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'c1'])
  expect([1, 2, 3, 4].map((owner) => queue.countOf(owner))).toEqual([3, 2, 1, 0])
  expect(drain(queue)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  expect(queue.size).toBe(0)
})

test('removing an item returns its owner', () => {
  const queue = new RoundRobin<string>()
  queue.add(7, 'a')
  queue.add(8, 'b')
  expect(queue.shift()).toEqual({ owner: 7, item: 'a' })
  expect(queue.delete('b')).toBe(8)
  expect(queue.delete('b')).toBe(undefined)
  expect(queue.shift()).toBe(undefined)
})

test('an owner that cannot be served keeps its turn', () => {
  const queue = new RoundRobin<string>()
  for (const item of ['a1', 'a2']) queue.add(1, item)
  for (const item of ['b1', 'b2']) queue.add(2, item)
  expect(queue.shift((owner) => owner !== 1)?.item).toBe('b1')
  expect(drain(queue)).toEqual(['a1', 'b2', 'a2'])
})

test('an item waits once, even if it is added again', () => {
  const queue = new RoundRobin<string>()
  expect(queue.add(1, 'a')).toBe(true)
  expect(queue.add(2, 'a')).toBe(false)
  expect(queue.has('a')).toBe(true)
  expect(queue.size).toBe(1)
  expect(drain(queue)).toEqual(['a'])
  expect(queue.has('a')).toBe(false)
})

test('an owner is listed while its count is not zero', () => {
  const counts = new Counts<string>()
  counts.add('a', 2)
  counts.add('b', 1)
  counts.add('a', -1)
  counts.add('b', -1)
  expect([counts.of('a'), counts.of('b'), counts.of('c')]).toEqual([1, 0, 0])
  expect([...counts.keys()]).toEqual(['a'])
  expect([...counts]).toEqual([['a', 1]])
  expect(counts.size).toBe(1)
  expect(counts.total).toBe(1)
})

test('each failure doubles the delay, up to the limit', () => {
  const delays = { minMs: 100, maxMs: 1000 }
  expect([-3, 0, 1, 2, 3, 4, 5, 5000].map((failures) => backoffDelayMs(failures, delays))).toEqual([
    0, 0, 100, 200, 400, 800, 1000, 1000,
  ])
})
