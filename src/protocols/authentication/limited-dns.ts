/**
 * @module DNS for the checks of one message. Limits the number of queries per check, and the time for all checks
 * together. A query beyond a limit fails like a DNS failure, so a check without an answer is a temperror.
 */
import { createMailauthResolver, type MailauthResolver } from '../dns/mailauth-resolver.ts'
import type { Resolver } from '../dns/resolver.ts'

/**
 * The returned function rejects with an Error that has a `code`, as node:dns does; see `createMailauthResolver`.
 * @param maxQueries maximum number of queries; later queries reject immediately
 * @param expired resolves at the deadline; then every open and later query rejects with ETIMEOUT
 */
export function createLimitedDns(resolver: Resolver, maxQueries: number, expired: Promise<void>): MailauthResolver {
  const lookUp = createMailauthResolver(resolver)
  let isExpired = false
  const expiry = expired.then((): never => {
    isExpired = true
    throw createTimeoutError()
  })
  // Every query handles this rejection; if there are no queries, it would be unhandled.
  expiry.catch(() => {})
  let remaining = maxQueries
  return async (name, type) => {
    if (isExpired) throw createTimeoutError()
    if (remaining <= 0) throw createTooManyError()
    remaining--
    return await Promise.race([expiry, lookUp(name, type)])
  }
}

const createTimeoutError = (): Error =>
  Object.assign(new Error('the time limit of all checks has passed'), { code: 'ETIMEOUT' })

/**
 * An error without a code, which mailauth treats as a DNS failure. In SPF, mailauth uses `spfResult` instead: the
 * result that RFC 7208 §4.6.4 prescribes for too many lookups.
 */
const createTooManyError = (): Error =>
  Object.assign(new Error('too many DNS queries'), {
    spfResult: { error: 'permerror', text: 'Too many DNS requests' },
  })
