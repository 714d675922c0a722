/**
 * @module Limits how often anyone may try to sign in, request a link or use one: by network, by user and network, and
 * by user, in memory. A wrong password delays the next attempts from the same network only, so that an attacker cannot
 * lock a user out; attempts for one user from all networks together are limited too. A user who signs in from a network
 * where they were signed in before has separate limits there. Wrong second-factor codes count from all networks: only
 * someone with the password can submit one.
 */
import type { App } from '#features/core/app/app.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import {
  createNetworkLimiter,
  createRateLimiter,
  type Rate,
  type RateDecision,
  requireTaken,
} from '#platform/http/rate-limit.ts'
import { networkOf, networksOf } from '#platform/net/network.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { minutes, seconds } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import type { HashRequest } from './passwords.ts'
import { isKnownNetwork } from './sessions.ts'

export type Attempts = ReturnType<typeof createAttempts>

/** The first failures cost nothing, since people mistype; then the delay is one second, doubled each time. */
const FREE_FAILURES = 5
const MAX_WAIT_MS = minutes(1)
/** There are only a million codes, and three of them are valid at any time. */
const MAX_CODE_WAIT_MS = minutes(15)
const MAX_CACHED_KEYS = 100_000
/** Longer texts are truncated; no address is longer. */
const MAX_EMAIL_KEY_LENGTH = 320
/** Attempts for one user from all networks: a burst of this many minutes of one network's rate, then that rate. */
const USER_BURST_MINUTES = 5
const MAIL_RATE: Rate = { burst: 5, ratePerSecond: 5 / 3600 }
const AUDIT_RATE: Rate = { burst: 1, ratePerSecond: 1 / 60 }

export function createAttempts(app: App) {
  const userLimiter = createRateLimiter(app.clock)
  const mailLimiter = createRateLimiter(app.clock)
  const auditLimiter = createRateLimiter(app.clock)
  /** With the monotonic time until which they delay further attempts; least recently changed first. */
  const failures = new Map<string, { readonly count: number; readonly untilMs: number }>()
  const { loginsPerMinute } = app.config
  const networks = createNetworkLimiter(app.clock, { burst: loginsPerMinute, ratePerSecond: loginsPerMinute / 60 })
  const networkUserRate: Rate = { burst: Math.ceil(loginsPerMinute / 2), ratePerSecond: loginsPerMinute / 120 }
  const userRate: Rate = { burst: loginsPerMinute * USER_BURST_MINUTES, ratePerSecond: loginsPerMinute / 60 }

  const toUserKey = (email: string): string => normaliseAddress(email).slice(0, MAX_EMAIL_KEY_LENGTH)
  const toCodesKey = (email: string): string => `codes of ${toUserKey(email)}`
  const isKnownFrom = (email: string, ipAddress: string): boolean =>
    isKnownNetwork(app.db, email, ipAddress, app.clock.now())
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
    const delayMs = backoffDelayMs(count - FREE_FAILURES + 1, { minMs: seconds(1), maxMs: maxMs })
    storeNewest(failures, key, { count, untilMs: app.clock.monotonicMs() + delayMs }, MAX_CACHED_KEYS)
  }

  return {
    /**
     * Throws 429 after too many attempts from the networks of this address.
     * @param email of the user who signs in: on a network where that user was signed in before, only `requireUser` counts
     */
    requireNetwork(ipAddress: string, email?: string): void {
      if (email !== undefined && isKnownFrom(email, ipAddress)) return
      requireAllowed(networks.take(ipAddress))
    },
    /** The owner under whose name the password check of an attempt waits in the hash queue. */
    toHashRequest(email: string, ipAddress: string): HashRequest {
      const isKnown = isKnownFrom(email, ipAddress)
      return { isKnown, owner: isKnown ? toUserKey(email) : findWidestNetwork(ipAddress) }
    },
    /**
     * Throws 429 after too many attempts for this user, who need not exist, or while failures delay the next one.
     * @param step counts apart what is no password, so that a sign-in with a code takes one of each
     */
    requireUser(email: string, ipAddress: string, step: '' | 'code of ' = ''): void {
      const { key, isKnown } = toAttemptKey(email, ipAddress)
      const wait = remainingWaitMs(key)
      if (wait > 0) requireAllowed({ ok: false, retryAfterSeconds: wait / 1000 })
      requireAllowed(userLimiter.take(step + key, 1, networkUserRate))
      if (!isKnown) requireAllowed(userLimiter.take(step + toUserKey(email), 1, userRate))
    },
    recordFailure: (email: string, ipAddress: string): void =>
      addFailure(toAttemptKey(email, ipAddress).key, MAX_WAIT_MS),
    recordSuccess: (email: string, ipAddress: string): void => void failures.delete(toAttemptKey(email, ipAddress).key),
    /** The response must not show that a code was not checked: that would reveal that the password was right. */
    canTryCode: (email: string, ipAddress: string): boolean =>
      remainingWaitMs(toNetworkCodesKey(email, ipAddress)) <= 0,
    recordCode(email: string, ipAddress: string, isRight: boolean): void {
      const key = toNetworkCodesKey(email, ipAddress)
      if (isRight) failures.delete(key)
      else addFailure(key, MAX_CODE_WAIT_MS)
    },
    /** Call it when a user has a new password: codes tried with the old password no longer count. */
    resetCodeFailures: (email: string): void => void failures.delete(toCodesKey(email)),
    canSendMail: (email: string): boolean => mailLimiter.take(toUserKey(email), 1, MAIL_RATE).ok,
    /** Whether to write a failure to the audit log: once a minute per user. */
    canAuditFailure: (userId: number): boolean => auditLimiter.take(String(userId), 1, AUDIT_RATE).ok,
  }
}

/** An IPv4 address, or the /48 of an IPv6 address: the owner of a /48 has 65,536 networks. */
const findWidestNetwork = (ipAddress: string): string => networksOf(ipAddress).at(-1) ?? ipAddress

const requireAllowed = (decision: RateDecision): void =>
  requireTaken(decision, 'Too many attempts; wait before you try again.')
