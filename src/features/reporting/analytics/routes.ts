/** @module /v1/analytics: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
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

const tags = ['Analytics']
const READS = requires('analytics:read')

export const analyticsRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/analytics' })
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
        detail: {
          summary: 'Sum up a period',
          description: 'Counts and rates of a period. Captured mail is not counted.',
          tags,
          ...READS,
        },
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
        detail: {
          summary: 'Get stats by day or hour',
          description:
            'Every day of the period in order, in UTC; days without activity have zeros. With `interval=hour` every hour up to the current one; with `stream` the mail of one stream.',
          tags,
          ...READS,
        },
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
        detail: {
          summary: 'Get stats by recipient domain',
          description: 'The busiest recipient domains of the period; ties are sorted by name.',
          tags,
          ...READS,
        },
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
        detail: {
          summary: 'Export the days of a period as CSV',
          tags,
          ...csvResponseSpec('Columns date, sent, delivered, bounced, opens and clicks; one line per day, in order.'),
          ...READS,
        },
      },
    )
