/** @module Period, interval, stream and metrics of the stats: in the URL, and as `/v1` takes them. */
import type { AnalyticsTimeseries } from '#client/api.ts'
import { keep, readKnown, readText, type Search } from '../../parts/filters.ts'

export type Metric = Exclude<keyof AnalyticsTimeseries, 'date' | 'time'>

type Query = Readonly<Record<string, string | undefined>>

export const PERIODS = ['7d', '30d', '90d'] as const
type Period = (typeof PERIODS)[number]

/** The metrics of a time series, in the order of the chart; complete by its type. */
const METRIC_LABELS: Readonly<Record<Metric, string>> = {
  sent: 'Sent',
  delivered: 'Delivered',
  bounced: 'Bounced',
  complaints: 'Complaints',
  opens: 'Opened',
  clicks: 'Clicked',
  unsubscribes: 'Unsubscribed',
}

export const METRICS = Object.keys(METRIC_LABELS) as readonly Metric[]
/** The lines of the chart at first. */
export const DEFAULT_METRICS: readonly Metric[] = ['sent', 'delivered', 'bounced']
/** Those that are counted by stream. */
const STREAM_METRICS: readonly Metric[] = ['sent', 'delivered', 'bounced', 'complaints']

export const toLabel = (metric: Metric): string => METRIC_LABELS[metric]

/** All optional: without any, the last 30 days by day. */
export interface AnalyticsFilters {
  readonly period?: Period
  /** Days such as 2026-11-21; both or none. */
  readonly from?: string
  readonly to?: string
  readonly interval?: 'hour'
  readonly stream?: string
}

const DAY = /^\d{4}-\d{2}-\d{2}$/
const MAX_STREAM_LENGTH = 63

export function parseAnalyticsFilters(search: Search): AnalyticsFilters {
  const { from, to, stream } = search
  const isRange = typeof from === 'string' && typeof to === 'string' && DAY.test(from) && DAY.test(to)
  return {
    ...(isRange ? { from, to } : keep('period', readKnown(PERIODS, search['period']))),
    ...keep('interval', readKnown(['hour'] as const, search['interval'])),
    ...keep('stream', readText(stream, MAX_STREAM_LENGTH)),
  }
}

export const listMetrics = ({ stream }: AnalyticsFilters): readonly Metric[] =>
  stream === undefined ? METRICS : STREAM_METRICS

/** Parameters of the period. Hours have a shorter one by default. */
export function toPeriodQuery({ period, from, to, interval }: AnalyticsFilters): Query {
  if (from !== undefined && to !== undefined) return { from, to }
  return { period: period ?? (interval === 'hour' ? '7d' : '30d') }
}

export const toTimeseriesQuery = (filters: AnalyticsFilters): Query => ({
  ...toPeriodQuery(filters),
  interval: filters.interval,
  stream: filters.stream,
  metrics: listMetrics(filters).join(','),
})
