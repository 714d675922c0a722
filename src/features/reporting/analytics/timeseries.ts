/**
 * @module Reads the time series that a query requests: by day or hour, of all mail or of one stream. Days of all mail
 * come from the daily stats, everything else from the hourly counters of events and streams, which are counted in the
 * same transactions; `consistency.ts` compares both. Never reads an email or an event.
 */
import type { Database } from 'bun:sqlite'
import type { Static } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { toCapturedMetric } from '#features/core/events/captured.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { COUNTER_RETENTION_DAYS } from '#features/core/events/purge.ts'
import { hourOf } from '#features/core/events/record.ts'
import { toAccountMetric, toStreamMetric } from '#features/setup/streams/reputation.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { prepareStatements } from '#platform/db/open.ts'
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
import { createParameterError, formatDay, type Period, parsePeriod } from './period.ts'
import { readDays } from './stats.ts'

/** The counter of a metric, and the counter of what must be subtracted. */
interface Source {
  readonly counter: string
  readonly captured?: string
}

/** Counters of streams exclude captured mail, counters of events include it. */
export const HOURLY_SOURCES: Readonly<Record<Metric, Source>> = {
  sent: { counter: toAccountMetric('sent') },
  delivered: { counter: toAccountMetric('delivered') },
  bounced: { counter: 'event:bounced', captured: toCapturedMetric('bounced') },
  opens: { counter: 'event:opened', captured: toCapturedMetric('opened') },
  clicks: { counter: 'event:clicked', captured: toCapturedMetric('clicked') },
  complaints: { counter: toAccountMetric('complained') },
  unsubscribes: { counter: 'event:unsubscribed', captured: toCapturedMetric('unsubscribed') },
}

const HOURS_PER_DAY = 24

const sql = prepareStatements((db) => ({
  sums: db.prepare<{ at: number; value: number }, [number, number, string, number, number]>(
    'SELECT hour / ? AS at, sum(value) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour BETWEEN ? AND ? GROUP BY 1',
  ),
}))

/** Throws 400 for an invalid parameter. A week of hours takes some 2 ms, a year of days of a stream some 10 ms. */
export function readTimeseries(
  { db, clock }: Pick<App, 'db' | 'clock'>,
  accountId: number,
  query: Static<typeof TimeseriesQuery>,
): { readonly period: Period; readonly data: TimePoint[] } {
  const { stream } = query
  const now = clock.now()
  const isHourly = parseInterval(query.interval) === 'hour'
  const hasPeriod = query.period !== undefined || query.from !== undefined || query.to !== undefined
  const period = parsePeriod(isHourly && !hasPeriod ? { period: '7d' } : query, now)
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
  const range = isHourly ? toHours(period, now) : toDays(period, now)
  return { period, data: readCounters(db, accountId, range, sources) }
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

interface CounterRange {
  /** Hours of each point: 1, or those of a day. */
  readonly unit: 1 | typeof HOURS_PER_DAY
  /** In this unit since the epoch, both included. */
  readonly from: number
  readonly to: number
}

/** The hours of a period up to the current one. Throws 400 when it is too long, or too long ago. */
function toHours(period: Period, now: Millis): CounterRange {
  const { fromDay, toDay } = period
  if (toDay - fromDay >= MAX_HOURLY_DAYS)
    throw createParameterError(
      'interval',
      `interval=hour is for at most ${MAX_HOURLY_DAYS} days; set period=7d, or from and to.`,
    )
  requireCounted(period, now, 'Hours')
  const lastHour = (toDay + 1) * HOURS_PER_DAY - 1
  return { unit: 1, from: fromDay * HOURS_PER_DAY, to: Math.min(lastHour, hourOf(now)) }
}

function toDays(period: Period, now: Millis): CounterRange {
  requireCounted(period, now, 'Stats of streams')
  return { unit: HOURS_PER_DAY, from: period.fromDay, to: period.toDay }
}

/** Throws 400 when the days of a period are older than the counters. */
function requireCounted({ fromDay }: Period, now: Millis, what: string): void {
  const oldestDay = dayOf(now) - COUNTER_RETENTION_DAYS + 1
  if (fromDay < oldestDay)
    throw createParameterError(
      'from',
      `${what} are stored for ${COUNTER_RETENTION_DAYS} days; from must not be before ${formatDay(oldestDay)}.`,
    )
}

/** The points of a range, in order; zeros without activity. */
function readCounters(
  db: Database,
  accountId: number,
  { unit, from, to }: CounterRange,
  sources: readonly (readonly [Metric, Source])[],
): TimePoint[] {
  const points = Array.from({ length: Math.max(0, to - from + 1) }, (_, index): TimePoint => {
    const hour = (from + index) * unit
    return {
      date: formatDay(Math.floor(hour / HOURS_PER_DAY)),
      ...(unit === 1 && { time: isoTime(hour * hours(1)) }),
      ...Object.fromEntries(sources.map(([metric]) => [metric, 0])),
    }
  })
  const add = (metric: Metric, counter: string, sign: 1 | -1): void => {
    const rows = sql(db).sums.all(unit, accountId, counter, from * unit, (to + 1) * unit - 1)
    for (const { at, value } of rows) {
      const point = points[at - from]
      if (point) point[metric] = (point[metric] ?? 0) + sign * value
    }
  }
  for (const [metric, { counter, captured }] of sources) {
    add(metric, counter, 1)
    if (captured !== undefined) add(metric, captured, -1)
  }
  return points
}
