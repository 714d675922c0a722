import { expect, test } from 'bun:test'
import { backoffDelayMs } from '#platform/queue/backoff.ts'

const delays = { minMs: 100, maxMs: 1000 }

test('each failure doubles the delay, up to the limit', () => {
  expect([1, 2, 3, 4, 5, 6].map((failures) => backoffDelayMs(failures, delays))).toEqual([
    100, 200, 400, 800, 1000, 1000,
  ])
})

test('no failure means no delay', () => {
  expect(backoffDelayMs(0, delays)).toBe(0)
  expect(backoffDelayMs(-3, delays)).toBe(0)
})

test('any number of failures stays at the limit', () => {
  expect(backoffDelayMs(5000, delays)).toBe(1000)
})
