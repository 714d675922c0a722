/** @module Counts of the last 24 hours, and of the 24 hours before. */
import type { TimePoint } from '#features/reporting/analytics/model.ts'

const HOURS = 24

export const SHOWN_METRICS = ['sent', 'delivered', 'bounced', 'opens', 'clicks', 'complaints'] as const
export type ShownMetric = (typeof SHOWN_METRICS)[number]
export type Counts = Readonly<Record<ShownMetric, number>>

/** @param points one for each hour, oldest first, up to the current hour */
export const sumHours = (points: readonly TimePoint[]): { readonly now: Counts; readonly before: Counts } => ({
  now: sum(points.slice(-HOURS)),
  before: sum(points.slice(-2 * HOURS, -HOURS)),
})

const sum = (points: readonly TimePoint[]): Counts =>
  Object.fromEntries(
    SHOWN_METRICS.map((metric) => [metric, points.reduce((total, point) => total + (point[metric] ?? 0), 0)]),
  ) as Record<ShownMetric, number>
