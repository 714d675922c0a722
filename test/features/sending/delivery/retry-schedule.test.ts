import { expect, test } from 'bun:test'
import { computeMaxAttempts, computeRetryDelayMs, isExpired } from '#features/sending/delivery/retry-schedule.ts'
import { hours, minutes } from '#platform/units.ts'

// Proves: delivery-15
test('the schedule begins at 5 minutes, doubles, and stays at 8 hours', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 9, 50].map((attempt) => computeRetryDelayMs(attempt, 0))).toEqual([
    minutes(5),
    minutes(10),
    minutes(20),
    minutes(40),
    hours(1),
    hours(2),
    hours(4),
    hours(8),
    hours(8),
    hours(8),
  ])
})

test('jitter only lengthens a delay, by at most a tenth', () => {
  expect(computeRetryDelayMs(1, 0.999)).toBeGreaterThan(minutes(5))
  expect(computeRetryDelayMs(1, 0.999)).toBeLessThanOrEqual(minutes(5.5))
})

// Proves: email-18
test('max_attempts counts the attempts until expiry', () => {
  // At 0, 5, 15, 35, 75 minutes, then 2:15, 4:15, 8:15, 16:15, 24:15, 32:15, 40:15 and, as the last, 48:15 hours.
  expect(computeMaxAttempts(48)).toBe(13)
  expect(computeMaxAttempts(1)).toBe(5)
})

test('a message expires when its age reaches the limit, not before', () => {
  expect(isExpired(0, hours(48) - 1, 50, 48)).toBe(false)
  expect(isExpired(0, hours(48), 12, 48)).toBe(true)
})
