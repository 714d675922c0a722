import { expect, test } from 'bun:test'
import { createNetworkLimiter } from '#platform/http/rate-limit.ts'
import { hours, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const RATE = { burst: 2, ratePerSecond: 1 }

/** How many of `count` attempts pass, each from another address. */
const passed = (take: (address: string) => { ok: boolean }, count: number, address: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => take(address(index)).ok).filter((ok) => ok).length

test('each IPv4 address has its own rate', () => {
  const { take } = createNetworkLimiter(new ManualClock(), RATE)
  expect([passed(take, 5, () => '192.0.2.1'), passed(take, 5, () => '::ffff:192.0.2.2')]).toEqual([2, 2])
})

// Proves: form-11
test('a /64 has the rate, its /56 four times and its /48 sixteen times as much, whatever other networks do', () => {
  const { take } = createNetworkLimiter(new ManualClock(), RATE)
  const hex = (index: number) => index.toString(16)
  expect({
    one: passed(take, 5, (index) => `2001:db8:0:0::${hex(index)}`),
    sameOfFiftySix: passed(take, 100, (index) => `2001:db8:0:${hex(index + 1)}::1`),
    sameOfFortyEight: passed(take, 100, (index) => `2001:db8:0:${hex((index + 1) * 256)}::1`),
    elsewhere: passed(take, 5, () => '2001:db8:1::1'),
  }).toEqual({ one: 2, sameOfFiftySix: 6, sameOfFortyEight: 24, elsewhere: 2 })
})

test('a refusal says when to retry', () => {
  const clock = new ManualClock()
  const { take } = createNetworkLimiter(clock, RATE)
  expect(passed(take, 2, () => '2001:db8::1')).toBe(2)
  expect(take('2001:db8::2')).toEqual({ ok: false, retryAfterSeconds: 1 })
  clock.advance(seconds(1))
  expect(take('2001:db8::3')).toEqual({ ok: true })
})

test('after a charge over its limit, a /64, /56 or /48 passes nothing until its rate has made up for the excess', () => {
  const clock = new ManualClock()
  const { take, charge } = createNetworkLimiter(clock, { burst: 3_600, ratePerSecond: 1 })
  charge('2001:db8:0:1::1', 3_700)
  expect([take('2001:db8:0:1::2').ok, take('2001:db8:0:2::1').ok]).toEqual([false, true])
  clock.advance(seconds(101))
  expect(take('2001:db8:0:1::2').ok).toBe(true)
  clock.advance(hours(10))
  for (let n = 0; n < 16; n++) charge(`2001:db8:0:${(n * 256).toString(16)}::1`, 3_600)
  expect([take('2001:db8:0:ffff::1').ok, take('2001:db8:1::1').ok]).toEqual([false, true])
})
