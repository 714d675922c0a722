/**
 * @module Reads the time series that a query requests: by day or hour, of all mail or of one stream. Days of all mail
 * come from the daily stats, everything else from the hourly counters of events and streams, which are counted in the
 * same transactions; `consistency.ts` compares both. Never reads an email or an event.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { hourOf } from '#features/core/events/record.ts'
import { toStreamMetric } from '#features/setup/streams/reputation.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import {
  MAX_HOURLY_DAYS,
  type Metric,
  parseInterval,
  parseMetrics,
  parseStreamMetrics,
  STREAM_COUNTERS,
  type TimePoint,
  type TimeseriesQuery,
} from './model.ts'
import { createParameterError, formatDay, type Period, parsePeriod, requireCounted } from './period.ts'
import { HOURLY_SOURCES, type HourRange, listDayRanges, readDays, type Source, sumHours } from './stats.ts'

/** Throws 400 for an invalid parameter. A week of hours takes some 2 ms, a year of days of a stream some 10 ms. */
export function readTimeseries(
  app: Pick<App, 'config' | 'db' | 'clock'>,
  accountId: number,
  query: Static<typeof TimeseriesQuery>,
): { readonly period: Period; readonly data: TimePoint[] } {
  const { db } = app
  const { stream } = query
  const now = app.clock.now()
  const isHourly = parseInterval(query.interval) === 'hour'
  const hasPeriod = query.period !== undefined || query.from !== undefined || query.to !== undefined
  const period = parsePeriod(app, accountId, isHourly && !hasPeriod ? { ...query, period: '7d' } : query)
  if (stream === undefined && !isHourly) {
    const metrics = parseMetrics(query.metrics)
    const data = readDays(db, accountId, period).map(({ day, ...stats }) => ({
      date: formatDay(day),
      ...Object.fromEntries(metrics.map((metric) => [metric, stats[metric]])),
    }))
    return { period, data }
  }
  const sources =
    stream === undefined
      ? parseMetrics(query.metrics).map((metric) => [metric, HOURLY_SOURCES[metric]] as const)
      : listStreamSources(db, accountId, stream, query.metrics)
  const points = isHourly ? listHours(period, now) : listDays(period, now)
  const ranges = points.map(({ range }) => range)
  const sums = sources.map(([metric, source]) => [metric, sumHours(db, accountId, ranges, source)] as const)
  const data = points.map(
    ({ day, range: [hour] }, index): TimePoint => ({
      date: formatDay(day),
      ...(isHourly && { time: isoTime(hour * hours(1)) }),
      ...Object.fromEntries(sums.map(([metric, values]) => [metric, values[index] ?? 0])),
    }),
  )
  return { period, data }
}

/** Throws 400 when the account has no stream with this slug, or when a metric is not counted by stream. */
function listStreamSources(
  db: Database,
  accountId: number,
  slug: string,
  metrics: string | undefined,
): (readonly [Metric, Source])[] {
  const requested = parseStreamMetrics(metrics)
  const id = findStreamId(db, accountId, slug)
  if (id === undefined)
    throw createParameterError(
      'stream',
      `There is no stream ${JSON.stringify(slug.slice(0, 63))} on this account; GET /v1/streams lists them.`,
    )
  return requested.map((metric) => [metric, { counter: toStreamMetric(id, STREAM_COUNTERS[metric]) }])
}

/** The hours of a period up to the current one, with their days. Throws 400 when it is too long, or too long ago. */
function listHours(period: Period, now: Millis): { readonly day: number; readonly range: HourRange }[] {
  const { fromDay, toDay } = period
  if (toDay - fromDay >= MAX_HOURLY_DAYS)
    throw createParameterError(
      'interval',
      `interval=hour is for at most ${MAX_HOURLY_DAYS} days; set period=7d, or from and to.`,
    )
  requireCounted(period, now, 'Hours')
  return listDayRanges(period).flatMap(([from, end], index) =>
    Array.from({ length: Math.max(0, Math.min(end, hourOf(now) + 1) - from) }, (_, hour) => ({
      day: fromDay + index,
      range: [from + hour, from + hour + 1] as const,
    })),
  )
}

function listDays(period: Period, now: Millis) {
  requireCounted(period, now, 'Stats of streams')
  return listDayRanges(period).map((range, index) => ({ day: period.fromDay + index, range }))
}
