import { describe, expect, test } from 'bun:test'
import { createConnectionLimit, createMessageRate, networkOf } from '#features/inbound/ip-limits.ts'
import { ManualClock } from '#platform/clock.ts'
import { minutes, seconds } from '#platform/units.ts'

describe('the network that an address is counted under', () => {
  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:2::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ])('%s', (address, expected) => {
    expect(networkOf(address)).toBe(expected)
  })
})

describe('connections', () => {
  test('of one network are refused before those of all, and a place is free when one leaves', () => {
    const limit = createConnectionLimit(3, 2)
    const answers = [limit.enter('a'), limit.enter('a'), limit.enter('a'), limit.enter('b'), limit.enter('b')]
    limit.leave('a')
    answers.push(limit.enter('c'), limit.enter('a'))
    expect({ answers, open: limit.open }).toEqual({
      answers: [undefined, undefined, 'network', undefined, 'all', undefined, 'all'],
      open: 3,
    })
  })
})

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
