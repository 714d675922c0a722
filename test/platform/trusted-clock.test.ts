import { expect, test } from 'bun:test'
import { TrustedClock } from '#platform/process/trusted-clock.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const START = Date.UTC(2026, 2, 15)

function start(lastRunAt?: number, clock = new ManualClock(START)) {
  const logged: string[] = []
  const log = {
    warn: (_: unknown, text: string) => void logged.push(text),
    info: (_: unknown, text: string) => void logged.push(text),
  }
  const trusted = new TrustedClock(clock, { log: log as never, lastRunAt })
  let setBack = 0
  trusted.setBack.listen(() => setBack++)
  return { clock, trusted, logged, setBack: () => setBack }
}

// Proves: delivery-5
test('a jump of days ahead that soon ends is not accepted: time goes on, and the jump and its end are logged', () => {
  const { clock, trusted, logged } = start()
  clock.jumpTo(START + days(40))
  expect(trusted.now()).toBe(START)
  clock.advance(seconds(3))
  expect(trusted.now()).toBe(START + seconds(3))
  clock.jumpTo(START + seconds(3))
  expect(trusted.now()).toBe(START + seconds(3))
  expect(logged).toEqual([expect.stringContaining('jumped days ahead'), expect.stringContaining('is right again')])
})

test('a jump is accepted after it has lasted for a day', () => {
  const { clock, trusted } = start()
  clock.jumpTo(START + days(40))
  trusted.now()
  clock.advance(hours(23))
  expect(trusted.now()).toBe(START + hours(23))
  clock.advance(hours(1))
  expect(trusted.now()).toBe(START + days(41))
  clock.advance(minutes(1))
  expect(trusted.now()).toBe(START + days(41) + minutes(1))
})

test('hours ahead are accepted and logged, corrections of seconds only accepted', () => {
  const { clock, trusted, logged } = start()
  clock.jumpTo(START + seconds(20))
  expect(trusted.now()).toBe(START + seconds(20))
  expect(logged).toEqual([])
  clock.jumpTo(START + hours(47))
  expect(trusted.now()).toBe(START + hours(47))
  expect(logged).toEqual(['clock jumped ahead'])
})

test('days during which the machine slept are not a jump', () => {
  class SleepingClock extends ManualClock {
    sleptMs = 0
    override sinceBootMs = () => this.monotonicMs() + this.sleptMs
  }
  const clock = new SleepingClock(START)
  const { trusted } = start(undefined, clock)
  clock.sleptMs = days(5)
  clock.jumpTo(START + days(5))
  expect(trusted.now()).toBe(START + days(5))
})

test('a clock that goes back is accepted immediately, and logged', async () => {
  const { clock, trusted, setBack } = start()
  clock.jumpTo(START - hours(1))
  expect(trusted.now()).toBe(START - hours(1))
  await Promise.resolve()
  expect(setBack()).toBe(1)
  clock.jumpTo(START - hours(1) - seconds(30))
  trusted.now()
  await Promise.resolve()
  expect(setBack()).toBe(1)
})

test('a start time before the end of the last run is wrong: the time that NTP sets is accepted immediately', () => {
  const clock = new ManualClock(Date.UTC(1970, 0, 1))
  const { trusted, logged } = start(START - days(10), clock)
  expect(trusted.confirmedNow()).toBe(0)
  clock.advance(minutes(1))
  clock.jumpTo(START)
  expect(trusted.now()).toBe(START)
  expect(logged).toEqual(['clock jumped ahead'])
  // Nothing is deleted by it before it has persisted for a day.
  expect(trusted.confirmedNow()).toBe(START - days(10) + minutes(1))
  clock.jumpTo(START + days(40))
  expect(trusted.now()).toBe(START)
})

test('a clock set to a time still before the end of the last run must last for a day first', () => {
  const { clock, trusted } = start(START + days(40))
  clock.jumpTo(START + days(20))
  expect(trusted.now()).toBe(START)
})

test('after a start days ahead of the last run, the confirmed time continues from that run for a day', () => {
  const { clock, trusted } = start(START - days(40))
  expect(trusted.now()).toBe(START)
  expect(trusted.confirmedNow()).toBe(START - days(40))
  clock.advance(hours(1))
  expect(trusted.confirmedNow()).toBe(START - days(40) + hours(1))
  clock.advance(hours(23))
  expect(trusted.confirmedNow()).toBe(START + hours(24))
})

test('a wrong clock at the start that is corrected is confirmed immediately', () => {
  const { clock, trusted } = start(START - days(40))
  expect(trusted.confirmedNow()).toBe(START - days(40))
  clock.jumpTo(START - days(40) + minutes(5))
  expect(trusted.confirmedNow()).toBe(START - days(40) + minutes(5))
})

test('times are whole milliseconds, even if they come from the monotonic clock, which has fractions', () => {
  class Fractions extends ManualClock {
    override monotonicMs = () => super.monotonicMs() * 1.0001
    override sinceBootMs = this.monotonicMs
  }
  const doubting = start(undefined, new Fractions(START))
  doubting.clock.jumpTo(START + days(40))
  doubting.clock.advance(seconds(3))
  expect(doubting.trusted.now()).toBe(START + seconds(3))
  const started = start(START - days(40), new Fractions(START))
  started.clock.advance(seconds(3))
  expect(started.trusted.confirmedNow()).toBe(START - days(40) + seconds(3))
})
