/** @module A time series as a chart and as text. */
import type { AnalyticsTimeseries } from '#client/api.ts'
import { type Metric, toLabel } from './filters.ts'

/** Of a line: readable without colour, because every metric has dashes of its own. */
export interface LineStyle {
  readonly light: string
  readonly dark: string
  /** Lengths of dashes and gaps in pixels; empty: a whole line. */
  readonly dash: readonly number[]
}

export const LINE_STYLES: Readonly<Record<Metric, LineStyle>> = {
  sent: { light: '#1a4fb4', dark: '#9cc2ff', dash: [] },
  delivered: { light: '#0b6b33', dark: '#7fdca0', dash: [10, 4] },
  bounced: { light: '#b3141d', dark: '#ff9a9a', dash: [3, 3] },
  complaints: { light: '#8a4b00', dark: '#f5bd6b', dash: [10, 3, 2, 3] },
  opens: { light: '#6a1fb0', dark: '#d0a6ff', dash: [16, 6] },
  clicks: { light: '#00656e', dark: '#6fd9e3', dash: [6, 3, 6, 10] },
  unsubscribes: { light: '#4c555f', dark: '#c3cad3', dash: [1, 5] },
}

/** Seconds since the epoch of each point, as the chart takes them. */
export const toSeconds = (points: readonly AnalyticsTimeseries[]): number[] =>
  points.map(({ date, time }) => Date.parse(time ?? `${date}T00:00:00Z`) / 1000)

export const toValues = (points: readonly AnalyticsTimeseries[], metric: Metric): number[] =>
  points.map((point) => point[metric] ?? 0)

/** Tabs between the cells, so that spreadsheets take it. */
export const toText = (points: readonly AnalyticsTimeseries[], metrics: readonly Metric[]): string =>
  [
    ['Time (UTC)', ...metrics.map(toLabel)],
    ...points.map((point) => [point.time ?? point.date, ...metrics.map((metric) => String(point[metric] ?? 0))]),
  ]
    .map((cells) => cells.join('\t'))
    .join('\n')

const DAY_UTC = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
const HOUR = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** A day as it is in UTC, or the beginning of an hour in the reader's zone. */
export const formatPoint = ({ date, time }: AnalyticsTimeseries): string =>
  time === undefined ? DAY_UTC.format(new Date(`${date}T00:00:00Z`)) : HOUR.format(new Date(time))

export const hasActivity = (points: readonly AnalyticsTimeseries[], metrics: readonly Metric[]): boolean =>
  points.some((point) => metrics.some((metric) => (point[metric] ?? 0) !== 0))
