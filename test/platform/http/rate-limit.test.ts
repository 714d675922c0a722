import { expect, test } from 'bun:test'
import { createRateLimiter } from '#platform/http/rate-limit.ts'
import { seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const RATE = { ratePerSecond: 2, burst: 4 }

// Proves: quota-7
test('a burst passes, then the refill rate', () => {
  const clock = new ManualClock()
  const limiter = createRateLimiter(clock)
  const taken = () => limiter.take('account', 1, RATE).ok
  expect([taken(), taken(), taken(), taken(), taken()]).toEqual([true, true, true, true, false])
  clock.advance(500)
  expect([taken(), taken()]).toEqual([true, false])
  clock.advance(seconds(3600))
  expect([taken(), taken(), taken(), taken(), taken()]).toEqual([true, true, true, true, false])
})

test('a refusal takes no tokens and says when the same request would pass', () => {
  const clock = new ManualClock()
  const limiter = createRateLimiter(clock)
  limiter.take('account', 4, RATE)
  expect(limiter.take('account', 4, RATE)).toEqual({ ok: false, retryAfterSeconds: 2 })
  expect(limiter.take('account', 1, RATE)).toEqual({ ok: false, retryAfterSeconds: 1 })
  clock.advance(seconds(2))
  expect(limiter.take('account', 4, RATE)).toMatchObject({ ok: true })
})

test('accounts do not share tokens', () => {
  const limiter = createRateLimiter(new ManualClock())
  limiter.take('one', 4, RATE)
  expect(limiter.take('two', 4, RATE)).toMatchObject({ ok: true })
})

test('a count above the burst passes with a full bucket, and the excess delays the next request', () => {
  const clock = new ManualClock()
  const limiter = createRateLimiter(clock)
  expect(limiter.take('account', 10, RATE)).toMatchObject({ ok: true })
  expect(limiter.take('account', 1, RATE)).toEqual({ ok: false, retryAfterSeconds: 4 })
  clock.advance(seconds(4))
  expect(limiter.take('account', 1, RATE)).toMatchObject({ ok: true })
})

test('a clock that runs backwards neither adds tokens nor takes any permanently', () => {
  const clock = new ManualClock(10_000)
  const limiter = createRateLimiter(clock)
  limiter.take('account', 4, RATE)
  clock.jumpTo(0)
  expect(limiter.take('account', 1, RATE).ok).toBe(false)
  clock.advance(500)
  expect(limiter.take('account', 1, RATE).ok).toBe(true)
})

test('the number of keys is limited; the least recently used is evicted', () => {
  const clock = new ManualClock()
  const limiter = createRateLimiter(clock, 3)
  limiter.take('used again', 4, RATE)
  limiter.take('oldest', 4, RATE)
  limiter.take('used again', 1, RATE)
  limiter.take('other', 4, RATE)
  limiter.take('new', 1, RATE)
  expect(limiter.size).toBe(3)
  expect(limiter.take('used again', 1, RATE).ok).toBe(false)
  expect(limiter.take('oldest', 4, RATE).ok).toBe(true)
  for (let i = 0; i < 1000; i++) limiter.take(`key ${i}`, 1, RATE)
  expect(limiter.size).toBe(3)
})
