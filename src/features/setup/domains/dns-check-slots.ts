/**
 * @module Limits how many DNS checks on request run concurrently for an account with its sub-accounts. A page that
 * checks every few seconds, or a script with many domains whose servers are silent, then delays no one else's checks:
 * they share one DNS client.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { errorResponses } from '#platform/http/access.ts'
import { perOwner } from '#platform/per-owner.ts'
import { Slots } from '#platform/queue/slots.ts'
import { seconds } from '#platform/units.ts'

const MAX_CONCURRENT_PER_ACCOUNT = 4
/** A check takes a fraction of a second when the servers respond, and up to some 20 seconds when they do not. */
const MAX_WAIT_MS = seconds(10)
const RETRY_AFTER_SECONDS = 10

/** For the `detail` of routes that check DNS. */
export const TOO_MANY_CHECKS = errorResponses({
  429: ['rate_limited', 'Too many DNS checks of the account run; wait as long as Retry-After says.'],
})

const getAccountSlots = perOwner((_: App['freshResolver']) => new Map<number, Slots>())

/** Runs a check once the account has a free slot; throws a 429 `rate_limited` after 10 seconds without one. */
export async function runDnsCheck<T>(app: App, accountId: number, check: () => Promise<T>): Promise<T> {
  const tenants = getAccountSlots(app.freshResolver)
  const tenant = getTenantId(app.db, accountId)
  const slots = tenants.get(tenant) ?? new Slots(MAX_CONCURRENT_PER_ACCOUNT)
  tenants.set(tenant, slots)
  const waiting = new AbortController()
  const timer = app.clock.after(MAX_WAIT_MS, () => waiting.abort())
  try {
    const done = await slots.run(waiting.signal, async () => {
      timer.cancel()
      return { result: await check() }
    })
    if (done) return done.result
  } finally {
    timer.cancel()
    if (slots.isIdle && tenants.get(tenant) === slots) tenants.delete(tenant)
  }
  throw tooManyRequests(
    'rate_limited',
    `At most ${MAX_CONCURRENT_PER_ACCOUNT} DNS checks of an account run at a time, and their DNS servers respond slowly; wait as long as Retry-After says.`,
    RETRY_AFTER_SECONDS,
  )
}
