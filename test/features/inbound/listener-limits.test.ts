import { describe, expect, test } from 'bun:test'
import { createMessageRate, createOctetRate } from '#features/inbound/ip-limits.ts'
import { ManualClock } from '#platform/clock.ts'
import { hours, minutes, seconds } from '#platform/units.ts'

describe('messages', () => {
  test('of a network come as many as allowed at once, then as many again within a minute', () => {
    const clock = new ManualClock()
    const rate = createMessageRate(3, clock)
    const take = (count: number) => Array.from({ length: count }, () => rate.take('a')).filter(Boolean).length
    const atOnce = take(5)
    clock.advance(seconds(20))
    const afterTwentySeconds = take(5)
    clock.advance(minutes(10))
    const afterALongTime = take(5)
    expect({ atOnce, afterTwentySeconds, afterALongTime, another: rate.take('b') }).toEqual({
      atOnce: 3,
      afterTwentySeconds: 1,
      afterALongTime: 3,
      another: true,
    })
  })

  test('of ever new networks fill no memory, and those that were told to wait are not forgotten first', () => {
    const clock = new ManualClock()
    const rate = createMessageRate(2, clock)
    for (let i = 0; i < 49_999; i++) rate.take(`early ${i}`)
    clock.advance(minutes(1))
    rate.take('a')
    rate.take('a')
    for (let i = 0; i < 1_000; i++) rate.take(`late ${i}`)
    expect(rate.take('a')).toBe(false)
  })
})

describe('octets', () => {
  test('of a network are too many when as many have come as allowed; what came beyond has to be waited for as well', () => {
    const clock = new ManualClock()
    const rate = createOctetRate(3_600, clock)
    const before = rate.hasLeft('a')
    rate.spend('a', 3_500)
    rate.spend('a', 99)
    const withOneLeft = rate.hasLeft('a')
    rate.spend('a', 101)
    const hasLeft = [before, withOneLeft, rate.hasLeft('a'), rate.hasLeft('b')]
    clock.advance(seconds(100))
    hasLeft.push(rate.hasLeft('a'))
    clock.advance(seconds(1))
    hasLeft.push(rate.hasLeft('a'))
    expect(hasLeft).toEqual([true, true, false, true, false, true])
  })

  test('that do not come are not saved up', () => {
    const clock = new ManualClock()
    const rate = createOctetRate(3_600, clock)
    rate.spend('a', 1)
    clock.advance(hours(10))
    rate.spend('a', 3_600)
    expect(rate.hasLeft('a')).toBe(false)
  })
})
