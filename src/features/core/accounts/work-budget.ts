/**
 * @module Limits the work of an account with a token bucket over all routes. A recipient accepted, a row written or
 * read, 4 KiB of body and 50 values in it cost one unit each. Sub-accounts share the bucket of their parent, so more
 * sub-accounts do not buy more work. In memory only.
 */
import type { Database } from 'bun:sqlite'
import type { WorkBudget } from '#features/core/app/app.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { createRateLimiter, type Rate, requireTaken } from '#platform/http/rate-limit.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Clock } from '#platform/time/clock.ts'

/**
 * Cost of starting an export. The work of the export itself is not charged: it yields to other work, and the account
 * needs its budget for sending.
 */
export const EXPORT_WORK_UNITS = 1000

const sql = prepareStatements((db) => ({
  tenant: db.prepare<{ id: number }, [number]>('SELECT coalesce(parent_id, id) AS id FROM accounts WHERE id = ?'),
}))

/** Safe to cache: an account never changes its parent, and row ids are never reused while the process runs. */
const getTenantCache = perOwner((_: Database) => new Map<number, number>())
const MAX_CACHED_TENANTS = 100_000

/**
 * Row id under which an account shares scheduling, slots and memory: that of its parent, or its own if it has none.
 * Called several times per request.
 */
export function getTenantId(db: Database, accountId: number): number {
  const cache = getTenantCache(db)
  const cached = cache.get(accountId)
  if (cached !== undefined) return cached
  const found = sql(db).tenant.get(accountId)
  if (!found) return accountId
  if (cache.size >= MAX_CACHED_TENANTS) cache.clear()
  cache.set(accountId, found.id)
  return found.id
}

/**
 * Units of work that one account with its sub-accounts may cause: an accepted recipient, a row written or read, 4 KiB
 * of body and 50 values in it are one unit each.
 */
const WORK_RATE: Rate = { ratePerSecond: 20_000, burst: 200_000 }

/** @param rate another one for tests */
export function createWorkBudget(
  { clock, db }: { readonly clock: Pick<Clock, 'monotonicMs'>; readonly db: Database },
  rate = WORK_RATE,
): WorkBudget {
  const limiter = createRateLimiter(clock)
  return {
    spend(accountId, units) {
      if (units <= 0) return
      requireTaken(
        limiter.take(String(getTenantId(db, accountId)), units, rate),
        `The requests of this account cause more than ${rate.ratePerSecond} units of work per second (a recipient, a row, 4 KiB of body and 50 values in it are one each); wait as long as Retry-After says, or send smaller requests.`,
        'work_limit',
      )
    },
    charge(accountId, units) {
      if (units > 0) limiter.charge(String(getTenantId(db, accountId)), units, rate)
    },
  }
}
