import { expect, test } from 'bun:test'
import { WarmUp } from '#features/sending/delivery/providers/warm-up.ts'
import { days, hours } from '#platform/units.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const budgetOf = (warmUp: WarmUp, now: number) => warmUp.stateAt(now).budget

/** Uses what is left of a day; every `nth` message is deferred. */
function spendDay(warmUp: WarmUp, now: number, nth = Number.POSITIVE_INFINITY): number {
  const left = warmUp.left(false, 0, now)
  for (let n = 1; n <= left; n++) warmUp.count(n % nth === 0 ? 'deferred' : 'accepted', now)
  return left
}

test('over 14 good days the budget grows by 40 % a day', () => {
  const warmUp = new WarmUp(600, START)
  const sent = Array.from({ length: 14 }, (_, day) => spendDay(warmUp, START + days(day)))
  expect(sent).toEqual([50, 70, 98, 138, 194, 272, 381, 534, 748, 1048, 1468, 2056, 2879, 4031])
})

test('it ends once the rate of the provider is the limit', () => {
  const warmUp = new WarmUp(2, START)
  expect(spendDay(warmUp, START)).toBe(50)
  expect(spendDay(warmUp, START + days(1))).toBe(70)
  expect(spendDay(warmUp, START + days(2))).toBe(98)
  expect(warmUp.left(false, 0, START + days(3))).toBe(Number.POSITIVE_INFINITY)
  expect(budgetOf(warmUp, START + days(3))).toBeNull()
  // A block later does not begin it again: suspension and rate are the answer to that.
  warmUp.recordBlock(START + days(4))
  expect(budgetOf(warmUp, START + days(4))).toBeNull()
})

test('a day with few messages, with deferrals or with a block does not raise it', () => {
  const warmUp = new WarmUp(600, START)
  for (let n = 0; n < 24; n++) warmUp.count('accepted', START)
  expect(budgetOf(warmUp, START + days(1))).toBe(50)
  spendDay(warmUp, START + days(1), 25)
  expect(budgetOf(warmUp, START + days(2))).toBe(50)
  spendDay(warmUp, START + days(2))
  warmUp.recordBlock(START + days(2))
  // Halved at once, and once a day.
  expect(budgetOf(warmUp, START + days(2))).toBe(25)
  warmUp.recordBlock(START + days(2) + hours(1))
  expect(budgetOf(warmUp, START + days(2))).toBe(25)
  expect(warmUp.left(false, 0, START + days(2))).toBeLessThan(0)
  expect(warmUp.left(false, 0, START + days(3))).toBe(25)
  for (let day = 3; day < 6; day++) warmUp.recordBlock(START + days(day))
  expect(budgetOf(warmUp, START + days(6))).toBe(20)
})

test('broadcasts leave a fifth of it to other mail, and messages in flight count', () => {
  const warmUp = new WarmUp(600, START)
  expect([warmUp.left(true, 0, START), warmUp.left(false, 0, START), warmUp.left(false, 8, START)]).toEqual([
    40, 50, 42,
  ])
})

test('a clock that is set back gives no second budget', () => {
  const midnight = Date.UTC(2026, 2, 16)
  const warmUp = new WarmUp(600, midnight - 1)
  spendDay(warmUp, midnight - 1)
  spendDay(warmUp, midnight)
  // By minutes, over midnight and back.
  expect(warmUp.left(false, 0, midnight - 1)).toBe(0)
  expect(warmUp.left(false, 0, midnight)).toBe(0)
  expect(warmUp.msUntilNextDay(midnight - 1)).toBe(days(1) + 1)
  // A clock that was a year ahead: the day goes on with what is left, and the next one is the day after.
  const behind = midnight - days(365)
  expect(warmUp.left(false, 0, behind)).toBe(0)
  expect(warmUp.left(false, 0, behind + days(1))).toBe(98)
})

test('a restart continues the day', () => {
  const warmUp = new WarmUp(600, START)
  for (let n = 0; n < 30; n++) warmUp.count('accepted', START)
  const again = new WarmUp(600, START, warmUp.stateAt(START))
  expect(again.left(false, 0, START)).toBe(20)
})
