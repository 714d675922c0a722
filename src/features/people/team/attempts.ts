/**
 * @module How often anybody may try to sign in, ask for a link or use one: by network, by user and network, and by
 * user, in memory. Wrong passwords make the next ones wait where they came from, so that an attacker locks nobody out;
 * those for one user from everywhere are limited too. A user who signs in from a network in which he was signed in
 * before has limits of his own there. Wrong codes of the second factor count from everywhere: only who has the password
 * can give one.
 */
import type { App } from '#features/core/app/app.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createNetworkLimiter } from '#platform/http/network-limit.ts'
import { createRateLimiter, type Rate, type RateDecision } from '#platform/http/rate-limit.ts'
import { networkOf, networksOf } from '#platform/network.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { minutes, seconds } from '#platform/units.ts'
import type { HashRequest } from './hash-scheduler.ts'
import { isKnownNetwork } from './known-networks.ts'
import { normaliseUserEmail } from './users.ts'

export interface Attempts {
  /**
   * Throws 429 when there were too many from the networks of this address.
   * @param email of who signs in: where that user was signed in before, only `requireUser` counts
   */
  requireNetwork(ipAddress: string, email?: string): void
  /** Throws 429 when there were too many for this user, whether there is one or not, or while wrong ones are to wait. */
  requireUser(email: string, ipAddress: string): void
  /** The turn in which the password of an attempt is checked. */
  toHashRequest(email: string, ipAddress: string): HashRequest
  /** Makes the next attempts for this user wait, each time longer. */
  recordFailure(email: string, ipAddress: string): void
  recordSuccess(email: string, ipAddress: string): void
  /** Whether a code of the second factor is to be looked at. Nobody is told that it was not: that would tell that the password was right. */
  canTryCode(email: string, ipAddress: string): boolean
  /** Of a code that was looked at. */
  recordCode(email: string, ipAddress: string, isRight: boolean): void
  /** Of a user with a new password: codes that were tried with the old one count no longer. */
  resetCodeFailures(email: string): void
  /** Whether one more mail may be sent to this address. */
  canSendMail(email: string): boolean
  /** Whether a failure is to be told in the audit log: once a minute of a user. */
  canAuditFailure(userId: number): boolean
}

/** Wrong ones that cost nothing, for people mistype; then a second, and twice as long each time. */
const FREE_FAILURES = 5
const MAX_WAIT_MS = minutes(1)
/** Of codes there are only a million, of which three are right at any time. */
const MAX_CODE_WAIT_MS = minutes(15)
const MAX_CACHED_KEYS = 100_000
/** A longer one is no address. */
const MAX_EMAIL_KEY_LENGTH = 320
/** The attempts for one user, from everywhere, are those of so many minutes of one network at once, then as many as those of one network. */
const USER_BURST_MINUTES = 5
const MAIL_RATE: Rate = { burst: 5, ratePerSecond: 5 / 3600 }
const AUDIT_RATE: Rate = { burst: 1, ratePerSecond: 1 / 60 }

interface Failures {
  count: number
  /** Monotonic. */
  untilMs: number
}

export function createAttempts(app: App): Attempts {
  const userLimiter = createRateLimiter(app.clock)
  const mailLimiter = createRateLimiter(app.clock)
  const auditLimiter = createRateLimiter(app.clock)
  /** The longest unchanged first. */
  const failures = new Map<string, Failures>()
  const { loginsPerMinute } = app.config
  const networks = createNetworkLimiter(app.clock, { burst: loginsPerMinute, ratePerSecond: loginsPerMinute / 60 })
  const networkUserRate: Rate = { burst: Math.ceil(loginsPerMinute / 2), ratePerSecond: loginsPerMinute / 120 }
  const userRate: Rate = { burst: loginsPerMinute * USER_BURST_MINUTES, ratePerSecond: loginsPerMinute / 60 }

  const toUserKey = (email: string): string => normaliseUserEmail(email).slice(0, MAX_EMAIL_KEY_LENGTH)
  const toCodesKey = (email: string): string => `codes of ${toUserKey(email)}`
  const isKnownFrom = (email: string, ipAddress: string): boolean =>
    isKnownNetwork(app.db, email, ipAddress, app.clock.now())
  /** Who tries: a user from a place. */
  const toAttemptKey = (email: string, ipAddress: string): { readonly key: string; readonly isKnown: boolean } => {
    const isKnown = isKnownFrom(email, ipAddress)
    return { key: `${toUserKey(email)} from ${isKnown ? networkOf(ipAddress) : findWidestNetwork(ipAddress)}`, isKnown }
  }
  const toNetworkCodesKey = (email: string, ipAddress: string): string => {
    const { key, isKnown } = toAttemptKey(email, ipAddress)
    return isKnown ? `codes of ${key}` : toCodesKey(email)
  }

  const remainingWaitMs = (key: string): number => (failures.get(key)?.untilMs ?? 0) - app.clock.monotonicMs()
  const addFailure = (key: string, maxMs: number): void => {
    const count = (failures.get(key)?.count ?? 0) + 1
    failures.delete(key)
    if (failures.size >= MAX_CACHED_KEYS) {
      const [oldest] = failures.keys()
      if (oldest !== undefined) failures.delete(oldest)
    }
    const delayMs = backoffDelayMs(count - FREE_FAILURES + 1, { minMs: seconds(1), maxMs: maxMs })
    failures.set(key, { count, untilMs: app.clock.monotonicMs() + delayMs })
  }

  return {
    requireNetwork(ipAddress, email) {
      if (email !== undefined && isKnownFrom(email, ipAddress)) return
      requireAllowed(networks.take(ipAddress))
    },
    toHashRequest(email, ipAddress) {
      const isKnown = isKnownFrom(email, ipAddress)
      return { isKnown, owner: isKnown ? toUserKey(email) : findWidestNetwork(ipAddress) }
    },
    requireUser(email, ipAddress) {
      const { key, isKnown } = toAttemptKey(email, ipAddress)
      const wait = remainingWaitMs(key)
      if (wait > 0) throw tooManyAttempts(wait / 1000)
      requireAllowed(userLimiter.take(key, 1, networkUserRate))
      if (!isKnown) requireAllowed(userLimiter.take(toUserKey(email), 1, userRate))
    },
    recordFailure: (email, ipAddress) => addFailure(toAttemptKey(email, ipAddress).key, MAX_WAIT_MS),
    recordSuccess: (email, ipAddress) => void failures.delete(toAttemptKey(email, ipAddress).key),
    canTryCode: (email, ipAddress) => remainingWaitMs(toNetworkCodesKey(email, ipAddress)) <= 0,
    recordCode(email, ipAddress, isRight) {
      const key = toNetworkCodesKey(email, ipAddress)
      if (isRight) failures.delete(key)
      else addFailure(key, MAX_CODE_WAIT_MS)
    },
    resetCodeFailures: (email) => void failures.delete(toCodesKey(email)),
    canSendMail: (email) => mailLimiter.take(toUserKey(email), 1, MAIL_RATE).ok,
    canAuditFailure: (userId) => auditLimiter.take(String(userId), 1, AUDIT_RATE).ok,
  }
}

/** An IPv4 address, or the /48 of an IPv6 address: its owner has 65,536 networks. */
const findWidestNetwork = (ipAddress: string): string => networksOf(ipAddress).at(-1) ?? ipAddress

function requireAllowed(decision: RateDecision): void {
  if (!decision.ok) throw tooManyAttempts(decision.retryAfterSeconds)
}

const tooManyAttempts = (retryAfterSeconds: number) =>
  tooManyRequests('rate_limited', 'There were too many attempts; wait before the next.', retryAfterSeconds)
