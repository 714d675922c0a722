/** @module /v1/analytics and /v1/accounts/{id}/analytics: paths, shapes and one call each. */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires, requiresOrSupport } from '#features/core/app/http.ts'
import { hourOf } from '#features/core/events/record.ts'
import { getSubAccount } from '#features/people/sub-accounts/sub-accounts.ts'
import { toStreamMetric } from '#features/setup/streams/reputation.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { describeRoute } from '#platform/http/access.ts'
import { csvResponseSpec } from '#platform/http/download.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { Count, Text, Uuid, UuidOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { UTC } from '#platform/time/zones.ts'
import { hours, type Millis } from '#platform/units.ts'
import { createAccountQueue, findBusiestDomains } from './domains.ts'
import * as model from './model.ts'
import { Overview, PeriodBody, toOverviewWire } from './model.ts'
import * as periods from './period.ts'
import { type Period, PeriodQuery, parsePeriod, toPeriodWire } from './period.ts'
import {
  addStats,
  HOURLY_SOURCES,
  type HourRange,
  listDayRanges,
  readDays,
  type Source,
  sumHours,
  sumPeriod,
} from './stats.ts'

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
    const { accounts } = listSubAccounts(config, db, accountId, { limit: PAGE_SIZE, offset: 0, after: [below] })
    for (const { id, uuid, name } of accounts) {
      await yieldToEventLoop()
      entries.push(read(formatUuid(uuid), id, name))
    }
    const last = accounts.at(-1)
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
