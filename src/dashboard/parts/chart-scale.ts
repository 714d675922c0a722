/** @module What a chart is made of, and its scale. */

export interface ChartPoint {
  /** The time in words. */
  readonly name: string
  /** The same below the chart, where there is room; without it none. */
  readonly tick?: string
}

export interface ChartSeries {
  readonly label: string
  /** The name of its colour and line, see `.series` in the styles. */
  readonly look: string
  /** One for each point. */
  readonly values: readonly number[]
}

/** Round numbers from 0 up to at least the greatest value, three to six of them. */
export function listSteps(max: number): number[] {
  const rough = Math.max(1, max) / 4
  const unit = 10 ** Math.floor(Math.log10(rough))
  const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough) ?? rough)
  return Array.from({ length: Math.ceil(Math.max(1, max) / step) + 1 }, (_, at) => at * step)
}
