/** @module The soak's slopes are those of known series, and their error says when there is none. */
import { expect, test } from 'bun:test'
import { computeTrend } from '#bench/trend.ts'

const SECOND = 1000
const makeSeries = (count: number, value: (i: number) => number): number[] =>
  Array.from({ length: count }, (_, i) => value(i))

/** In [-1, 1), the same every time. */
const makeNoise = (i: number): number => ((i * 7919) % 1000) / 500 - 1

test('a steady growth is found exactly, whatever the warm-up did', () => {
  const trend = computeTrend(
    makeSeries(4000, (i) => (i < 1000 ? 5000 - i : 100 + i / 100)),
    SECOND,
  )
  expect(trend.perHour).toBeCloseTo(36, 6)
  expect(trend.errorPerHour).toBeCloseTo(0, 6)
  expect(trend.highest).toBe(5000)
  expect([trend.first, trend.last]).toEqual([expect.closeTo(111.495, 3), expect.closeTo(138.495, 3)])
})

test('noise without growth has a slope that its error covers, and growth in noise one that it does not', () => {
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
