import { expect, test } from 'bun:test'
import { MemoryBudget } from '#platform/process/memory-budget.ts'

test('reservations fill the budget to its limit and no further', () => {
  const budget = new MemoryBudget(100)
  expect(budget.reserve(60)).toBeDefined()
  expect(budget.reserve(41)).toBeUndefined()
  expect(budget.reserve(40)).toBeDefined()
  expect(budget.inUseBytes).toBe(100)
})

test('a release returns the bytes only once', () => {
  const budget = new MemoryBudget(100)
  const first = budget.reserve(60)
  budget.reserve(30)
  first?.release()
  first?.release()
  expect(budget.inUseBytes).toBe(30)
})

test('a reservation grows within the limit, always shrinks, and is unusable after its release', () => {
  const budget = new MemoryBudget(100)
  const reservation = budget.reserve(50)
  expect(reservation?.resize(101)).toBe(false)
  expect(budget.inUseBytes).toBe(50)
  expect(reservation?.resize(100)).toBe(true)
  expect(reservation?.resize(10)).toBe(true)
  expect([budget.inUseBytes, reservation?.bytes]).toEqual([10, 10])
  reservation?.release()
  expect(reservation?.resize(5)).toBe(false)
  expect(budget.inUseBytes).toBe(0)
})
