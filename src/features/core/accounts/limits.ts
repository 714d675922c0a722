/**
 * @module What an account may have: domains, templates, webhooks, contact lists and sub-accounts by its plan, asked inside the transaction that makes one,
 * so that of any number of simultaneous requests exactly those succeed that fit; contacts and bytes that it may keep; sandbox mail of a day. What an
 * account has stays when its plan shrinks.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { countNow, readCounter } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError, tooManyRequests } from '#platform/errors.ts'
import { days, MiB } from '#platform/units.ts'
import { getPlanTerms, isPlan, type LimitedResource, type PlanTerms, UNLIMITED } from './plans.ts'
import { getTenantId } from './work-budget.ts'

const sql = prepareStatements((db) => ({
  plan: db.prepare<{ plan: string }, [number]>('SELECT plan FROM accounts WHERE id = ?'),
  stored: db.prepare<{ contacts: number; bytes: number }, [number]>(
    'SELECT contacts, bytes FROM stored_amounts WHERE account_id = ?',
  ),
}))

const RESOURCE_NAMES: Readonly<Record<LimitedResource, string>> = {
  domains: 'domains',
  templates: 'templates',
  webhooks: 'webhooks',
  contact_lists: 'contact lists',
  sub_accounts: 'sub-accounts',
}

/**
 * Prepares the count of an account's rows, no further than a limit.
 * @param from table and condition, with `?` for the account; an index of those that exist, because of deleted ones there may be any number
 */
export const prepareCount = (db: Database, from: string) =>
  db.prepare<{ n: number }, [accountId: number, limit: number]>(
    `SELECT COUNT(*) AS n FROM (SELECT 1 FROM ${from} LIMIT ?)`,
  )

/**
 * Throws 403 `plan_limit_reached` unless the account's plan has room for `more` of them. Call it in the transaction that makes them.
 * @param count of those that there are, as `prepareCount` prepares it
 */
export function requirePlanCapacity(
  app: Pick<App, 'config'>,
  tx: Pick<Tx, 'db'>,
  accountId: number,
  limited: LimitedResource,
  count: ReturnType<typeof prepareCount>,
  more = 1,
): void {
  const { plan, limits } = readAccountTerms(app, tx, accountId)
  const max = limits[limited]
  if (max >= UNLIMITED) return
  const has = count.get(accountId, max)?.n ?? 0
  if (has + more <= max) return
  throw new AppError(
    403,
    'plan_limit_reached',
    max === 0
      ? `Plan ${plan} has no ${RESOURCE_NAMES[limited]}; a larger plan has.`
      : `Plan ${plan} has room for ${max} ${RESOURCE_NAMES[limited]}; delete one that is not needed, or change to a larger plan.`,
  )
}

function readAccountTerms({ config }: Pick<App, 'config'>, { db }: Pick<Tx, 'db'>, accountId: number): PlanTerms {
  const row = sql(db).plan.get(accountId)
  if (!row) throw new Error(`account ${accountId} does not exist`)
  return getPlanTerms(config, isPlan(row.plan) ? row.plan : 'free')
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
  const { plan, limits } = readAccountTerms(app, tx, accountId)
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

const SANDBOX_METRIC = 'accepted_sandbox'
const DAY_MS = days(1)

/** The counter of a day (UTC) has the day's first hour. */
const startOfDay = (at: Millis): Millis => at - (at % DAY_MS)

/** Throws 429 `sandbox_limit` when the day has no place left for so many recipients of sandbox mail. */
export function requireSandboxQuota(
  { config, clock }: Pick<App, 'config' | 'clock'>,
  db: Database,
  accountId: number,
  recipients: number,
): void {
  const now = clock.now()
  if (recipients === 0) return
  if (readCounter(db, getTenantId(db, accountId), SANDBOX_METRIC, startOfDay(now)) + recipients <= config.sandboxPerDay)
    return
  throw tooManyRequests(
    'sandbox_limit',
    `The account has ${config.sandboxPerDay} recipients of sandbox mail a day (UTC), and they are used up; verify the domain, which ends its sandbox, or raise TASSIS_SANDBOX_PER_DAY.`,
    (startOfDay(now) + DAY_MS - now) / 1000,
  )
}

/** Takes recipients of sandbox mail from the day, or throws as `requireSandboxQuota` does. */
export function consumeSandboxQuota(
  app: Pick<App, 'config' | 'clock'>,
  tx: Tx,
  accountId: number,
  recipients: number,
): void {
  if (recipients === 0) return
  requireSandboxQuota(app, tx.db, accountId, recipients)
  countNow(tx, getTenantId(tx.db, accountId), SANDBOX_METRIC, startOfDay(app.clock.now()), recipients)
}
