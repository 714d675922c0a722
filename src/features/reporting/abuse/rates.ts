/**
 * @module Bounces and complaints of an account over the last 24 hours. Bounces come from counters by hour, complaints from their rows: only those that a known
 * feedback loop has proven count. What was before it was last resumed is not in them, nor is mail that was only captured. Reads; writes only what stood at a
 * resume.
 */
import type { Database } from 'bun:sqlite'
import { hourOf } from '#features/core/events/record.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { hours } from '#platform/units.ts'

export interface AbuseStats {
  /** Recipients whose receiver took it. */
  readonly delivered: number
  /** Recipients refused for good. */
  readonly bounced: number
  /** Complaints of proven feedback loops, whoever they name. */
  readonly complained: number
  /** Different addresses among those who complained. */
  readonly complainers: number
  /** Providers whose loops reported them. */
  readonly complaintProviders: number
}

/** Below these, complaints say nothing of an account: a single recipient, or one provider's filter, can make them. */
const MIN_COMPLAINTS = 5
const MIN_COMPLAINERS = 3
const MIN_COMPLAINT_PROVIDERS = 2

/** Hours that are summed, the running one included. */
const WINDOW_HOURS = 24

const sql = prepareStatements((db) => ({
  sum: db.prepare<{ value: number }, [number, string, number]>(
    'SELECT coalesce(sum(value), 0) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour >= ?',
  ),
  resumedAt: db.prepare<{ at: number | null }, [number]>('SELECT resumed_at AS at FROM accounts WHERE id = ?'),
  complaints: db.prepare<Pick<AbuseStats, 'complained' | 'complainers' | 'complaintProviders'>, [number, number]>(
    `SELECT count(*) AS complained, count(DISTINCT lower(address)) AS complainers, count(DISTINCT feedback_loop) AS complaintProviders
     FROM complaints LEFT JOIN recipients ON recipients.id = recipient_id
     WHERE complaints.account_id = ? AND complaints.created_at >= ? AND feedback_loop IS NOT NULL AND feedback_type <> 'not-spam'`,
  ),
  resumed: db.prepare<DeliveryCounts & { hour: number }, [number]>(
    'SELECT hour, delivered, bounced FROM resumed_figures WHERE account_id = ?',
  ),
  keep: db.prepare(
    `INSERT INTO resumed_figures (account_id, hour, delivered, bounced) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET hour = excluded.hour, delivered = excluded.delivered, bounced = excluded.bounced`,
  ),
}))

type DeliveryCounts = Pick<AbuseStats, 'delivered' | 'bounced'>

function countSince(db: Database, accountId: number, hour: number): DeliveryCounts {
  const sum = (figure: 'delivered' | 'bounced'): number =>
    sql(db).sum.get(accountId, toAccountMetric(figure), hour)?.value ?? 0
  return { delivered: sum('delivered'), bounced: sum('bounced') }
}

/** The figures that an account is judged by: of the last 24 hours by full hours, and of none before it was last resumed. */
export function readAbuseStats(db: Database, accountId: number, now: Millis): AbuseStats {
  const resumedAt = sql(db).resumedAt.get(accountId)?.at ?? 0
  const from = Math.max(hourOf(now) - WINDOW_HOURS + 1, hourOf(resumedAt))
  const complaints = sql(db).complaints.get(accountId, Math.max(from * hours(1), resumedAt + 1)) ?? NO_COMPLAINTS
  const counted = countSince(db, accountId, from)
  const before = sql(db).resumed.get(accountId)
  if (before?.hour !== from) return { ...counted, ...complaints }
  return { delivered: counted.delivered - before.delivered, bounced: counted.bounced - before.bounced, ...complaints }
}

const NO_COMPLAINTS = { complained: 0, complainers: 0, complaintProviders: 0 }

/** Keeps what the hour of a resume had counted until then. */
export function recordResumedStats(tx: Tx, accountId: number, now: Millis): void {
  const hour = hourOf(now)
  const { delivered, bounced } = countSince(tx.db, accountId, hour)
  sql(tx.db).keep.run(accountId, hour, delivered, bounced)
}

export type Excess = 'bounces' | 'complaints'

type Thresholds = Pick<Config, 'abuseBouncePercent' | 'abuseComplaintsPerMille' | 'abuseMinimumVolume'>

/** Which of the two rates is at or over its threshold; undefined: none, or there is too little mail to say. Pure. */
export function findExcess(figures: AbuseStats, thresholds: Thresholds): Excess | undefined {
  const { delivered, bounced, complained, complainers, complaintProviders } = figures
  const { abuseBouncePercent, abuseComplaintsPerMille, abuseMinimumVolume } = thresholds
  if (delivered + bounced < abuseMinimumVolume) return undefined
  if (bounced * 100 >= abuseBouncePercent * (delivered + bounced)) return 'bounces'
  if (complained < MIN_COMPLAINTS || complainers < MIN_COMPLAINERS || complaintProviders < MIN_COMPLAINT_PROVIDERS)
    return undefined
  // Complaints about mail of days before, with hardly any delivered since, say little of a rate: they need the volume too.
  if (delivered >= abuseMinimumVolume && complained * 1000 >= abuseComplaintsPerMille * delivered) return 'complaints'
  return undefined
}
