/** @module Reads the time series that a query requests: by day or hour, of all mail or of one stream. */
import type { Static } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { readHours } from './hours.ts'
import {
  type Interval,
  parseInterval,
  parseMetrics,
  parseStreamMetrics,
  type TimePoint,
  type TimeseriesQuery,
  toHourPointWire,
  toHours,
  toStreamDayWire,
  toTimePointWire,
} from './model.ts'
import { type Period, parsePeriod } from './period.ts'
import { readDays } from './stats.ts'
import { readStreamStats, requireCountedDays, requireStream } from './streams.ts'

/** Throws 400 for an invalid parameter. */
export function readTimeseries(
  app: Pick<App, 'db' | 'clock'>,
  accountId: number,
  query: Static<typeof TimeseriesQuery>,
): { readonly period: Period; readonly data: TimePoint[] } {
  const now = app.clock.now()
  const interval = parseInterval(query.interval)
  const hasPeriod = query.period !== undefined || query.from !== undefined || query.to !== undefined
  const period = parsePeriod(interval === 'hour' && !hasPeriod ? { period: '7d' } : query, now)
  if (query.stream !== undefined)
    return { period, data: readStreamSeries(app, accountId, { ...query, stream: query.stream }, period, interval) }
  const metrics = parseMetrics(query.metrics)
  const data =
    interval === 'hour'
      ? readHours(app.db, accountId, toHours(period, now), metrics).map(toHourPointWire)
      : readDays(app.db, accountId, period).map((stats) => toTimePointWire(stats, metrics))
  return { period, data }
}

function readStreamSeries(
  { db, clock }: Pick<App, 'db' | 'clock'>,
  accountId: number,
  query: { readonly stream: string; readonly metrics?: string },
  period: Period,
  interval: Interval,
): TimePoint[] {
  const metrics = parseStreamMetrics(query.metrics)
  const streamId = requireStream(db, accountId, query.stream)
  if (interval === 'hour') {
    const { fromHour, toHour } = toHours(period, clock.now())
    return readStreamStats(db, { accountId, streamId, unit: 'hours', from: fromHour, to: toHour }, metrics).map(
      (stats, index) => toHourPointWire({ hour: fromHour + index, ...stats }),
    )
  }
  requireCountedDays(period, clock.now())
  const { fromDay, toDay } = period
  return readStreamStats(db, { accountId, streamId, unit: 'days', from: fromDay, to: toDay }, metrics).map(
    (stats, index) => toStreamDayWire(fromDay + index, stats),
  )
}
