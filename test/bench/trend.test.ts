/** @module Tests the slope and error of the soak test's trends with known series. */
import { expect, test } from 'bun:test'
import { computeTrend } from '../../scripts/bench/trend.ts'

const SECOND = 1000
const makeSeries = (count: number, value: (i: number) => number): number[] =>
  Array.from({ length: count }, (_, i) => value(i))

/** Returns deterministic noise in [-1, 1). */
const makeNoise = (i: number): number => ((i * 7919) % 1000) / 500 - 1

test('a trend finds steady growth exactly, independent of the warm-up', () => {
  const trend = computeTrend(
    makeSeries(4000, (i) => (i < 1000 ? 5000 - i : 100 + i / 100)),
    SECOND,
  )
  expect(trend.perHour).toBeCloseTo(36, 6)
  expect(trend.errorPerHour).toBeCloseTo(0, 6)
  expect(trend.highest).toBe(5000)
  expect([trend.first, trend.last]).toEqual([expect.closeTo(111.495, 3), expect.closeTo(138.495, 3)])
})

test('the error covers the slope of pure noise, but not the slope of noisy growth', () => {
  const flat = computeTrend(makeSeries(2000, makeNoise), SECOND)
  expect(Math.abs(flat.perHour)).toBeLessThan(flat.errorPerHour)
  const growing = computeTrend(
    makeSeries(2000, (i) => makeNoise(i) + i / 100),
    SECOND,
  )
  expect(growing.perHour - growing.errorPerHour).toBeGreaterThan(30)
  expect(Math.abs(growing.perHour - 36)).toBeLessThan(growing.errorPerHour)
})

test('too few values have no slope', () => {
  expect(computeTrend([1, 2, 3], SECOND)).toMatchObject({ highest: 3, perHour: Number.NaN })
})
