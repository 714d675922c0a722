/**
 * @module Limits the send requests of an account per second: an email, a batch and a broadcast count as one each.
 * Counts in memory only.
 */

import { getSendingAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'

/** Counts one request; throws a 429 `rate_limited` if it exceeds the rate. */
export type TakeRate = (actor: Actor) => void

/** The plan `unlimited` has no limit. */
export function createSendRateLimiter(app: Pick<App, 'clock' | 'config' | 'db'>): TakeRate {
  const limiter = createRateLimiter(app.clock)
  return (actor) => {
    const account = getSendingAccount(app.config, app.db, actor.accountId)
    if (account.plan === 'unlimited') return
    const taken = limiter.take(String(actor.accountId), 1, {
      ratePerSecond: app.config.sendRatePerSecond,
      burst: app.config.sendBurst,
    })
    if (!taken.ok) {
      throw tooManyRequests(
        'rate_limited',
        `More than ${app.config.sendRatePerSecond} send requests per second; wait, or send batches.`,
        taken.retryAfterSeconds,
      )
    }
  }
}
