/** @module /v1/analytics: paths, shapes and one call each. */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires, requiresOrSupport } from '#features/core/app/http.ts'
import { hourOf } from '#features/core/events/record.ts'
import { toStreamMetric } from '#features/setup/streams/reputation.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { describeRoute } from '#platform/http/access.ts'
import { csvResponseSpec } from '#platform/http/csv.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/time/clock.ts'
import { UTC } from '#platform/time/zones.ts'
import { hours } from '#platform/units.ts'
import { findBusiestDomains } from './domains.ts'
import * as model from './model.ts'
import * as periods from './period.ts'
import { HOURLY_SOURCES, type HourRange, listDayRanges, readDays, type Source, sumHours, sumPeriod } from './stats.ts'

const READS = requires('analytics:read')
const READS_OR_SUPPORT = requiresOrSupport('analytics:read')

export const analyticsRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/analytics', tags: ['Analytics'] })
    .use(authenticated)
    .get(
      '/overview',
      ({ actor: { accountId }, query }) => {
        const period = periods.parsePeriod(app, accountId, query)
        const toBody = (of: periods.Period) => ({
          data: model.toOverviewWire(sumPeriod(app.db, accountId, of)),
          period: periods.toPeriodWire(of),
        })
        const hasPrevious = model.parseComparison(query.compare)
        return {
          ...toBody(period),
          ...(hasPrevious && { previous: toBody(periods.toPreviousPeriod(period, app.clock.now())) }),
        }
      },
      {
        query: model.OverviewQuery,
        response: model.OverviewBody,
        detail: describeRoute(
          'Sum up a period',
          READS_OR_SUPPORT,
          'Counts and rates of a period, and with `compare=previous` of the one before. Captured mail counts only in `outcomes.captured`.',
        ),
      },
    )
    .get(
      '/timeseries',
      ({ actor, query }) => {
        const { period, data } = readTimeseries(app, actor.accountId, query)
        return { data, period: periods.toPeriodWire(period) }
      },
      {
        query: model.TimeseriesQuery,
        response: model.PeriodBody(Type.Array(model.TimePoint)),
        detail: describeRoute(
          'Get stats by day or hour',
          READS_OR_SUPPORT,
          'Every day of the period in order; days without activity have zeros. With `interval=hour` every hour up to the current one; with `stream` the mail of one stream.',
        ),
      },
    )
    .get(
      '/domains',
      async ({ actor, query }) => {
        // Domains are counted by days of UTC.
        const period = periods.parsePeriod(app, actor.accountId, { ...query, timezone: UTC })
        const domains = await findBusiestDomains(app, actor.accountId, period, model.parseLimit(query.limit))
        return { data: domains.map(model.toDomainWire), period: periods.toPeriodWire(period) }
      },
      {
        query: model.DomainsQuery,
        response: model.PeriodBody(Type.Array(model.DomainRecord)),
        detail: describeRoute(
          'Get stats by recipient domain',
          READS_OR_SUPPORT,
          'The busiest recipient domains of the period, in days of UTC; ties are sorted by name.',
        ),
      },
    )
    .get(
      '/export',
      ({ actor, query, set }) => {
        const period = periods.parsePeriod(app, actor.accountId, query)
        const { from, to } = periods.toPeriodWire(period)
        set.headers['content-type'] = 'text/csv; charset=utf-8'
        set.headers['content-disposition'] = `attachment; filename="analytics-${from}-${to}.csv"`
        return model.toCsv(readDays(app.db, actor.accountId, period))
      },
      {
        query: periods.PeriodQuery,
        detail: describeRoute(
          'Export the days of a period as CSV',
          READS,
          undefined,
          csvResponseSpec('Columns date, sent, delivered, bounced, opens and clicks; one line per day, in order.'),
        ),
      },
    )

/** Throws 400 for an invalid parameter. A week of hours takes some 2 ms, a year of days of a stream some 10 ms. */
function readTimeseries(
  app: Pick<App, 'config' | 'db' | 'clock'>,
  accountId: number,
  query: Static<typeof model.TimeseriesQuery>,
): { readonly period: periods.Period; readonly data: model.TimePoint[] } {
  const { db } = app
  const { stream } = query
  const now = app.clock.now()
  const isHourly = model.parseInterval(query.interval) === 'hour'
  const hasPeriod = query.period !== undefined || query.from !== undefined || query.to !== undefined
  const period = periods.parsePeriod(app, accountId, isHourly && !hasPeriod ? { ...query, period: '7d' } : query)
  if (stream === undefined && !isHourly) {
    const metrics = model.parseMetrics(query.metrics)
    const data = readDays(db, accountId, period).map(({ day, ...stats }) => ({
      date: periods.formatDay(day),
      ...Object.fromEntries(metrics.map((metric) => [metric, stats[metric]])),
    }))
    return { period, data }
  }
  const sources =
    stream === undefined
      ? model.parseMetrics(query.metrics).map((metric) => [metric, HOURLY_SOURCES[metric]] as const)
      : listStreamSources(db, accountId, stream, query.metrics)
  const points = isHourly ? listHours(period, now) : listDays(period, now)
  const ranges = points.map(({ range }) => range)
  const sums = sources.map(([metric, source]) => [metric, sumHours(db, accountId, ranges, source)] as const)
  const data = points.map(
    ({ day, range: [hour] }, index): model.TimePoint => ({
      date: periods.formatDay(day),
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
): (readonly [model.Metric, Source])[] {
  const requested = model.parseStreamMetrics(metrics)
  const id = findStreamId(db, accountId, slug)
  if (id === undefined)
    throw periods.createParameterError(
      'stream',
      `There is no stream ${JSON.stringify(slug.slice(0, 63))} on this account; GET /v1/streams lists them.`,
    )
  return requested.map((metric) => [metric, { counter: toStreamMetric(id, model.STREAM_COUNTERS[metric]) }])
}

/** The hours of a period up to the current one, with their days. Throws 400 when it is too long, or too long ago. */
function listHours(period: periods.Period, now: Millis): { readonly day: number; readonly range: HourRange }[] {
  const { fromDay, toDay } = period
  if (toDay - fromDay >= model.MAX_HOURLY_DAYS)
    throw periods.createParameterError(
      'interval',
      `interval=hour is for at most ${model.MAX_HOURLY_DAYS} days; set period=7d, or from and to.`,
    )
  periods.requireCounted(period, now, 'Hours')
  return listDayRanges(period).flatMap(([from, end], index) =>
    Array.from({ length: Math.max(0, Math.min(end, hourOf(now) + 1) - from) }, (_, hour) => ({
      day: fromDay + index,
      range: [from + hour, from + hour + 1] as const,
    })),
  )
}

function listDays(period: periods.Period, now: Millis) {
  periods.requireCounted(period, now, 'Stats of streams')
  return listDayRanges(period).map((range, index) => ({ day: period.fromDay + index, range }))
}
