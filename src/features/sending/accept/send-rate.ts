/**
 * @module Limits the send requests of an account per second: an email, a batch and a broadcast count as one each.
 * Counts in memory only.
 */

import { getSendingAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'

/** The headers `RateLimit-*` of a response; none where no limit applies. */
export type RateHeaders = Readonly<Record<string, string>>

/** For the `detail` of routes whose responses have them. */
export const RATE_HEADERS = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'] as const

/** Counts one request; throws a 429 `rate_limited` if it exceeds the rate. */
export type TakeRate = (actor: Actor) => RateHeaders

/** The plan `unlimited` has no limit. */
export function createSendRateLimiter(app: Pick<App, 'clock' | 'config' | 'db'>): TakeRate {
  const limiter = createRateLimiter(app.clock)
  return (actor) => {
    const account = getSendingAccount(app.config, app.db, actor.accountId)
    if (account.plan === 'unlimited') return {}
    const { sendRatePerSecond: ratePerSecond, sendBurst: burst } = app.config
    const taken = limiter.take(String(actor.accountId), 1, { ratePerSecond, burst })
    if (!taken.ok)
      throw new AppError(
        429,
        'rate_limited',
        `More than ${ratePerSecond} send requests per second; wait, or send batches.`,
        {
          retryAfterSeconds: taken.retryAfterSeconds,
          headers: describeRate(burst, 0, taken.retryAfterSeconds),
        },
      )
    return describeRate(burst, taken.remaining, Math.ceil((burst - taken.remaining) / ratePerSecond))
  }
}

/** @param resetSeconds until more is allowed, at the latest */
const describeRate = (limit: number, remaining: number, resetSeconds: number): RateHeaders => ({
  'ratelimit-limit': String(limit),
  'ratelimit-remaining': String(remaining),
  'ratelimit-reset': String(resetSeconds),
})
