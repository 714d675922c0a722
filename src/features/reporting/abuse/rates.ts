/**
 * @module Reads an account's bounces and complaints of the last 24 hours. Bounces come from hourly counters. Complaints
 * come from their rows; only complaints from verified feedback loops count. Excludes captured mail, and everything
 * before the account was last resumed. Writes only the counters at a resume.
 */
import type { Database } from 'bun:sqlite'
import { hourOf, sumCounter } from '#features/core/events/record.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { hours, type Millis } from '#platform/units.ts'

export interface AbuseStats {
  /** Recipients whose server accepted the mail. */
  readonly delivered: number
  /** Recipients rejected permanently. */
  readonly bounced: number
  /** Complaints from verified feedback loops, for any recipient. */
  readonly complained: number
  readonly complainers: number
  readonly complaintProviders: number
}

/** Hard bounces per 100 delivered or bounced recipients at which an account is paused. */
export const MAX_BOUNCE_PERCENT = 10
/** Complaints per 1,000 delivered recipients at which an account is paused. */
export const MAX_COMPLAINTS_PER_MILLE = 3
/** Delivered or bounced recipients below which the two rates pause no account. */
export const MIN_VOLUME = 200

/** Minimum counts for a pause: fewer complaints may all come from one recipient, or from one provider's filter. */
const MIN_COMPLAINTS = 5
const MIN_COMPLAINERS = 3
const MIN_COMPLAINT_PROVIDERS = 2

/** Hours in the sum, including the current one. */
export const WINDOW_HOURS = 24

const sql = prepareStatements((db) => ({
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
  const sum = (metric: 'delivered' | 'bounced'): number => sumCounter(db, accountId, toAccountMetric(metric), hour)
  return { delivered: sum('delivered'), bounced: sum('bounced') }
}

/**
 * The stats of the current hour and the 23 hours before it. If the account was resumed in this time, only the stats
 * since then.
 */
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

/** Stores the counts of the current hour up to the resume, so that later stats can subtract them. */
export function recordResumedStats(tx: Tx, accountId: number, now: Millis): void {
  const hour = hourOf(now)
  const { delivered, bounced } = countSince(tx.db, accountId, hour)
  sql(tx.db).keep.run(accountId, hour, delivered, bounced)
}

export type Excess = 'bounces' | 'complaints'

/** The rate that reached its threshold; undefined if no rate did, or if the volume is too low. Pure. */
export function findExcess(stats: AbuseStats): Excess | undefined {
  const { delivered, bounced, complained, complainers, complaintProviders } = stats
  if (delivered + bounced < MIN_VOLUME) return undefined
  if (bounced * 100 >= MAX_BOUNCE_PERCENT * (delivered + bounced)) return 'bounces'
  if (complained < MIN_COMPLAINTS || complainers < MIN_COMPLAINERS || complaintProviders < MIN_COMPLAINT_PROVIDERS)
    return undefined
  // Late complaints about older mail distort the rate when little has been delivered since then, so enough deliveries
  // are required too.
  if (delivered >= MIN_VOLUME && complained * 1000 >= MAX_COMPLAINTS_PER_MILLE * delivered) return 'complaints'
  return undefined
}
