/**
 * @module Reads the stats of an account over a period: sums and days. Days of UTC come from the daily stats that
 * `events/daily-stats` counts, those of other zones from the hourly counters, which are counted in the same
 * transactions; `consistency.ts` compares both. Never reads an email or an event, so the cost depends on the number of
 * days only. Other features get their stats here.
 */
import type { Database } from 'bun:sqlite'
import {
  ALL_DOMAINS,
  DAILY_COLUMNS,
  DAILY_FIELDS,
  type DailyField,
  type DailyStats,
} from '#features/core/events/daily-stats.ts'
import { FIRST_METRICS, MACHINE_METRICS, toCapturedMetric } from '#features/core/events/record.ts'
import { toSandboxMetric, toStatusMetric } from '#features/sending/queue/settle.ts'
import { STATUSES, type Status } from '#features/sending/queue/status.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { listDayStarts, UTC } from '#platform/time/zones.ts'
import { type Period, toHours } from './period.ts'

/** Sums of the columns of `daily_figures`, named as in `DailyStats`. */
export const STATS_SUMS = DAILY_FIELDS.map((field) => `coalesce(sum(${DAILY_COLUMNS[field]}), 0) AS ${field}`).join(
  ', ',
)

const sql = prepareStatements((db) => ({
  // One seek per day: a range over the days would scan all of their domains.
  day: db.prepare<DailyStats, [number, number, string]>(
    `SELECT ${DAILY_FIELDS.map((field) => `${DAILY_COLUMNS[field]} AS ${field}`).join(', ')} FROM daily_figures WHERE account_id = ? AND day = ? AND domain = ?`,
  ),
  hours: db.prepare<{ total: number }, [string, number, string]>(
    `SELECT (SELECT coalesce(sum(value), 0) FROM counters WHERE account_id = ?2 AND metric = ?3
       AND hour >= json_extract(wanted.value, '$[0]') AND hour < json_extract(wanted.value, '$[1]')) AS total
     FROM json_each(?1) wanted ORDER BY wanted.key`,
  ),
  totals: db.prepare<{ metric: string; total: number }, [number, string, number, number]>(
    `SELECT metric, sum(value) AS total FROM counters WHERE account_id = ? AND metric IN (SELECT value FROM json_each(?))
     AND hour >= ? AND hour < ? GROUP BY metric`,
  ),
}))

/** The counter of a stat, and the counter of what must be subtracted. */
export interface Source {
  readonly counter: string
  readonly captured?: string
}

/** Counters of streams exclude captured mail, counters of events include it. */
export const HOURLY_SOURCES: Readonly<Record<DailyField, Source>> = {
  sent: { counter: toAccountMetric('sent') },
  delivered: { counter: toAccountMetric('delivered') },
  bounced: { counter: 'event:bounced', captured: toCapturedMetric('bounced') },
  opens: { counter: 'event:opened', captured: toCapturedMetric('opened') },
  clicks: { counter: 'event:clicked', captured: toCapturedMetric('clicked') },
  openedEmails: { counter: FIRST_METRICS.opened },
  clickedEmails: { counter: FIRST_METRICS.clicked },
  complaints: { counter: toAccountMetric('complained') },
  unsubscribes: { counter: 'event:unsubscribed', captured: toCapturedMetric('unsubscribed') },
}

/** Hours since the epoch; the end is not included. */
export type HourRange = readonly [from: number, end: number]

/** The sums of a counter over each range. */
export function sumHours(
  db: Database,
  accountId: number,
  ranges: readonly HourRange[],
  { counter, captured }: Source,
): number[] {
  const read = (metric: string) =>
    sql(db)
      .hours.all(JSON.stringify(ranges), accountId, metric)
      .map(({ total }) => total)
  const subtracted = captured === undefined ? [] : read(captured)
  return read(counter).map((total, index) => total - (subtracted[index] ?? 0))
}

/** The hours of each day of a period. */
export function listDayRanges({ fromDay, toDay, zone = UTC }: Period): HourRange[] {
  const starts = listDayStarts(zone, fromDay, toDay)
  return starts.slice(1).map((end, index) => [starts[index] ?? end, end])
}

/** The stats of each range, from the hourly counters. */
function readRanges(db: Database, accountId: number, ranges: readonly HourRange[]): DailyStats[] {
  const sums = DAILY_FIELDS.map((field) => sumHours(db, accountId, ranges, HOURLY_SOURCES[field]))
  return ranges.map(
    (_, at) => Object.fromEntries(DAILY_FIELDS.map((field, index) => [field, sums[index]?.[at] ?? 0])) as DailyStats,
  )
}

export const NO_STATS = Object.fromEntries(DAILY_FIELDS.map((field) => [field, 0])) as DailyStats

export interface DayStats extends DailyStats {
  /** Days since the epoch. */
  readonly day: number
}

/**
 * The stats of each day of a period, in order; zeros for days without activity. At most 366 days: some 2 ms, in zones
 * other than UTC some 20 ms.
 */
export function readDays(db: Database, accountId: number, period: Period): DayStats[] {
  const { fromDay, toDay, zone = UTC } = period
  if (zone !== UTC)
    return readRanges(db, accountId, listDayRanges(period)).map((stats, index) => ({ ...stats, day: fromDay + index }))
  const found: DayStats[] = []
  for (let day = fromDay; day <= toDay; day++)
    found.push({ ...(sql(db).day.get(accountId, day, ALL_DOMAINS) ?? NO_STATS), day })
  return found
}

/** The stats of a period, summed. */
export function sumStats(db: Database, accountId: number, period: Period): DailyStats {
  if ((period.zone ?? UTC) === UTC) return addFields(DAILY_FIELDS, readDays(db, accountId, period))
  return readRanges(db, accountId, [toHours(period)])[0] ?? NO_STATS
}

/** The statuses of each outcome of an email. Those of sandbox mail are all `captured`. */
const OUTCOME_STATUSES = {
  delivered: ['sent'],
  bounced: ['bounced'],
  failed: ['failed'],
  uncertain: ['uncertain'],
  suppressed: ['rejected'],
  cancelled: ['cancelled'],
  waiting: ['queued', 'scheduled', 'processing', 'draft'],
} as const satisfies Readonly<Record<string, readonly Status[]>>
const STATUS_OUTCOMES = Object.keys(OUTCOME_STATUSES) as (keyof typeof OUTCOME_STATUSES)[]
/** What became of emails. */
export const OUTCOMES = [...STATUS_OUTCOMES, 'captured'] as const
type Outcome = (typeof OUTCOMES)[number]

/** The sums of a period, with the pixel loads and clicks attributed to scanners, prefetchers and image proxies. */
export type PeriodStats = Readonly<Record<PeriodField, number>> & {
  /** What became of the stored emails that were accepted in the period. */
  readonly outcomes: Readonly<Record<Outcome, number>>
}
const PERIOD_FIELDS = [...DAILY_FIELDS, 'machineOpens', 'machineClicks'] as const
type PeriodField = (typeof PERIOD_FIELDS)[number]

/** The counters of what machines did and of statuses, as JSON. */
const HOURLY_METRICS = JSON.stringify([
  MACHINE_METRICS.opened,
  MACHINE_METRICS.clicked,
  ...STATUSES.flatMap((status) => [toStatusMetric(status), toSandboxMetric(status)]),
])

/** `sumStats` with what machines did, which is counted hourly and retained as long as events, and with outcomes. */
export function sumPeriod(db: Database, accountId: number, period: Period): PeriodStats {
  const totals = new Map(
    sql(db)
      .totals.all(accountId, HOURLY_METRICS, ...toHours(period))
      .map(({ metric, total }) => [metric, total]),
  )
  const totalOf = (metric: string): number => totals.get(metric) ?? 0
  const sumOf = (statuses: readonly Status[], read: (status: Status) => number) =>
    statuses.reduce((sum, status) => sum + read(status), 0)
  return {
    ...sumStats(db, accountId, period),
    machineOpens: totalOf(MACHINE_METRICS.opened),
    machineClicks: totalOf(MACHINE_METRICS.clicked),
    outcomes: {
      ...(Object.fromEntries(
        STATUS_OUTCOMES.map((outcome) => [
          outcome,
          sumOf(
            OUTCOME_STATUSES[outcome],
            (status) => totalOf(toStatusMetric(status)) - totalOf(toSandboxMetric(status)),
          ),
        ]),
      ) as Record<keyof typeof OUTCOME_STATUSES, number>),
      captured: sumOf(STATUSES, (status) => totalOf(toSandboxMetric(status))),
    },
  }
}

/** The sums of several accounts together. */
export const addStats = (all: readonly PeriodStats[]): PeriodStats => ({
  ...addFields(PERIOD_FIELDS, all),
  outcomes: addFields(
    OUTCOMES,
    all.map(({ outcomes }) => outcomes),
  ),
})

const addFields = <Field extends string>(
  fields: readonly Field[],
  all: readonly Readonly<Record<Field, number>>[],
): Record<Field, number> =>
  Object.fromEntries(fields.map((field) => [field, all.reduce((sum, stats) => sum + stats[field], 0)])) as Record<
    Field,
    number
  >

/** Events of a period may concern earlier mail, so a rate is capped at 1. */
const toRate = (part: number, whole: number): number => (whole <= 0 ? 0 : Math.min(Math.max(part, 0) / whole, 1))

/** Rates as fractions, 0..1; 0 when the denominator is 0. */
export const computeRates = (stats: DailyStats) => ({
  delivery: toRate(stats.delivered, stats.sent),
  bounce: toRate(stats.bounced, stats.sent),
  complaint: toRate(stats.complaints, stats.delivered),
  open: toRate(stats.openedEmails, stats.delivered),
  click: toRate(stats.clickedEmails, stats.delivered),
})
