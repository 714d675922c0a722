/**
 * @module Consistency rules for analytics: compare `daily_figures` with a recount of emails, events and complaints. The
 * stats remain when retention removes such rows. So days before the horizon of retention are not compared, and for
 * later days the stored value must lie within the range that the remaining rows allow.
 */
import type { Database } from 'bun:sqlite'
import { COMMON_HORIZON } from '#features/core/events/counter-rules.ts'
import { DAILY_COLUMNS, DAILY_FIELDS } from '#features/core/events/daily-stats.ts'
import { toHorizonKey } from '#features/core/events/purge.ts'
import { type ConsistencyRule, describeRows, MAX_DIFFERENCES, queryRule } from '#platform/db/consistency.ts'
import { days } from '#platform/units.ts'
import { formatDay } from './period.ts'
import { recountSql } from './recount.ts'
import { HOURLY_SOURCES } from './stats.ts'

const DAY_MS = days(1)

/** Stats that always have a domain, so the sum over the domains equals the day's total. */
const ADDITIVE = ['sent', 'delivered', 'bounced', 'opens', 'clicks'] as const

const STORED = DAILY_FIELDS.map(
  (field) =>
    `SELECT account_id AS account, day, domain, '${field}' AS field, ${DAILY_COLUMNS[field]} AS n FROM daily_figures WHERE ${DAILY_COLUMNS[field]} <> 0`,
).join(' UNION ALL ')

interface Difference {
  readonly account: number
  readonly day: number
  readonly domain: string
  readonly field: string
  readonly stored: number
  readonly least: number
  readonly most: number
}

export const dailyStatsRule: ConsistencyRule = {
  rule: 'analytics by day and domain equal a recount',
  findDifferences(db: Database) {
    const wrong = db
      .query<Difference, []>(`${differencesSql(readHorizon(db))} LIMIT ${MAX_DIFFERENCES + 1}`)
      .all()
      .toSorted((a, b) => a.account - b.account || a.day - b.day)
    return describeRows(
      wrong,
      ({ account, day, domain, field, stored, least, most }) =>
        `account ${account}, ${formatDay(day)}, ${domain === '' ? 'all domains' : domain}, ${field}: ${stored} stored, counted ${
          least === most ? least : `${least} to ${most}`
        }`,
    )
  },
}

export const domainStatsRule = queryRule({
  rule: 'analytics of a day equal the sum of its domains',
  sql: `SELECT account_id AS account, day FROM daily_figures GROUP BY 1, 2
    HAVING ${ADDITIVE.map((field) => `sum(iif(domain = '', -${field}, ${field})) <> 0`).join(' OR ')}`,
  describe: (r) => `account ${r['account']}, ${formatDay(Number(r['day']))}: the sums differ`,
})

/** Values of counters by day, as the stats of that day. */
const HOURLY = Object.entries(HOURLY_SOURCES)
  .flatMap(([field, { counter, captured }]) => [
    { field, metric: counter, sign: '' },
    ...(captured === undefined ? [] : [{ field, metric: captured, sign: '-' }]),
  ])
  .map(
    ({ field, metric, sign }) =>
      `SELECT account_id AS account, hour / 24 AS day, '${field}' AS field, ${sign}value AS hours, 0 AS n FROM counters WHERE metric = '${metric}' AND hour > 0`,
  )
  .join(' UNION ALL ')

const TOTALS = DAILY_FIELDS.map(
  (field) => `SELECT account_id, day, '${field}', 0, ${DAILY_COLUMNS[field]} FROM daily_figures WHERE domain = ''`,
).join(' UNION ALL ')

export const hourStatsRule = queryRule({
  rule: 'analytics of a day equal the sum of its hours',
  sql: `SELECT account, day, field, sum(hours) AS hours, sum(n) AS n FROM (${HOURLY} UNION ALL ${TOTALS})
    WHERE day * ${DAY_MS} >= ${COMMON_HORIZON}
    GROUP BY 1, 2, 3 HAVING sum(hours) <> sum(n)`,
  describe: (r) =>
    `account ${r['account']}, ${formatDay(Number(r['day']))}, ${r['field']}: ${r['n']} stored, the hours sum up to ${r['hours']}`,
})

/**
 * Events and emails are complete from this time on; 0: none were removed. Read with a statement of its own, because
 * `tassis check` hides deleted accounts behind views, for which statements that write cannot be prepared.
 */
const readHorizon = (db: Database): number =>
  db
    .query<{ horizon: number }, []>(
      `SELECT coalesce(max(CAST(value AS INTEGER)), 0) AS horizon FROM meta WHERE key IN ('${toHorizonKey('events')}', '${toHorizonKey('logs')}')`,
    )
    .get()?.horizon ?? 0

/**
 * Selects stats outside their possible range. The minimum is a recount of the emails accepted since the horizon: none
 * of their rows were removed. The maximum is a recount of all remaining rows, plus the day's events whose email has
 * been deleted.
 */
function differencesSql(horizon: number): string {
  const recounts =
    horizon === 0
      ? `SELECT account, day, domain, field, 0 AS stored, n AS least, n AS most FROM (${recountSql()})`
      : `SELECT account, day, domain, field, 0 AS stored, n AS least, 0 AS most FROM (${recountSql(`AND emails.created_at >= ${horizon}`)})
         UNION ALL SELECT account, day, domain, field, 0, 0, n FROM (${recountSql()})`
  const orphans =
    horizon === 0
      ? '0'
      : `(SELECT count(*) FROM events WHERE events.account_id = account AND at / ${DAY_MS} = day AND email_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM emails WHERE emails.id = email_id))`
  return `SELECT * FROM (
      SELECT account, day, domain, field, sum(stored) AS stored, sum(least) AS least, sum(most) AS most
      FROM (SELECT account, day, domain, field, n AS stored, 0 AS least, 0 AS most FROM (${STORED}) UNION ALL ${recounts})
      WHERE day * ${DAY_MS} >= ${horizon} GROUP BY 1, 2, 3, 4 HAVING stored < least OR stored > most)
    WHERE stored < least OR stored > most + ${orphans}`
}
