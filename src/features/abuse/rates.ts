/**
 * @module Bounces and complaints of an account over the last 24 hours, from counters by hour. What was before it was last resumed is not in them, nor
 * is mail that was only captured. Reads; writes only what stood at a resume.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { hourOf } from '../events/record.ts'
import { accountFigure } from '../streams/figures.ts'

export interface Figures {
  /** Recipients whose receiver took it. */
  readonly delivered: number
  /** Recipients refused for good. */
  readonly bounced: number
  /** Complaints, whoever they name. */
  readonly complained: number
}

/** Hours that are summed, the running one included. */
const HOURS = 24

const sql = prepared((db) => ({
  sum: db.prepare<{ value: number }, [number, string, number]>(
    'SELECT coalesce(sum(value), 0) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour >= ?',
  ),
  resumedAt: db.prepare<{ at: number | null }, [number]>('SELECT resumed_at AS at FROM accounts WHERE id = ?'),
  resumed: db.prepare<Figures & { hour: number }, [number]>(
    'SELECT hour, delivered, bounced, complained FROM resumed_figures WHERE account_id = ?',
  ),
  keep: db.prepare(
    `INSERT INTO resumed_figures (account_id, hour, delivered, bounced, complained) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET hour = excluded.hour, delivered = excluded.delivered, bounced = excluded.bounced, complained = excluded.complained`,
  ),
}))

function figuresSince(db: Database, accountId: number, hour: number): Figures {
  const sum = (figure: 'delivered' | 'bounced' | 'complained'): number =>
    sql(db).sum.get(accountId, accountFigure(figure), hour)?.value ?? 0
  return { delivered: sum('delivered'), bounced: sum('bounced'), complained: sum('complained') }
}

/** The figures that an account is judged by: of the last 24 hours by full hours, and of none before it was last resumed. */
export function figuresOf(db: Database, accountId: number, now: Millis): Figures {
  const resumedAt = sql(db).resumedAt.get(accountId)?.at ?? 0
  const from = Math.max(hourOf(now) - HOURS + 1, hourOf(resumedAt))
  const figures = figuresSince(db, accountId, from)
  const before = sql(db).resumed.get(accountId)
  if (before?.hour !== from) return figures
  return {
    delivered: figures.delivered - before.delivered,
    bounced: figures.bounced - before.bounced,
    complained: figures.complained - before.complained,
  }
}

/** Keeps what the hour of a resume had counted until then. */
export function keepResumedFigures(tx: Tx, accountId: number, now: Millis): void {
  const hour = hourOf(now)
  const { delivered, bounced, complained } = figuresSince(tx.db, accountId, hour)
  sql(tx.db).keep.run(accountId, hour, delivered, bounced, complained)
}

export type Excess = 'bounces' | 'complaints'

type Thresholds = Pick<Config, 'abuseBouncePercent' | 'abuseComplaintsPerMille' | 'abuseMinimumVolume'>

/** Which of the two rates is at or over its threshold; undefined: none, or there is too little mail to say. Pure. */
export function excessOf({ delivered, bounced, complained }: Figures, thresholds: Thresholds): Excess | undefined {
  const { abuseBouncePercent, abuseComplaintsPerMille, abuseMinimumVolume } = thresholds
  if (delivered + bounced < abuseMinimumVolume) return undefined
  if (bounced * 100 >= abuseBouncePercent * (delivered + bounced)) return 'bounces'
  // Complaints about mail of days before, with hardly any delivered since, say little of a rate: they need the volume too.
  if (delivered >= abuseMinimumVolume && complained * 1000 >= abuseComplaintsPerMille * delivered) return 'complaints'
  return undefined
}
