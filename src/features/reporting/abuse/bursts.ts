/**
 * @module Detects bursts: many domains, API keys or sub-accounts that one account created within an hour. Counts audit
 * log entries, so deleting the objects changes nothing. Ignores what the operator created, and everything before the
 * account was last resumed. Reads only.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { hours } from '#platform/units.ts'

/** Audit log actions, each with the number within an hour that pauses the account. */
const THRESHOLDS: ReadonlyMap<string, number> = new Map([
  ['domain.created', 20],
  ['api_key.created', 30],
  ['sub_account.created', 20],
])

export const isCreation = (action: string): boolean => THRESHOLDS.has(action)

const WINDOW_MS = hours(1)

const sql = prepareStatements((db) => ({
  // Uses the index of account and action, newest first, and therefore reads no more rows than the threshold.
  nth: db.prepare<{ createdAt: number; resumedAt: number | null }, [number, string, number]>(
    `SELECT audit_logs.created_at AS createdAt, resumed_at AS resumedAt FROM audit_logs JOIN accounts ON accounts.id = account_id
     WHERE account_id = ? AND action = ? AND actor_type <> 'operator' ORDER BY audit_logs.id DESC LIMIT 1 OFFSET ?`,
  ),
  newest: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM audit_logs'),
}))

/** The threshold that an account reached within the last hour; undefined when it reached none. */
export function findBurstThreshold(app: App, db: Database, accountId: number, action: string): number | undefined {
  const threshold = THRESHOLDS.get(action)
  if (threshold === undefined) return undefined
  const nth = sql(db).nth.get(accountId, action, threshold - 1)
  if (!nth) return undefined
  const isWithin = nth.createdAt > app.clock.now() - WINDOW_MS && nth.createdAt > (nth.resumedAt ?? 0)
  return isWithin ? threshold : undefined
}

export const findNewestAuditId = (db: Database): number => sql(db).newest.get()?.id ?? 0
