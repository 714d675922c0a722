import { expect, test } from 'bun:test'
import {
  computeMaxAttempts,
  computeRetryDelayMs,
  isExpired,
} from '#features/sending/delivery/verdict/retry-schedule.ts'
import { hours, minutes } from '#platform/units.ts'

// Proves: delivery-15
test('the schedule begins at a minute, grows, and stays at 8 hours', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 9, 50].map((attempt) => computeRetryDelayMs(attempt, 0))).toEqual([
    minutes(1),
    minutes(5),
    minutes(15),
    minutes(30),
    hours(1),
    hours(2),
    hours(4),
    hours(8),
    hours(8),
    hours(8),
  ])
})

test('jitter only lengthens a delay, by at most a tenth', () => {
  expect(computeRetryDelayMs(1, 0.999)).toBeGreaterThan(minutes(1))
  expect(computeRetryDelayMs(1, 0.999)).toBeLessThanOrEqual(minutes(1.1))
})

// Proves: email-18
test('max_attempts counts the attempts until expiry', () => {
  // At 0, 1, 6, 21, 51 minutes, then 1:51, 3:51, 7:51, 15:51, 23:51, 31:51, 39:51, 47:51 and, as the last, 55:51 hours.
  expect(computeMaxAttempts(48)).toBe(14)
  expect(computeMaxAttempts(1)).toBe(6)
})

test('a message expires when its age reaches the limit, not before', () => {
  expect(isExpired(0, hours(48) - 1, 50, 48)).toBe(false)
  expect(isExpired(0, hours(48), 12, 48)).toBe(true)
})
