/**
 * @module DNS for the checks of one message. Limits the number of queries per check, and the time for all checks
 * together. A query beyond a limit fails like a DNS failure, so a check without an answer is a temperror.
 */
import { createMailauthResolver, type MailauthResolver } from '../dns/mailauth-resolver.ts'
import type { Resolver } from '../dns/resolver.ts'

export type LimitedDns = ReturnType<typeof createLimitedDns>

/**
 * Codes for a name that exists without such a record, and for a name that does not exist. Both are answers, not
 * failures.
 */
const ABSENCE_CODES = new Set<unknown>(['ENODATA', 'ENOTFOUND'])

/**
 * @param maxQueries maximum number of queries; later queries reject immediately
 * @param expired resolves at the deadline; then every open and later query rejects with ETIMEOUT
 */
export function createLimitedDns(resolver: Resolver, maxQueries: number, expired: Promise<void>) {
  const lookUp = createMailauthResolver(resolver)
  const failedNames = new Set<string>()
  let isExpired = false
  const expiry = expired.then((): never => {
    isExpired = true
    throw createTimeoutError()
  })
  // Every query handles this rejection; if there are no queries, it would be unhandled.
  expiry.catch(() => {})
  let remaining = maxQueries
  return {
    /** Lower-case names whose lookup failed. */
    failedNames: failedNames as ReadonlySet<string>,
    /** Rejects with an Error that has a `code`, as node:dns does; see `createMailauthResolver`. */
    async ask(name: string, type: string): ReturnType<MailauthResolver> {
      try {
        if (isExpired) throw createTimeoutError()
        if (remaining <= 0) throw createTooManyError()
        remaining--
        return await Promise.race([expiry, lookUp(name, type)])
      } catch (error) {
        if (!ABSENCE_CODES.has(readErrorCode(error))) failedNames.add(name.toLowerCase())
        throw error
      }
    },
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

const readErrorCode = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
