import { expect, test } from 'bun:test'
import { findPairAction } from '#features/sending/delivery/attempt/attempt-results.ts'
import { TokenBucket } from '#features/sending/delivery/providers/limits.ts'
import { randomBelow } from '#platform/ids.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createPair, instantOf } from '#test/support/pairs.ts'

const CAUSE = { rule: 'r', reason: 'busy' }
const always = () => true

test('a bucket gives no window of its length more than its limit, whenever tokens are taken', () => {
  for (let round = 0; round < 60; round++) {
    const limit = 1 + randomBelow(300)
    const windowMs = 1000
    const bucket = new TokenBucket(limit, windowMs, 0, true)
    let taken: number[] = []
    let now = 0
    // Bursts after pauses; and, for windows, a flow with hardly any pause, until the next one.
    const isSteady = round % 2 === 0
    for (let step = 0; step < 200; step++) {
      now += isSteady && step % 50 !== 0 ? randomBelow(40) : randomBelow(step % 7 === 0 ? 1500 : 60)
      const available = bucket.available(now)
      bucket.take(available, now)
      taken = [...taken, ...Array.from({ length: available }, () => now)].filter((at) => at > now - windowMs)
      expect(taken.length).toBeLessThanOrEqual(limit)
    }
  }
})

test('a bucket is used well: nine tenths of its limit flow, also after its first window', () => {
  for (const [limit, fraction] of [
    [1, 1],
    [5, 1],
    [60, 0.9],
    [1000, 0.9],
  ] as const) {
    const bucket = new TokenBucket(limit, 60_000, 0, true)
    let taken = 0
    const take = (until: number) => {
      for (let now = until - 600_000; now < until; now += 50) {
        const available = bucket.available(now)
        bucket.take(available, now)
        taken += available
      }
    }
    take(600_000)
    expect(taken).toBeGreaterThanOrEqual(limit * 10 * (fraction - 0.01))
    taken = 0
    take(1_200_000)
    expect(taken).toBeGreaterThanOrEqual(limit * 10 * fraction)
    expect(taken).toBeLessThanOrEqual(limit * 10 + 1)
  }
})

test('a bucket says when its next token comes', () => {
  for (const limit of [1, 5, 60, 1000]) {
    const bucket = new TokenBucket(limit, 60_000, 0, true)
    for (let now = 0; now < 300_000; ) {
      bucket.take(bucket.available(now), now)
      const waitMs = bucket.msUntilToken(now)
      expect(bucket.available(now + waitMs - 2)).toBe(0)
      expect(bucket.available(now + waitMs)).toBe(1)
      now += waitMs
    }
  }
})

test('a reply that asks for less halves the rate, once a minute; nothing begins for 15 s after it', () => {
  const clock = new ManualClock()
  const pair = createPair(clock, { perMinute: 600, connections: 8 })
  const at = () => instantOf(clock)
  const generation = pair.generation
  for (let n = 0; n < 20; n++) pair.slowDown(generation, CAUSE, at())
  expect(pair.state.factor).toBe(1 / 2)
  expect(pair.connections(at())).toBe(4)
  expect(pair.ratePerMinute).toBe(300)
  clock.advance(seconds(15))
  expect(pair.allowance(at())).toBe(0)
  clock.advance(seconds(1))
  expect(pair.allowance(at())).toBeGreaterThan(0)
  // The window of the receiver is still full.
  pair.slowDown(pair.generation, CAUSE, at())
  expect([pair.ratePerMinute, pair.allowance(at())]).toEqual([300, 0])
  clock.advance(minutes(1))
  pair.slowDown(pair.generation, CAUSE, at())
  expect(pair.ratePerMinute).toBe(150)
  for (let n = 0; n < 10; n++) {
    clock.advance(minutes(1))
    pair.slowDown(pair.generation, CAUSE, at())
  }
  expect(pair.state.factor).toBe(1 / 64)
  expect(pair.connections(at())).toBe(1)
})

test('a rate recovers fast to a tenth below the one that was rejected, then carefully beyond it, and fast again', () => {
  const clock = new ManualClock()
  const pair = createPair(clock, { perMinute: 600 })
  const at = () => instantOf(clock)
  for (let n = 0; n < 2; n++) {
    pair.slowDown(pair.generation, CAUSE, at())
    clock.advance(minutes(2))
  }
  // 300 was rejected last.
  expect(pair.ratePerMinute).toBe(150)
  const rates = Array.from({ length: 16 }, () => {
    for (let n = 0; n < 50; n++) pair.recordSuccess(pair.generation, at())
    clock.advance(minutes(1))
    return Math.round(pair.ratePerMinute)
  })
  expect(rates).toEqual([225, ...Array.from({ length: 10 }, () => 270), 311, 466, 600, 600, 600])
  expect(pair.isNormal).toBe(true)
})

test.each([7, 66, 300])(
  'over twelve hours, a receiver with a limit of %d a minute that we do not know gets 80 percent of it, with few rejections',
  (limit) => {
    const clock = new ManualClock()
    const pair = createPair(clock, { connections: 10 })
    const at = () => instantOf(clock)
    let window: number[] = []
    let accepted = 0
    let rejected = 0
    for (const endAt = clock.now() + hours(12); clock.now() < endAt; clock.advance(seconds(1))) {
      const generation = pair.generation
      const count = Math.min(pair.allowance(at()), pair.connections(at()) * 5)
      pair.acquire(count, at())
      window = window.filter((time) => time > clock.now() - minutes(1))
      for (let n = 0; n < count; n++) {
        if (window.length < limit) {
          window.push(clock.now())
          accepted++
          pair.recordSuccess(generation, at())
        } else {
          rejected++
          pair.slowDown(generation, CAUSE, at())
        }
      }
    }
    expect(accepted).toBeGreaterThan(limit * 60 * 12 * 0.8)
    expect(rejected).toBeLessThan(250)
  },
)

test('a provider without a limit gets the rate that it was seen to refuse', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  expect(pair.allowance(at())).toBe(Number.POSITIVE_INFINITY)
  pair.acquire(3000, at())
  pair.slowDown(pair.generation, CAUSE, at())
  expect(pair.ratePerMinute).toBe(1500)
  // Nothing at once: the provider has just asked for less.
  expect(pair.allowance(at())).toBe(0)
  clock.advance(seconds(16))
  expect(pair.allowance(at())).toBeGreaterThan(15)
})

test('a suspension ends with one probe: rejected, it lasts twice as long, at most an hour; accepted, it is lifted', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  const periods: number[] = []
  for (let n = 0; n < 12; n++) {
    expect(pair.suspend(pair.generation, { ...CAUSE, durationMs: 0 }, at())).toBe(true)
    expect([pair.allowance(at()), pair.connections(at())]).toEqual([0, 0])
    periods.push(pair.suspendedMs(clock.now()) / seconds(1))
    clock.advance(pair.suspendedMs(clock.now()))
    expect([1, 2].map((owner) => pair.freeFor(owner, 'normal', at(), always))).toEqual([1, 1])
    pair.acquire(1, at())
    expect([pair.allowance(at()), pair.msUntilAllowed(at())]).toEqual([0, undefined])
  }
  expect(periods).toEqual([30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600, 3600])
  expect(pair.recordSuccess(pair.generation, at())).toBe(true)
  expect(pair.state.suspension).toBeUndefined()
  expect(pair.state.factor).toBe(1 / 4)
})

test('a probe whose session is lost is as good as rejected; without a suspension it says nothing', () => {
  const lost = { kind: 'lost', phase: 'mail', failure: { kind: 'closed', message: 'Closed' } } as const
  const kinds = [true, false].map((isProbe) => findPairAction(lost, undefined, isProbe)?.kind)
  expect(kinds).toEqual(['suspend_provider', undefined])
})

test('what was in flight when a suspension began neither lifts it nor lengthens it', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  const before = pair.generation
  pair.suspend(before, { ...CAUSE, durationMs: minutes(10) }, at())
  expect(pair.recordSuccess(before, at())).toBe(false)
  expect(pair.suspend(before, { ...CAUSE, durationMs: minutes(10) }, at())).toBe(false)
  expect(pair.suspendedMs(clock.now())).toBe(minutes(10))
})

test('a probe that says nothing is followed by another one', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  pair.suspend(pair.generation, { ...CAUSE, durationMs: 0 }, at())
  clock.advance(seconds(30))
  pair.acquire(1, at())
  pair.releaseProbe(pair.generation)
  expect(pair.allowance(at())).toBe(1)
})

test('a probe that finds no mail, or that was never claimed, is followed by another one', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  // Claimed before the suspension and never answered.
  pair.acquire(1, at())
  pair.slots.acquire('1:x.test', 1)
  pair.suspend(pair.generation, { ...CAUSE, durationMs: 0 }, at())
  clock.advance(seconds(30))
  pair.acquire(0, at())
  pair.release(0, at())
  expect(pair.allowance(at())).toBe(1)
  pair.acquire(1, at())
  pair.release(1, at())
  expect(pair.allowance(at())).toBe(1)
})

test('a suspension stored under a fast clock counts as ended', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  pair.suspend(pair.generation, { ...CAUSE, durationMs: hours(2) }, instantOf(clock))
  clock.jumpTo(clock.now() - hours(48))
  expect(pair.suspendedMs(clock.now())).toBe(0)
})
