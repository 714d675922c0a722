/**
 * @module Builds consistency rules that compare `counters` with a recount of the rows that they sum up. Hours of which
 * retention may have deleted rows are not compared.
 */
import { type ConsistencyRule, queryRule, type Row } from '#platform/db/consistency.ts'
import { hours } from '#platform/units.ts'
import { type HorizonKind, toHorizonKey } from './purge.ts'

const HOUR_MS = hours(1)

/** SQL: the time from which all rows of a kind still exist; retention may have deleted older ones. */
const horizonSql = (kind: HorizonKind): string =>
  `coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = '${toHorizonKey(kind)}'), 0)`

export const EVENTS_HORIZON = horizonSql('events')
export const LOGS_HORIZON = horizonSql('logs')
/** SQL: the time from which the rows of both kinds still exist, for counters whose recount reads both. */
export const COMMON_HORIZON = `max(${EVENTS_HORIZON}, ${LOGS_HORIZON})`

/** SQL: a condition on counters that excludes hours whose rows may have been deleted. */
export const hoursFromSql = (time: string): string => `hour * ${HOUR_MS} >= ${time}`

/** SQL: the hour of a time, as `counters` stores it. */
export const hourSql = (time: string): string => `${time} / ${HOUR_MS}`

interface CounterRule {
  readonly rule: string
  /** Prefix of the metrics; ends with a colon. */
  readonly prefix: string
  /** A query of (account_id, name, hour, n): `name` is the rest of the metric, `n` the recounted value. */
  readonly counted: string
  /** Condition on the counters to compare; default: all. */
  readonly where?: string
}

/** A rule for counters per account, name and hour. */
export const createCounterRule = ({ rule, prefix, counted, where = 'TRUE' }: CounterRule): ConsistencyRule =>
  queryRule({
    rule,
    sql: `SELECT account_id AS account, metric, hour, sum(stored) AS stored, sum(counted) AS counted FROM (
        SELECT account_id, metric, hour, value AS stored, 0 AS counted FROM counters
          WHERE metric >= '${prefix}' AND metric < '${prefix.slice(0, -1)};'
        UNION ALL SELECT account_id, '${prefix}' || name, hour, 0, n FROM (${counted}))
      WHERE ${where} GROUP BY 1, 2, 3 HAVING sum(stored) <> sum(counted)`,
    describe: describeCounter,
  })

export function describeCounter(r: Row): string {
  const hour = new Date(Number(r['hour']) * HOUR_MS).toISOString()
  return `account ${r['account']}, ${r['metric']}, hour ${hour}: the counter is ${r['stored']}, the recount ${r['counted']}`
}

interface TotalRule {
  readonly rule: string
  readonly metric: string
  /** Table whose rows are counted per account. */
  readonly table: string
}

/** A rule for one counter per account: the number of the account's rows in a table. */
export const createTotalRule = ({ rule, metric, table }: TotalRule): ConsistencyRule =>
  queryRule({
    rule,
    sql: `SELECT account_id AS account, sum(stored) AS stored, sum(counted) AS counted FROM (
        SELECT account_id, value AS stored, 0 AS counted FROM counters WHERE metric = '${metric}'
        UNION ALL SELECT account_id, 0, count(*) FROM ${table} GROUP BY 1)
      GROUP BY 1 HAVING sum(stored) <> sum(counted)`,
    describe: (r) => `account ${r['account']}: the counter is ${r['stored']}, the recount ${r['counted']}`,
  })
