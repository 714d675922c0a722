/** @module Stats of sub-accounts: GET /v1/analytics/aggregate and GET /v1/accounts/{id}/analytics. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getSubAccount } from '#features/people/sub-accounts/sub-accounts.ts'
import { describeRoute } from '#platform/http/access.ts'
import { Text } from '#platform/http/schemas.ts'
import { Aggregate, aggregateStats } from './aggregate.ts'
import { Overview, PeriodBody, toOverviewWire } from './model.ts'
import { PeriodQuery, parsePeriod, toPeriodWire } from './period.ts'
import { sumPeriod } from './stats.ts'

export const subAccountAnalyticsRoutes = (app: App) =>
  new Elysia({ prefix: '/v1' })
    .use(authenticated)
    .get(
      '/analytics/aggregate',
      async ({ actor, query }) => {
        const period = parsePeriod(app, actor.accountId, query)
        return { data: await aggregateStats(app, actor, period), period: toPeriodWire(period) }
      },
      {
        query: PeriodQuery,
        response: PeriodBody(Aggregate),
        detail: describeRoute(
          'Sum up a period over all sub-accounts',
          requires('analytics:read', 'sub_accounts:manage'),
          'Totals of your account with its sub-accounts, and the stats of each.',
          { tags: ['Analytics'] },
        ),
      },
    )
    .get(
      '/accounts/:id/analytics',
      ({ actor, params: { id }, query }) => {
        const account = getSubAccount(app, actor, id)
        const period = parsePeriod(app, account.id, query)
        return { data: toOverviewWire(sumPeriod(app.db, account.id, period)), period: toPeriodWire(period) }
      },
      {
        params: Type.Object({ id: Text('Id of the sub-account.') }),
        query: PeriodQuery,
        response: PeriodBody(Overview),
        detail: describeRoute(
          'Sum up a period of a sub-account',
          requires('sub_accounts:manage'),
          'Counts and rates, as in /v1/analytics/overview.',
          { tags: ['Sub-accounts'] },
        ),
      },
    )
