import { expect, test } from 'bun:test'
import { TokenBucket } from '#features/sending/delivery/providers/token-bucket.ts'
import { randomBelow } from '#platform/ids.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createPair, instantOf } from '#test/support/pairs.ts'

const CAUSE = { rule: 'r', reason: 'busy' }
const always = () => true

test('a bucket gives no window of its length more than its limit, whenever tokens are taken', () => {
  for (let round = 0; round < 200; round++) {
    const limit = 1 + randomBelow(300)
    const windowMs = 1000
    const bucket = new TokenBucket(limit, windowMs, 0, true)
    let taken: number[] = []
    let now = 0
    for (let step = 0; step < 60; step++) {
      now += randomBelow(step % 7 === 0 ? 1500 : 60)
      const available = bucket.available(now)
      bucket.take(available, now)
      taken = [...taken, ...Array.from({ length: available }, () => now)].filter((at) => at > now - windowMs)
      expect(taken.length).toBeLessThanOrEqual(limit)
    }
  }
})

test('a bucket is used well: over a long time nearly its limit flows', () => {
  for (const limit of [1, 5, 60, 1000]) {
    const bucket = new TokenBucket(limit, 60_000, 0, true)
    let taken = 0
    for (let now = 0; now < 600_000; now += 50) {
      const available = bucket.available(now)
      bucket.take(available, now)
      taken += available
    }
    expect(taken).toBeGreaterThan(limit * 10 * 0.85)
    expect(taken).toBeLessThanOrEqual(limit * 10 + 1)
  }
})

test('a reply that asks for less halves the rate once for all attempts in flight; acceptance restores it in steps', () => {
  const clock = new ManualClock()
  const pair = createPair(clock, { perMinute: 600, connections: 8 })
  const at = () => instantOf(clock)
  const generation = pair.generation
  for (let n = 0; n < 20; n++) pair.slowDown(generation, CAUSE, at())
  expect(pair.state.factor).toBe(1 / 2)
  expect(pair.connections(at())).toBe(4)
  expect(pair.ratePerMinute).toBe(300)
  pair.slowDown(pair.generation, CAUSE, at())
  expect(pair.state.factor).toBe(1 / 4)
  let minutesNeeded = 0
  while (!pair.isNormal && minutesNeeded < 60) {
    clock.advance(minutes(1))
    minutesNeeded++
    for (let n = 0; n < 50; n++) pair.recordSuccess(pair.generation, at())
  }
  expect(minutesNeeded).toBe(4)
  for (let n = 0; n < 100; n++) pair.slowDown(pair.generation, CAUSE, at())
  expect(pair.state.factor).toBe(1 / 64)
  expect(pair.connections(at())).toBe(1)
})

test('a provider without a limit gets the rate that it was seen to refuse', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  expect(pair.allowance(at())).toBe(Number.POSITIVE_INFINITY)
  pair.take(3000, at())
  pair.slowDown(pair.generation, CAUSE, at())
  expect(pair.ratePerMinute).toBe(1500)
  // Nothing at once: the provider has just asked for less.
  expect(pair.allowance(at())).toBe(0)
  clock.advance(seconds(1))
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
    pair.take(1, at())
    expect([pair.allowance(at()), pair.msUntilAllowed(at())]).toEqual([0, undefined])
  }
  expect(periods).toEqual([30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600, 3600])
  expect(pair.recordSuccess(pair.generation, at())).toBe(true)
  expect(pair.state.suspension).toBeUndefined()
  expect(pair.state.factor).toBe(1 / 4)
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
  pair.take(1, at())
  pair.releaseProbe(pair.generation)
  expect(pair.allowance(at())).toBe(1)
})

test('a probe that finds no mail, or that was never claimed, is followed by another one', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  const at = () => instantOf(clock)
  // Claimed before the suspension and never answered.
  pair.take(1, at())
  pair.slots.acquire('1:x.test', 1)
  pair.suspend(pair.generation, { ...CAUSE, durationMs: 0 }, at())
  clock.advance(seconds(30))
  pair.take(0, at())
  pair.giveBack(0, at())
  expect(pair.allowance(at())).toBe(1)
  pair.take(1, at())
  pair.giveBack(1, at())
  expect(pair.allowance(at())).toBe(1)
})

test('a suspension stored under a fast clock counts as ended', () => {
  const clock = new ManualClock()
  const pair = createPair(clock)
  pair.suspend(pair.generation, { ...CAUSE, durationMs: hours(2) }, instantOf(clock))
  clock.jumpTo(clock.now() - hours(48))
  expect(pair.suspendedMs(clock.now())).toBe(0)
})
