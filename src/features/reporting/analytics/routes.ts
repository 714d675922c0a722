/** @module /v1/analytics: paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires, requiresOrSupport } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { csvResponseSpec } from '#platform/http/csv.ts'
import { UTC } from '#platform/time/zones.ts'
import { findBusiestDomains } from './domains.ts'
import * as model from './model.ts'
import { type Period, PeriodQuery, parsePeriod, toPeriodWire, toPreviousPeriod } from './period.ts'
import { readDays, sumPeriod } from './stats.ts'
import { readTimeseries } from './timeseries.ts'

const READS = requires('analytics:read')
const READS_OR_SUPPORT = requiresOrSupport('analytics:read')

export const analyticsRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/analytics', tags: ['Analytics'] })
    .use(authenticated)
    .get(
      '/overview',
      ({ actor: { accountId }, query }) => {
        const period = parsePeriod(app, accountId, query)
        const toBody = (of: Period) => ({
          data: model.toOverviewWire(sumPeriod(app.db, accountId, of)),
          period: toPeriodWire(of),
        })
        const hasPrevious = model.parseComparison(query.compare)
        return {
          ...toBody(period),
          ...(hasPrevious && { previous: toBody(toPreviousPeriod(period, app.clock.now())) }),
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
        return { data, period: toPeriodWire(period) }
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
        const period = parsePeriod(app, actor.accountId, { ...query, timezone: UTC })
        const domains = await findBusiestDomains(app, actor.accountId, period, model.parseLimit(query.limit))
        return { data: domains.map(model.toDomainWire), period: toPeriodWire(period) }
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
        const period = parsePeriod(app, actor.accountId, query)
        const { from, to } = toPeriodWire(period)
        set.headers['content-type'] = 'text/csv; charset=utf-8'
        set.headers['content-disposition'] = `attachment; filename="analytics-${from}-${to}.csv"`
        return model.toCsv(readDays(app.db, actor.accountId, period))
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
