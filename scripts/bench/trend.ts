/** @module Computes the growth of a measured value: the slope of a line through its samples, with its error. */

export interface Trend {
  /** `first` and `last` are the means of the first and the last part after the warm-up. */
  readonly first: number
  readonly last: number
  readonly highest: number
  /** Slope per hour after the warm-up; NaN for too few values. */
  readonly perHour: number
  /** Half the width of the 95 % confidence interval of the slope. */
  readonly errorPerHour: number
}

/** Fraction of all values in which caches fill and code is compiled. */
const WARM_UP_FRACTION = 1 / 4
/** Neighbouring values are correlated, so the error is computed from the means of this many parts. */
const PART_COUNT = 10
/** Student's t for 95 %, two-sided, with PART_COUNT − 2 degrees of freedom. */
const T_95 = 2.306

/** @param values samples in order, one every `everyMs`; at least one */
export function computeTrend(values: readonly number[], everyMs: number): Trend {
  const settled = values.slice(Math.floor(values.length * WARM_UP_FRACTION))
  const partLength = Math.floor(settled.length / PART_COUNT)
  const highest = Math.max(...values)
  if (partLength === 0)
    return {
      first: settled[0] ?? Number.NaN,
      last: settled.at(-1) ?? Number.NaN,
      highest,
      perHour: Number.NaN,
      errorPerHour: Number.NaN,
    }
  // The oldest values that do not fill a part are skipped.
  const rest = settled.slice(settled.length - PART_COUNT * partLength)
  const means = Array.from({ length: PART_COUNT }, (_, part) =>
    mean(rest.slice(part * partLength, (part + 1) * partLength)),
  )
  const middle = (PART_COUNT - 1) / 2
  const spread = sum(means.map((_, part) => (part - middle) ** 2))
  const average = mean(means)
  const slope = sum(means.map((value, part) => (part - middle) * (value - average))) / spread
  const residual = sum(means.map((value, part) => (value - average - slope * (part - middle)) ** 2))
  const partsPerHour = 3_600_000 / (partLength * everyMs)
  return {
    first: means[0] ?? Number.NaN,
    last: means.at(-1) ?? Number.NaN,
    highest,
    perHour: slope * partsPerHour,
    errorPerHour: T_95 * Math.sqrt(residual / (PART_COUNT - 2) / spread) * partsPerHour,
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
const mean = (values: readonly number[]): number => sum(values) / values.length
