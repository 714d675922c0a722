/** @module /v1/analytics: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires, requiresOrSupport } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { csvResponseSpec } from '#platform/http/csv.ts'
import { findBusiestDomains } from './domains.ts'
import {
  DomainRecord,
  DomainsQuery,
  Overview,
  PeriodBody,
  parseLimit,
  TimePoint,
  TimeseriesQuery,
  toCsv,
  toDomainWire,
  toOverviewWire,
} from './model.ts'
import { PeriodQuery, parsePeriod, toPeriodWire } from './period.ts'
import { readDays, sumPeriod } from './stats.ts'
import { readTimeseries } from './timeseries.ts'

const READS = requires('analytics:read')
const READS_OR_SUPPORT = requiresOrSupport('analytics:read')

export const analyticsRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/analytics', tags: ['Analytics'] })
    .use(authenticated)
    .get(
      '/overview',
      ({ actor, query }) => {
        const period = parsePeriod(query, app.clock.now())
        return { data: toOverviewWire(sumPeriod(app.db, actor.accountId, period)), period: toPeriodWire(period) }
      },
      {
        query: PeriodQuery,
        response: PeriodBody(Overview),
        detail: describeRoute(
          'Sum up a period',
          READS_OR_SUPPORT,
          'Counts and rates of a period. Captured mail is not counted.',
        ),
      },
    )
    .get(
      '/timeseries',
      ({ actor, query }) => {
        const { period, data } = readTimeseries(app, actor.accountId, query)
        return { data, period: toPeriodWire(period) }
      },
      {
        query: TimeseriesQuery,
        response: PeriodBody(Type.Array(TimePoint)),
        detail: describeRoute(
          'Get stats by day or hour',
          READS_OR_SUPPORT,
          'Every day of the period in order, in UTC; days without activity have zeros. With `interval=hour` every hour up to the current one; with `stream` the mail of one stream.',
        ),
      },
    )
    .get(
      '/domains',
      async ({ actor, query }) => {
        const period = parsePeriod(query, app.clock.now())
        const domains = await findBusiestDomains(app, actor.accountId, period, parseLimit(query.limit))
        return { data: domains.map(toDomainWire), period: toPeriodWire(period) }
      },
      {
        query: DomainsQuery,
        response: PeriodBody(Type.Array(DomainRecord)),
        detail: describeRoute(
          'Get stats by recipient domain',
          READS_OR_SUPPORT,
          'The busiest recipient domains of the period; ties are sorted by name.',
        ),
      },
    )
    .get(
      '/export',
      ({ actor, query, set }) => {
        const period = parsePeriod(query, app.clock.now())
        const { from, to } = toPeriodWire(period)
        set.headers['content-type'] = 'text/csv; charset=utf-8'
        set.headers['content-disposition'] = `attachment; filename="analytics-${from}-${to}.csv"`
        return toCsv(readDays(app.db, actor.accountId, period))
      },
      {
        query: PeriodQuery,
        detail: describeRoute(
          'Export the days of a period as CSV',
          READS,
          undefined,
          csvResponseSpec('Columns date, sent, delivered, bounced, opens and clicks; one line per day, in order.'),
        ),
      },
    )
