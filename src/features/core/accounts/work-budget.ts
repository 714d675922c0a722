/**
 * @module How much work an account may cause: a token bucket over all routes, in units of about a row. A recipient accepted, a row written or read and 4 KiB of
 * a body are one each. Sub-accounts share the bucket of their parent, so that making more of them buys nothing. In memory only.
 */
import type { Database } from 'bun:sqlite'
import type { WorkBudget } from '#features/core/app/app.ts'
import type { Clock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'
import { perOwner } from '#platform/per-owner.ts'

/** What the start of an export costs. The rest of it takes turns, and must not keep its own account from sending. */
export const EXPORT_WORK_UNITS = 1000

const sql = prepareStatements((db) => ({
  tenant: db.prepare<{ id: number }, [number]>('SELECT coalesce(parent_id, id) AS id FROM accounts WHERE id = ?'),
}))

/** Of accounts that were asked for. A parent is for life, and a row id is never given again. */
const getTenantCache = perOwner((_: Database) => new Map<number, number>())
const MAX_CACHED_TENANTS = 100_000

/** Row id of the account that an account takes turns and shares slots and memory as: its parent, or itself. Asked several times a request. */
export function getTenantId(db: Database, accountId: number): number {
  const known = getTenantCache(db)
  const cached = known.get(accountId)
  if (cached !== undefined) return cached
  const found = sql(db).tenant.get(accountId)
  if (!found) return accountId
  if (known.size >= MAX_CACHED_TENANTS) known.clear()
  known.set(accountId, found.id)
  return found.id
}

/** A setting of 0 units a second is no limit. */
export function createWorkBudget({
  clock,
  config,
  db,
}: {
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly config: Pick<Config, 'workPerSecond' | 'workBurst'>
  readonly db: Database
}): WorkBudget {
  const limiter = createRateLimiter(clock)
  const rate = { ratePerSecond: config.workPerSecond, burst: config.workBurst }
  const isLimited = rate.ratePerSecond > 0
  return {
    spend(accountId, units) {
      if (!isLimited || units <= 0) return
      const taken = limiter.take(String(getTenantId(db, accountId)), units, rate)
      if (!taken.ok)
        throw tooManyRequests(
          'work_limit',
          `The requests of this account cause more than ${rate.ratePerSecond} units of work a second (recipients, rows and 4 KiB of a body are one each); wait for the time in Retry-After, or send smaller requests.`,
          taken.retryAfterSeconds,
        )
    },
    charge(accountId, units) {
      if (isLimited && units > 0) limiter.charge(String(getTenantId(db, accountId)), units, rate)
    },
  }
}
