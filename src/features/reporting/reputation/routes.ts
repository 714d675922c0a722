/** @module /v1/operator/reputation: how providers treat mail from each of our addresses, by day. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { OUTCOME_DAYS } from '#features/sending/delivery/providers/daily-outcomes.ts'
import { dataBody } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { findRateAlerts, OUTCOME_FIELDS, PAIR_FIELDS, rate, readOutcomes } from './report.ts'

const DATE_FIELD = { date: S.Text('Day (UTC), YYYY-MM-DD.') }
const KIND_FIELD = { kind: S.Text('blocked if it blames our address or set-up, else deferred, refused or complaints.') }
const ReputationReport = Type.Object({
  pairs: Type.Array(Type.Object(OUTCOME_FIELDS), { description: 'All days together, the busiest first.' }),
  days: Type.Array(Type.Object({ ...DATE_FIELD, ...OUTCOME_FIELDS }), { description: 'The newest day first.' }),
  replies: Type.Array(
    Type.Object({
      ...{ ...DATE_FIELD, ...PAIR_FIELDS, ...KIND_FIELD },
      reply: S.Text('Without persons and ids; the rule or category in its place; empty: all others of the day.'),
      count: S.Count('Attempts.'),
    }),
    { description: 'A few replies of each day and kind; at most 1,000, the newest day first.' },
  ),
  alerts: Type.Array(
    Type.Object({
      ...{ ...DATE_FIELD, ...PAIR_FIELDS, ...KIND_FIELD },
      rate: rate('On that day'),
      rate_before: S.Nullable(Type.Number(), { description: 'In the 28 days before; null: nothing was sent.' }),
      message: S.Text('What is bad, with the most frequent reply.'),
      advice: S.Text('What to do.'),
    }),
    { description: 'Rates that are bad today or yesterday, the worst first.' },
  ),
  listings: Type.Array(Type.String(), {
    description: 'DNS block lists with our addresses, as `tassis doctor` saw them.',
  }),
})

const DEFAULT_DAYS = 30
const LIMITS = { minimum: 1, maximum: OUTCOME_DAYS }

/** @param listings what the last run of `tassis doctor` found in block lists */
export const operatorReputationRoutes = (app: App, listings: () => string[]) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).get(
    '/reputation',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'providers' })
      const days = S.parseQueryInteger('days', query.days, { ...LIMITS, fallback: DEFAULT_DAYS })
      const now = app.clock.now()
      const outcomes = readOutcomes(app.db, dayOf(now) - days + 1)
      return dataBody({ ...outcomes, alerts: findRateAlerts(app.db, now), listings: listings() })
    },
    {
      query: Type.Object({ days: S.QueryInteger({ ...LIMITS, default: DEFAULT_DAYS, description: 'Up to today.' }) }),
      response: S.DataBody(ReputationReport),
      detail: operatorRoute(
        'Get the reputation of our addresses',
        'Bounces, blocks, deferrals and complaints by provider, outgoing address and day, the replies behind them, rates that turned bad, and block lists.',
      ),
    },
  )
