/** @module /v1/analytics: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { csvResponseSpec } from '#platform/http/csv.ts'
import { busiestDomains } from './domains.ts'
import { daysOf, figuresOf, machineFiguresOf } from './figures.ts'
import {
  Answer,
  csvOf,
  DomainRecord,
  DomainsQuery,
  domainWire,
  limitOf,
  metricsOf,
  Overview,
  overviewWire,
  PeriodQuery,
  TimePoint,
  TimeseriesQuery,
  timePointWire,
} from './model.ts'
import { periodOf, periodWire } from './period.ts'

const tags = ['Analytics']
const READS = requires('analytics:read')

export const analyticsRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/analytics' })
    .use(authenticated)
    .get(
      '/overview',
      ({ actor, query }) => {
        const period = periodOf(query, app.clock.now())
        const { accountId } = actor
        const data = overviewWire(figuresOf(app.db, accountId, period), machineFiguresOf(app.db, accountId, period))
        return { data, period: periodWire(period) }
      },
      {
        query: PeriodQuery,
        response: Answer(Overview),
        detail: {
          summary: 'Sum up a period',
          description: 'Counts and rates of a period. Mail that was only captured is in none of them.',
          tags,
          ...READS,
        },
      },
    )
    .get(
      '/timeseries',
      ({ actor, query }) => {
        const period = periodOf(query, app.clock.now())
        const metrics = metricsOf(query.metrics)
        return {
          data: daysOf(app.db, actor.accountId, period).map((figures) => timePointWire(figures, metrics)),
          period: periodWire(period),
        }
      },
      {
        query: TimeseriesQuery,
        response: Answer(Type.Array(TimePoint)),
        detail: {
          summary: 'Figures day by day',
          description: 'Every day of the period in order, in UTC; days on which nothing happened have zeros.',
          tags,
          ...READS,
        },
      },
    )
    .get(
      '/domains',
      async ({ actor, query }) => {
        const period = periodOf(query, app.clock.now())
        const domains = await busiestDomains(app, actor.accountId, period, limitOf(query.limit))
        return { data: domains.map(domainWire), period: periodWire(period) }
      },
      {
        query: DomainsQuery,
        response: Answer(Type.Array(DomainRecord)),
        detail: {
          summary: 'Figures by recipient domain',
          description: 'The domains that most was sent to in the period, by that and then by name.',
          tags,
          ...READS,
        },
      },
    )
    .get(
      '/export',
      ({ actor, query, set }) => {
        const period = periodOf(query, app.clock.now())
        const { from, to } = periodWire(period)
        set.headers['content-type'] = 'text/csv; charset=utf-8'
        set.headers['content-disposition'] = `attachment; filename="analytics-${from}-${to}.csv"`
        return csvOf(daysOf(app.db, actor.accountId, period))
      },
      {
        query: PeriodQuery,
        detail: {
          summary: 'Export the days of a period as CSV',
          tags,
          ...csvResponseSpec('Columns date, sent, delivered, bounced, opens and clicks; a line a day, in order.'),
          ...READS,
        },
      },
    )
