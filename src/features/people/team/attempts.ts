/**
 * @module How often anybody may try to sign in, ask for a link or use one: by network, by user and network, and by
 * user, in memory. Wrong passwords make the next ones wait where they came from, so that an attacker locks nobody out;
 * those for one user from everywhere are limited too. A user who signs in from a network in which he was signed in
 * before has limits of his own there. Wrong codes of the second factor count from everywhere: only who has the password
 * can give one.
 */
import type { App } from '#features/core/app/app.ts'
import { tooMany } from '#platform/errors.ts'
import { createNetworkLimiter } from '#platform/http/network-limit.ts'
import { createRateLimiter, type Rate, type RateDecision } from '#platform/http/rate-limit.ts'
import { networkOf, networksOf } from '#platform/network.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { minutes, seconds } from '#platform/units.ts'
import type { HashTurn } from './hash-turns.ts'
import { isKnownNetwork } from './known-networks.ts'
import { userEmail } from './users.ts'

export interface Attempts {
  /**
   * Throws 429 when there were too many from the networks of this address.
   * @param email of who signs in: where that user was signed in before, only `requireUser` counts
   */
  requireNetwork(ipAddress: string, email?: string): void
  /** Throws 429 when there were too many for this user, whether there is one or not, or while wrong ones are to wait. */
  requireUser(email: string, ipAddress: string): void
  /** The turn in which the password of an attempt is checked. */
  hashTurn(email: string, ipAddress: string): HashTurn
  /** Makes the next attempts for this user wait, each time longer. */
  noteFailure(email: string, ipAddress: string): void
  noteSuccess(email: string, ipAddress: string): void
  /** Whether a code of the second factor is to be looked at. Nobody is told that it was not: that would tell that the password was right. */
  mayTryCode(email: string, ipAddress: string): boolean
  /** Of a code that was looked at. */
  noteCode(email: string, ipAddress: string, isRight: boolean): void
  /** Of a user with a new password: codes that were tried with the old one count no longer. */
  forgetCodes(email: string): void
  /** Whether one more mail may be sent to this address. */
  mayMail(email: string): boolean
  /** Whether a failure is to be told in the audit log: once a minute of a user. */
  mayTell(userId: number): boolean
}

/** Wrong ones that cost nothing, for people mistype; then a second, and twice as long each time. */
const FREE_FAILURES = 5
const LONGEST_WAIT_MS = minutes(1)
/** Of codes there are only a million, of which three are right at any time. */
const LONGEST_WAIT_FOR_CODES_MS = minutes(15)
const MOST_REMEMBERED = 100_000
/** A longer one is no address. */
const LONGEST_KEY = 320
/** The attempts for one user, from everywhere, are those of so many minutes of one network at once, then as many as those of one network. */
const BURST_OF_USER_MINUTES = 5
const MAILS: Rate = { burst: 5, ratePerSecond: 5 / 3600 }
const TELLING: Rate = { burst: 1, ratePerSecond: 1 / 60 }

interface Failures {
  count: number
  /** Monotonic. */
  untilMs: number
}

export function createAttempts(app: App): Attempts {
  const users = createRateLimiter(app.clock)
  const mails = createRateLimiter(app.clock)
  const telling = createRateLimiter(app.clock)
  /** The longest unchanged first. */
  const failures = new Map<string, Failures>()
  const { loginsPerMinute } = app.config
  const networks = createNetworkLimiter(app.clock, { burst: loginsPerMinute, ratePerSecond: loginsPerMinute / 60 })
  const ofUserThere: Rate = { burst: Math.ceil(loginsPerMinute / 2), ratePerSecond: loginsPerMinute / 120 }
  const ofUser: Rate = { burst: loginsPerMinute * BURST_OF_USER_MINUTES, ratePerSecond: loginsPerMinute / 60 }

  const userKey = (email: string): string => userEmail(email).slice(0, LONGEST_KEY)
  const codesKey = (email: string): string => `codes of ${userKey(email)}`
  const isKnownAt = (email: string, ipAddress: string): boolean =>
    isKnownNetwork(app.db, email, ipAddress, app.clock.now())
  /** Who tries: a user from a place. */
  const keyOf = (email: string, ipAddress: string): { readonly key: string; readonly isKnown: boolean } => {
    const isKnown = isKnownAt(email, ipAddress)
    return { key: `${userKey(email)} from ${isKnown ? networkOf(ipAddress) : widestNetworkOf(ipAddress)}`, isKnown }
  }
  const codesKeyOf = (email: string, ipAddress: string): string => {
    const { key, isKnown } = keyOf(email, ipAddress)
    return isKnown ? `codes of ${key}` : codesKey(email)
  }

  const waitMs = (key: string): number => (failures.get(key)?.untilMs ?? 0) - app.clock.monotonicMs()
  const fail = (key: string, longestMs: number): void => {
    const count = (failures.get(key)?.count ?? 0) + 1
    failures.delete(key)
    if (failures.size >= MOST_REMEMBERED) {
      const [oldest] = failures.keys()
      if (oldest !== undefined) failures.delete(oldest)
    }
    const delayMs = backoffDelayMs(count - FREE_FAILURES + 1, { minMs: seconds(1), maxMs: longestMs })
    failures.set(key, { count, untilMs: app.clock.monotonicMs() + delayMs })
  }

  return {
    requireNetwork(ipAddress, email) {
      if (email !== undefined && isKnownAt(email, ipAddress)) return
      requireOk(networks.take(ipAddress))
    },
    hashTurn(email, ipAddress) {
      const isKnown = isKnownAt(email, ipAddress)
      return { isKnown, owner: isKnown ? userKey(email) : widestNetworkOf(ipAddress) }
    },
    requireUser(email, ipAddress) {
      const { key, isKnown } = keyOf(email, ipAddress)
      const wait = waitMs(key)
      if (wait > 0) throw tooOften(wait / 1000)
      requireOk(users.take(key, 1, ofUserThere))
      if (!isKnown) requireOk(users.take(userKey(email), 1, ofUser))
    },
    noteFailure: (email, ipAddress) => fail(keyOf(email, ipAddress).key, LONGEST_WAIT_MS),
    noteSuccess: (email, ipAddress) => void failures.delete(keyOf(email, ipAddress).key),
    mayTryCode: (email, ipAddress) => waitMs(codesKeyOf(email, ipAddress)) <= 0,
    noteCode(email, ipAddress, isRight) {
      const key = codesKeyOf(email, ipAddress)
      if (isRight) failures.delete(key)
      else fail(key, LONGEST_WAIT_FOR_CODES_MS)
    },
    forgetCodes: (email) => void failures.delete(codesKey(email)),
    mayMail: (email) => mails.take(userKey(email), 1, MAILS).ok,
    mayTell: (userId) => telling.take(String(userId), 1, TELLING).ok,
  }
}

/** An IPv4 address, or the /48 of an IPv6 address: its owner has 65,536 networks. */
const widestNetworkOf = (ipAddress: string): string => networksOf(ipAddress).at(-1) ?? ipAddress

function requireOk(decision: RateDecision): void {
  if (!decision.ok) throw tooOften(decision.retryAfterSeconds)
}

const tooOften = (retryAfterSeconds: number) =>
  tooMany('rate_limited', 'There were too many attempts; wait before the next.', retryAfterSeconds)
