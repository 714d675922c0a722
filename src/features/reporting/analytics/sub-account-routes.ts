/** @module Stats of sub-accounts: GET /v1/analytics/aggregate and GET /v1/accounts/{id}/analytics. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getSubAccount } from '#features/people/sub-accounts/sub-accounts.ts'
import { describeRoute } from '#platform/http/access.ts'
import { Count, Text, Uuid, UuidOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { createAccountQueue } from './domains.ts'
import { Overview, PeriodBody, toOverviewWire } from './model.ts'
import { type Period, PeriodQuery, parsePeriod, toPeriodWire } from './period.ts'
import { addStats, sumPeriod } from './stats.ts'

/** Maximum number of accounts listed individually; the totals include all accounts. */
const MAX_LISTED_ACCOUNTS = 1000
const PAGE_SIZE = 100

const AccountStats = Type.Composite([
  Type.Object({
    account_id: Uuid({ description: 'Id of the account or sub-account.' }),
    name: Text('Its name.'),
    parent_account_id: UuidOrNull('Null for the account that owns the key.'),
  }),
  Overview,
])

const Aggregate = Type.Composite([
  Overview,
  Type.Object({
    total_accounts: Count('Accounts in the totals: your own and your sub-accounts.'),
    accounts: Type.Array(AccountStats, {
      description: `The same stats for each account, busiest first; at most ${MAX_LISTED_ACCOUNTS}.`,
    }),
  }),
])
type Aggregate = Static<typeof Aggregate>

const runQueued = createAccountQueue()

/**
 * Sums a period over an account and its sub-accounts. Yields to the event loop between accounts, which take at most
 * some 2 ms each. Throws 429 when too many of the account's requests wait.
 */
export const aggregateStats = (app: App, actor: Actor, period: Period): Promise<Aggregate> =>
  runQueued(app.db, actor.accountId, () => aggregate(app, actor, period))

async function aggregate({ config, db }: App, { accountId, accountUuid }: Actor, period: Period): Promise<Aggregate> {
  const read = (account_id: string, id: number, name: string) => ({
    account_id,
    name,
    parent_account_id: id === accountId ? null : accountUuid,
    stats: sumPeriod(db, id, period),
  })
  const entries = [read(accountUuid, accountId, getAccount(config, db, accountId).name)]
  // Pages follow the id, not an offset: accounts may be created or deleted between two pages.
  for (let below = Number.MAX_SAFE_INTEGER; ; ) {
    const page = listSubAccounts(config, db, accountId, { limit: PAGE_SIZE, offset: 0, after: [below] })
    for (const { id, uuid, name } of page) {
      await yieldToEventLoop()
      entries.push(read(formatUuid(uuid), id, name))
    }
    const last = page.at(-1)
    if (!last) break
    below = last.id
  }
  return {
    ...toOverviewWire(addStats(entries.map(({ stats }) => stats))),
    total_accounts: entries.length,
    // Of accounts that sent the same, the parent comes first.
    accounts: entries
      .toSorted(
        (a, b) =>
          b.stats.sent - a.stats.sent ||
          Number(b.parent_account_id === null) - Number(a.parent_account_id === null) ||
          (a.account_id < b.account_id ? -1 : 1),
      )
      .slice(0, MAX_LISTED_ACCOUNTS)
      .map(({ stats, ...account }) => ({ ...account, ...toOverviewWire(stats) })),
  }
}

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
