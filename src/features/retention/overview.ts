/** @module What is kept since when, and what goes next: for whoever looks at the disk. Reads only. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { days } from '#platform/units.ts'
import { isOpen, STATUSES, statusCode } from '../emails/status.ts'
import { BUDGETED, type Budgeted, budgetsOf, type Cutoffs, cutoffsOf, type Measured } from './budgets.ts'
import { agedCutoffs, agesOf } from './cutoffs.ts'
import { cursorOf } from './walk.ts'

export type KeptKind = Budgeted | 'audit'

export interface Kept {
  readonly kind: KeptKind
  readonly usedBytes: number
  /** 0: no bound. */
  readonly maxBytes: number
  readonly maxDays: number
  /** Of the oldest that may go some day; undefined: there is nothing. */
  readonly oldestAt: Millis | undefined
  /** When it goes by its age; undefined: there is nothing. */
  readonly goesAt: Millis | undefined
  /** Over its budget: what is from before this time goes at the next run. */
  readonly overBefore: Millis | undefined
}

const OVER = STATUSES.filter((status) => !isOpen(status))
  .map(statusCode)
  .join(', ')

/** The oldest of each kind. @param db in a read transaction */
export function oldestOf(db: Database): Readonly<Record<KeptKind, Millis | undefined>> {
  const first = (sql: string, ...values: number[]): Millis | undefined =>
    db.query<{ at: Millis | null }, number[]>(sql).get(...values)?.at ?? undefined
  // What is not over does not go, and rows that the walk has passed have gone.
  const over = (after: number) =>
    first(`SELECT created_at AS at FROM emails WHERE id > ? AND status IN (${OVER}) ORDER BY id LIMIT 1`, after)
  return {
    content: over(cursorOf(db, 'content')),
    logs: over(cursorOf(db, 'emails')),
    events: first(
      'SELECT min((SELECT at FROM events e WHERE e.account_id = s.account_id ORDER BY seq LIMIT 1)) AS at FROM event_sequences s',
    ),
    inbound: first(
      `SELECT min(at) AS at FROM (SELECT * FROM (SELECT created_at AS at FROM inbound_emails ORDER BY id LIMIT 1)
       UNION ALL SELECT * FROM (SELECT created_at FROM mailbox_messages ORDER BY id LIMIT 1))`,
    ),
    audit: first('SELECT created_at AS at FROM audit_logs ORDER BY id LIMIT 1'),
  }
}

/** What is kept of each kind, for how long, and what goes next. @param db in the same read transaction as the measure */
export function keptKinds(db: Database, config: Config, measured: Measured, now: Millis): Kept[] {
  const ages: Readonly<Record<KeptKind, number>> = { ...agesOf(config), audit: config.auditDays }
  const budgets: Readonly<Record<KeptKind, number>> = { ...budgetsOf(config), audit: 0 }
  const used: Readonly<Record<KeptKind, number>> = { ...measured.use, audit: measured.database.groups.audit }
  const cutoffs: Cutoffs = cutoffsOf(db, measured, budgetsOf(config))
  const aged = agedCutoffs(config, now)
  const oldest = oldestOf(db)
  const kinds: readonly KeptKind[] = [...BUDGETED, 'audit']
  return kinds.map((kind) => {
    const oldestAt = oldest[kind]
    const cutoff = kind === 'audit' ? undefined : cutoffs[kind]
    return {
      kind,
      usedBytes: used[kind],
      maxBytes: budgets[kind],
      maxDays: ages[kind],
      oldestAt,
      goesAt: oldestAt === undefined ? undefined : oldestAt + days(ages[kind]),
      overBefore: kind !== 'audit' && cutoff !== undefined && cutoff > aged[kind] ? cutoff : undefined,
    }
  })
}
