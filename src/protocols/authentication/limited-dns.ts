/**
 * @module DNS for the checks of one message: each check may ask so many questions, and none is waited for past the end of the time for all of them.
 * What is refused looks like DNS that failed, so that a check without an answer is a temperror.
 */
import { createMailauthResolver, type MailauthResolver } from '../dns/mailauth-resolver.ts'
import type { Resolver } from '../dns/resolver.ts'

export interface LimitedDns {
  /** Rejects with an Error whose `code` tells why, as that of node:dns; see `createMailauthResolver`. */
  readonly ask: MailauthResolver
  /** Lower-case names about which nothing could be learnt. */
  readonly failedNames: ReadonlySet<string>
}

/** The name exists without such a record, or does not exist: answers, and no failures. */
const ABSENCE_CODES = new Set<unknown>(['ENODATA', 'ENOTFOUND'])

/**
 * @param most questions; whatever comes after them rejects at once
 * @param ended resolves when the time is over, whereupon every open question and each later one rejects with ETIMEOUT
 */
export function createLimitedDns(resolver: Resolver, maxQueries: number, expired: Promise<void>): LimitedDns {
  const lookUp = createMailauthResolver(resolver)
  const failedNames = new Set<string>()
  let isExpired = false
  const expiry = expired.then((): never => {
    isExpired = true
    throw createTimeoutError()
  })
  // Whoever asks hears of it; without questions nobody does.
  expiry.catch(() => {})
  let remaining = maxQueries
  return {
    failedNames,
    async ask(name, type) {
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
  Object.assign(new Error('the time for all checks is over'), { code: 'ETIMEOUT' })

/** Without a code, which mailauth takes for a failure; what it says of SPF is what RFC 7208 §4.6.4 has for too many look-ups. */
const createTooManyError = (): Error =>
  Object.assign(new Error('too many DNS questions'), {
    spfResult: { error: 'permerror', text: 'Too many DNS requests' },
  })

export const readErrorCode = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
