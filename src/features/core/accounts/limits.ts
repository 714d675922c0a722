/**
 * @module How many domains, templates, webhooks, contact lists and sub-accounts an account may have: asked inside the transaction that makes one, so
 * that of any number of simultaneous requests exactly those succeed that fit. And how many contacts and bytes it may keep. What an account has stays when
 * its plan shrinks.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { MiB } from '#platform/units.ts'
import { isPlan, type Limited, type PlanTerms, planTerms, UNLIMITED } from './plans.ts'

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
  stored: db.prepare<{ contacts: number; bytes: number }, [number]>(
    'SELECT contacts, bytes FROM stored_amounts WHERE account_id = ?',
  ),
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
  const { plan, limits } = termsOf(app, tx, accountId)
  const most = limits[limited]
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

function termsOf({ config }: Pick<App, 'config'>, { db }: Pick<Tx, 'db'>, accountId: number): PlanTerms {
  const row = sql(db).plan.get(accountId)
  if (!row) throw new Error(`account ${accountId} does not exist`)
  return planTerms(config, isPlan(row.plan) ? row.plan : 'free')
}

/**
 * Runs `store`, which stores contacts or bytes of an account, inside the caller's transaction. Throws 403 `plan_limit_reached`, so that the transaction is
 * undone, when it made the account keep more than its plan has room for. What makes nothing grow is never refused: an account that has more than its
 * plan allows, because that was made smaller, can still change and delete.
 * @param fraction of the limit on contacts that may be used
 */
export function storeWithinPlan<T>(
  app: Pick<App, 'config'>,
  tx: Pick<Tx, 'db'>,
  accountId: number,
  store: () => T,
  fraction = 1,
): T {
  const before = sql(tx.db).stored.get(accountId) ?? NOTHING_STORED
  const value = store()
  const after = sql(tx.db).stored.get(accountId) ?? NOTHING_STORED
  if (after.contacts <= before.contacts && after.bytes <= before.bytes) return value
  const { plan, limits } = termsOf(app, tx, accountId)
  const { contacts, stored_mib: storedMib } = limits
  if (contacts < UNLIMITED && after.contacts > before.contacts && after.contacts > contacts * fraction)
    throw planLimitReached(plan, `${contacts} contacts`)
  if (storedMib < UNLIMITED && after.bytes > before.bytes && after.bytes > storedMib * MiB)
    throw planLimitReached(plan, `${storedMib} MiB of contacts, templates, newsletters and suppressions`)
  return value
}

const NOTHING_STORED = { contacts: 0, bytes: 0 }

const planLimitReached = (plan: string, limit: string): AppError =>
  new AppError(
    403,
    'plan_limit_reached',
    `Plan ${plan} has room for ${limit}; delete what is not needed, or change to a larger plan.`,
  )
