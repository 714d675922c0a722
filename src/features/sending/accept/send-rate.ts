/**
 * @module Limits the send requests of an account per second: emails, batches and broadcasts count one each. In memory
 * only.
 */

import { getSendingAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'

/** Counts one request; throws 429 `rate_limited` when it comes too soon. */
export type TakeRate = (actor: Actor) => void

/** Plan `unlimited` has no limit. */
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
        `More than ${app.config.sendRatePerSecond} send requests a second; wait, or send batches.`,
        taken.retryAfterSeconds,
      )
    }
  }
}
