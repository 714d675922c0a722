/** @module A time series as a chart, as text, and as the sums of its last days. */
import type { AnalyticsTimeseries, Period } from '#client/api.ts'
import type { ChartPoint, ChartSeries } from '../../parts/chart-scale.ts'
import { formatDay, formatTime } from '../../parts/format.ts'
import { toLocalTime } from '../../parts/zone.ts'
import { type Metric, toLabel } from './filters.ts'

type Point = AnalyticsTimeseries

/** Days before the account existed are left out, unless nothing else is there. */
export function dropBefore<P extends Pick<Point, 'date'>>(
  points: readonly P[],
  { account_since: since }: Pick<Period, 'account_since'>,
): readonly P[] {
  const rest = points.filter(({ date }) => date >= since)
  return rest.length === 0 ? points : rest
}

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
const WEEKDAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short', timeZone: 'UTC' })

/** `28 Nov`, of a day such as 2026-11-28, whatever the zone is. */
export const formatDate = (date: string): string => DAY.format(new Date(`${date}T00:00:00Z`))

/** The day with its weekday, or the hour in the reader's zone. */
export const formatPoint = ({ date, time }: Point): string =>
  time === undefined ? `${WEEKDAY.format(new Date(`${date}T00:00:00Z`))}, ${formatDate(date)}` : formatTime(time)

/** More hours have a text at the beginning of each day only. */
const MAX_HOURS = 24

export const toPoints = (points: readonly Point[]): ChartPoint[] =>
  points.map((point) => ({ name: formatPoint(point), ...toTick(point, points.length) }))

function toTick({ date, time }: Point, count: number): { readonly tick?: string } {
  if (time === undefined) return { tick: formatDate(date) }
  if (count <= MAX_HOURS) return { tick: formatTime(time) }
  return toLocalTime(new Date(time)).slice(11, 13) === '00' ? { tick: formatDay(new Date(time)) } : {}
}

export const toSeries = (points: readonly Point[], metrics: readonly Metric[]): ChartSeries[] =>
  metrics.map((metric) => ({ label: toLabel(metric), look: metric, values: points.map((point) => point[metric] ?? 0) }))

export const hasActivity = (points: readonly Point[], metrics: readonly Metric[]): boolean =>
  points.some((point) => metrics.some((metric) => (point[metric] ?? 0) !== 0))

const HOURS = 24

export const SHOWN_METRICS = ['sent', 'delivered', 'bounced', 'complaints', 'opens', 'clicks'] as const
export type ShownMetric = (typeof SHOWN_METRICS)[number]

/** The last 24 hours, also hour by hour, and those before. @param points one for each hour, oldest first, up to now */
export function sumHours(points: readonly AnalyticsTimeseries[], metric: ShownMetric) {
  const values = points.map((point) => point[metric] ?? 0)
  const series = values.slice(-HOURS)
  return { now: sum(series), before: sum(values.slice(-2 * HOURS, -HOURS)), series }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
