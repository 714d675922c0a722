import { expect, test } from 'bun:test'
import { Counts } from '#platform/queue/counts.ts'

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
