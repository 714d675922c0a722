/**
 * @module How many domains, templates, webhooks, contact lists and sub-accounts an account may have: asked inside the transaction that makes one, so
 * that of any number of simultaneous requests exactly those succeed that fit. What an account has stays when its plan shrinks.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { isPlan, type Limited, planTerms, UNLIMITED } from './plans.ts'

/** Counts no further than the limit, in the index of those that exist: of deleted ones there may be any number. */
const counting = (db: Database, from: string) =>
  db.prepare<{ n: number }, [number, number]>(`SELECT COUNT(*) AS n FROM (SELECT 1 FROM ${from} LIMIT ?)`)

const sql = prepared((db) => ({
  plan: db.prepare<{ plan: string }, [number]>('SELECT plan FROM accounts WHERE id = ?'),
  domains: counting(db, 'domains INDEXED BY domains_account_name WHERE account_id = ? AND deleted_at IS NULL'),
  templates: counting(db, 'templates INDEXED BY templates_alias WHERE account_id = ? AND deleted_at IS NULL'),
  // Those of inbound routes come and go with their routes.
  webhooks: counting(db, 'webhooks WHERE account_id = ? AND deleted_at IS NULL AND route_id IS NULL'),
  contact_lists: counting(
    db,
    'contact_lists INDEXED BY contact_lists_name WHERE account_id = ? AND deleted_at IS NULL',
  ),
  sub_accounts: counting(db, 'accounts WHERE parent_id = ? AND deleted_at IS NULL'),
}))

const NAMES: Readonly<Record<Limited, string>> = {
  domains: 'domains',
  templates: 'templates',
  webhooks: 'webhooks',
  contact_lists: 'contact lists',
  sub_accounts: 'sub-accounts',
}

/** Throws 403 `plan_limit_reached` unless the account's plan has room for `more` of them. Call it in the transaction that makes them. */
export function requireRoom(
  app: Pick<App, 'config'>,
  tx: Pick<Tx, 'db'>,
  accountId: number,
  limited: Limited,
  more = 1,
): void {
  const row = sql(tx.db).plan.get(accountId)
  if (!row) throw new Error(`account ${accountId} does not exist`)
  const plan = isPlan(row.plan) ? row.plan : 'free'
  const most = planTerms(app.config, plan).limits[limited]
  if (most >= UNLIMITED) return
  const has = sql(tx.db)[limited].get(accountId, most)?.n ?? 0
  if (has + more <= most) return
  throw new AppError(
    403,
    'plan_limit_reached',
    most === 0
      ? `Plan ${plan} has no ${NAMES[limited]}; a larger plan has.`
      : `Plan ${plan} has room for ${most} ${NAMES[limited]}; delete one that is not needed, or change to a larger plan.`,
  )
}
