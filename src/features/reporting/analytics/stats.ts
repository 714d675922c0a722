/**
 * @module Reads the daily stats that `events/daily-stats` counts: sums and days of an account over a period. Never
 * reads an email or an event, so the cost depends on the number of days only. Other features get their stats here.
 */
import type { Database } from 'bun:sqlite'
import { ALL_DOMAINS, DAILY_COLUMNS, DAILY_FIELDS, type DailyStats } from '#features/core/events/daily-stats.ts'
import { MACHINE_METRICS } from '#features/core/events/record.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Period } from './period.ts'

/** Sums of the columns of `daily_figures`, named as in `DailyStats`. */
export const STATS_SUMS = DAILY_FIELDS.map((field) => `coalesce(sum(${DAILY_COLUMNS[field]}), 0) AS ${field}`).join(
  ', ',
)

const sql = prepareStatements((db) => ({
  // One seek per day: a range over the days would scan all of their domains.
  day: db.prepare<DailyStats, [number, number, string]>(
    `SELECT ${DAILY_FIELDS.map((field) => `${DAILY_COLUMNS[field]} AS ${field}`).join(', ')} FROM daily_figures WHERE account_id = ? AND day = ? AND domain = ?`,
  ),
  counted: db.prepare<{ total: number }, [number, string, number, number]>(
    'SELECT coalesce(sum(value), 0) AS total FROM counters WHERE account_id = ? AND metric = ? AND hour >= ? AND hour < ?',
  ),
}))

export const NO_STATS = Object.fromEntries(DAILY_FIELDS.map((field) => [field, 0])) as DailyStats

export interface DayStats extends DailyStats {
  /** Days since the epoch, UTC. */
  readonly day: number
}

/** The stats of each day of a period, in order; zeros for days without activity. At most 366 days: some 2 ms. */
export function readDays(db: Database, accountId: number, { fromDay, toDay }: Period): DayStats[] {
  const found: DayStats[] = []
  for (let day = fromDay; day <= toDay; day++)
    found.push({ ...(sql(db).day.get(accountId, day, ALL_DOMAINS) ?? NO_STATS), day })
  return found
}

/** The stats of a period, summed. */
export const sumStats = (db: Database, accountId: number, period: Period): DailyStats =>
  addFields(DAILY_FIELDS, readDays(db, accountId, period))

/** The sums of a period, with the pixel loads and clicks attributed to scanners, prefetchers and image proxies. */
export type PeriodStats = Readonly<Record<PeriodField, number>>
const PERIOD_FIELDS = [...DAILY_FIELDS, 'machineOpens', 'machineClicks'] as const
type PeriodField = (typeof PERIOD_FIELDS)[number]

const HOURS_PER_DAY = 24

/** `sumStats` with what machines did, which is counted hourly and retained as long as events. */
export function sumPeriod(db: Database, accountId: number, period: Period): PeriodStats {
  const totalOf = (metric: string): number =>
    sql(db).counted.get(accountId, metric, period.fromDay * HOURS_PER_DAY, (period.toDay + 1) * HOURS_PER_DAY)?.total ??
    0
  return {
    ...sumStats(db, accountId, period),
    machineOpens: totalOf(MACHINE_METRICS.opened),
    machineClicks: totalOf(MACHINE_METRICS.clicked),
  }
}

/** The sums of several accounts together. */
export const addStats = (all: readonly PeriodStats[]): PeriodStats => addFields(PERIOD_FIELDS, all)

const addFields = <Field extends string>(
  fields: readonly Field[],
  all: readonly Readonly<Record<Field, number>>[],
): Record<Field, number> =>
  Object.fromEntries(fields.map((field) => [field, all.reduce((sum, stats) => sum + stats[field], 0)])) as Record<
    Field,
    number
  >

/** Rates as fractions, 0..1; 0 when the denominator is 0. */
export interface Rates {
  /** Delivered divided by sent. */
  readonly delivery: number
  /** Bounced divided by sent. */
  readonly bounce: number
  /** Opened emails divided by delivered. */
  readonly open: number
  /** Clicked emails divided by delivered. */
  readonly click: number
}

/** Events of a period may concern earlier mail, so a rate is capped at 1. */
const toRate = (part: number, whole: number): number => (whole <= 0 ? 0 : Math.min(Math.max(part, 0) / whole, 1))

export const computeRates = ({ sent, delivered, bounced, openedEmails, clickedEmails }: DailyStats): Rates => ({
  delivery: toRate(delivered, sent),
  bounce: toRate(bounced, sent),
  open: toRate(openedEmails, delivered),
  click: toRate(clickedEmails, delivered),
})
