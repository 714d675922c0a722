/** @module Reads stored mail after a round over a read-only connection, beside the running service. */
import type { Database } from 'bun:sqlite'
import { dailyStatsRule, domainStatsRule } from '#features/reporting/analytics/consistency.ts'
import { STATUSES, type Status, statusName } from '#features/sending/queue/status.ts'

export interface StoredMail {
  readonly address: string
  readonly status: Status
  readonly attempts: number
  readonly nextAt: number | null
}

interface Row {
  address: string
  status: number
  attempts: number
  nextAt: number | null
}

/** Reads all recipients by local part; `twice` lists addresses that are stored twice. */
export function readStoredMail(db: Database): { byId: Map<string, StoredMail>; twice: string[] } {
  const rows = db.query<Row, []>('SELECT address, status, attempts, next_at AS nextAt FROM recipients').all()
  const byId = new Map<string, StoredMail>()
  const twice: string[] = []
  for (const { address, status, attempts, nextAt } of rows) {
    const id = address.slice(0, address.indexOf('@'))
    if (byId.has(id)) twice.push(id)
    byId.set(id, { address, status: statusName(status), attempts, nextAt })
  }
  return { byId, twice }
}

/** Lists the recipients in delivery, by local part. */
export const listProcessing = (db: Database): ReadonlySet<string> =>
  new Set(
    db
      .query<{ address: string }, []>(`SELECT address FROM recipients WHERE status = ${STATUSES.indexOf('processing')}`)
      .all()
      .map(({ address }) => address.slice(0, address.indexOf('@'))),
  )

/** Counts open recipients that can be delivered now, without those that wait for a later attempt. */
export const countOpen = (db: Database, now: number): number =>
  db
    .query<{ n: number }, [number, number]>(
      `SELECT COUNT(*) AS n FROM recipients WHERE status = ${STATUSES.indexOf('processing')} OR (next_at IS NOT NULL AND (next_at <= ? OR attempts = 0 OR next_at > ?))`,
    )
    .get(now, now + MAX_RETRY_MS)?.n ?? 0

/** A first retry is due within this time. */
const MAX_RETRY_MS = 24 * 3_600_000

/** Lists inconsistencies, one sentence each; call it when nothing is being written. */
export function findImbalances(db: Database): string[] {
  const found: string[] = []
  const counted = db
    .query<{ status: number; n: number }, []>('SELECT status, COUNT(*) AS n FROM emails GROUP BY status')
    .all()
  const totals = db
    .query<{ metric: string; value: number }, []>(
      "SELECT metric, SUM(value) AS value FROM counters WHERE metric LIKE 'email:%' GROUP BY metric",
    )
    .all()
  for (const [code, status] of STATUSES.entries()) {
    const rows = counted.find((row) => row.status === code)?.n ?? 0
    const counter = totals.find((total) => total.metric === `email:${status}`)?.value ?? 0
    if (rows !== counter) found.push(`${rows} emails are ${status}, but the counter says ${counter}`)
  }
  const gaps = db
    .query<{ id: number; n: number; last: number; told: number }, []>(
      `SELECT events.account_id AS id, COUNT(*) AS n, MAX(seq) AS last, last_seq AS told FROM events
       JOIN event_sequences ON event_sequences.account_id = events.account_id GROUP BY events.account_id`,
    )
    .all()
  for (const { id, n, last, told } of gaps) {
    if (n !== last || last !== told)
      found.push(`account ${id} has ${n} events, the last is ${last}, but its sequence says ${told}`)
  }
  const differing = db
    .query<{ n: number }, []>(
      'SELECT COUNT(*) AS n FROM emails JOIN recipients ON recipients.email_id = emails.id WHERE recipient_count = 1 AND emails.status <> recipients.status',
    )
    .get()?.n
  if (differing !== 0) found.push(`${differing} emails have another status than their only recipient`)
  const events = db
    .query<{ type: string; n: number }, []>(
      `SELECT 'sent' AS type, COUNT(*) AS n FROM events WHERE type = 3 UNION ALL SELECT 'uncertain', COUNT(*) FROM events WHERE type = 13`,
    )
    .all()
  for (const { type, n } of events) {
    const rows = counted.find((row) => statusName(row.status) === type)?.n ?? 0
    if (rows !== n) found.push(`${rows} emails are ${type}, but ${n} events say so`)
  }
  for (const { findDifferences } of [dailyStatsRule, domainStatsRule]) found.push(...findDifferences(db))
  const check = db.query<{ quick_check: string }, []>('PRAGMA quick_check').all()
  if (check[0]?.quick_check !== 'ok') found.push(`quick_check: ${check[0]?.quick_check}`)
  return found
}
