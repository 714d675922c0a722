/**
 * @module Enforces the limits of plans: numbers of domains, templates, webhooks, contact lists and sub-accounts; stored
 * contacts and bytes; sandbox recipients per day.
 * Each check runs in the transaction that creates the resource, so that concurrent requests cannot exceed a limit
 * together. A smaller plan removes nothing that the account already has.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { countNow, readCounter } from '#features/core/events/record.ts'
import { type Preparer, prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError, tooManyRequests } from '#platform/errors.ts'
import { days, MiB, type Millis } from '#platform/units.ts'
import { getPlanTerms, type LimitedResource, type PlanTerms, toPlan, UNLIMITED } from './plans.ts'
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
 * Prepares a count of an account's rows that stops at a limit.
 * @param from table and condition with `?` for the account. The condition must use an index without deleted rows,
 * because there may be any number of these.
 */
export const prepareCount = (db: Preparer, from: string) =>
  db.prepare<{ n: number }, [accountId: number, limit: number]>(
    `SELECT COUNT(*) AS n FROM (SELECT 1 FROM ${from} LIMIT ?)`,
  )

/**
 * Throws 403 `plan_limit_reached` unless the account's plan allows `more` of a resource. Call it in the transaction
 * that creates the resource.
 * @param count statement made by `prepareCount`
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
      ? `Plan ${plan} does not include ${RESOURCE_NAMES[limited]}; change to a larger plan.`
      : `Plan ${plan} allows ${max} ${RESOURCE_NAMES[limited]}; delete one you no longer need, or change to a larger plan.`,
  )
}

function readAccountTerms({ config }: Pick<App, 'config'>, { db }: Pick<Tx, 'db'>, accountId: number): PlanTerms {
  const row = sql(db).plan.get(accountId)
  if (!row) throw new Error(`account ${accountId} does not exist`)
  return getPlanTerms(config, toPlan(row.plan))
}

/**
 * Runs `store`, which stores contacts or bytes of an account, in the caller's transaction. Throws 403
 * `plan_limit_reached` when the account grew beyond its plan; the transaction must then roll back. Never throws when
 * nothing grew, so that an account above its limits can still change and delete.
 * @param fraction share of the contact limit that may be used
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
    `Plan ${plan} allows ${limit}; delete what you no longer need, or change to a larger plan.`,
  )

const SANDBOX_METRIC = 'accepted_sandbox'
const DAY_MS = days(1)

/** Sandbox recipients per day (UTC) of one account with its sub-accounts. */
const SANDBOX_PER_DAY = 10_000

/** Counters of a day (UTC) are stored under its first hour. */
export const startOfDay = (at: Millis): Millis => at - (at % DAY_MS)

/** Throws 429 `sandbox_limit` when the recipients exceed the daily limit of sandbox mail. */
export function requireSandboxQuota(
  { clock }: Pick<App, 'clock'>,
  db: Database,
  accountId: number,
  recipients: number,
): void {
  const now = clock.now()
  if (recipients === 0) return
  if (readCounter(db, getTenantId(db, accountId), SANDBOX_METRIC, startOfDay(now)) + recipients <= SANDBOX_PER_DAY)
    return
  throw tooManyRequests(
    'sandbox_limit',
    `The limit of ${SANDBOX_PER_DAY} sandbox recipients per day (UTC) is used up; verify the domain to leave the sandbox.`,
    (startOfDay(now) + DAY_MS - now) / 1000,
  )
}

/** Counts recipients of sandbox mail towards the daily limit; throws like `requireSandboxQuota`. */
export function consumeSandboxQuota(app: Pick<App, 'clock'>, tx: Tx, accountId: number, recipients: number): void {
  if (recipients === 0) return
  requireSandboxQuota(app, tx.db, accountId, recipients)
  countNow(tx, getTenantId(tx.db, accountId), SANDBOX_METRIC, startOfDay(app.clock.now()), recipients)
}
