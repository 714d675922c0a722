/** @module The sums of the last 24 hours and of those before. */
import type { AnalyticsTimeseries } from '#client/api.ts'

const HOURS = 24

export const SHOWN_METRICS = ['sent', 'delivered', 'bounced', 'complaints', 'opens', 'clicks'] as const
export type ShownMetric = (typeof SHOWN_METRICS)[number]

interface LastDay {
  readonly now: number
  readonly before: number
  /** Of the last 24 hours, oldest first. */
  readonly series: readonly number[]
}

/** @param points one for each hour, oldest first, up to the current hour */
export function sumHours(points: readonly AnalyticsTimeseries[], metric: ShownMetric): LastDay {
  const values = points.map((point) => point[metric] ?? 0)
  const series = values.slice(-HOURS)
  return { now: sum(series), before: sum(values.slice(-2 * HOURS, -HOURS)), series }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
