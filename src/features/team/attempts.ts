/**
 * @module How often anybody may try to sign in, ask for a link or use one: by network and by user, in memory. A network from which the user is signed in
 * already has a count of its own, so that strangers who try his password do not lock him out.
 */
import type { App } from '#features/app.ts'
import { tooMany } from '#platform/errors.ts'
import { createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { networkOf } from '#platform/network.ts'
import { listSessions } from './sessions.ts'
import { findUserByEmail, userEmail } from './users.ts'

export interface Attempts {
  /** Throws 429 when there were too many from this address. */
  requireNetwork(ipAddress: string): void
  /** Throws 429 when there were too many for this user, whether there is one or not, or while wrong ones are to wait. */
  requireUser(email: string, ipAddress: string): void
  /** Makes the next attempts for this user wait, each time longer. */
  noteFailure(email: string, ipAddress: string): void
  noteSuccess(email: string, ipAddress: string): void
  /** Whether one more mail may be sent to this address. */
  mayMail(email: string): boolean
  /** Whether a failure is to be told in the audit log: once a minute of a user. */
  mayTell(userId: number): boolean
}

/** Wrong passwords that cost nothing: people mistype. */
const FREE_FAILURES = 5
const LONGEST_WAIT_SECONDS = 60
const MOST_REMEMBERED = 100_000
const MAILS: Rate = { burst: 5, ratePerSecond: 5 / 3600 }
const TELLING: Rate = { burst: 1, ratePerSecond: 1 / 60 }

interface Failures {
  count: number
  /** Monotonic. */
  untilMs: number
}

export function createAttempts(app: App): Attempts {
  const limiter = createRateLimiter(app.clock)
  const mails = createRateLimiter(app.clock)
  const telling = createRateLimiter(app.clock)
  /** The longest unchanged first. */
  const failures = new Map<string, Failures>()
  const { loginsPerMinute } = app.config
  const ofNetwork: Rate = { burst: loginsPerMinute, ratePerSecond: loginsPerMinute / 60 }
  const ofUser: Rate = { burst: Math.ceil(loginsPerMinute / 2), ratePerSecond: loginsPerMinute / 120 }

  const take = (key: string, rate: Rate): void => {
    const decision = limiter.take(key, 1, rate)
    if (!decision.ok) throw tooOften(decision.retryAfterSeconds)
  }
  const keyOf = (email: string, ipAddress: string): string => {
    const key = userEmail(email)
    const user = findUserByEmail(app.db, key)
    const network = networkOf(ipAddress)
    const isKnown =
      user !== undefined &&
      listSessions(app.db, user.id, app.clock.now()).some((session) => networkOf(session.ipAddress ?? '') === network)
    return isKnown ? `user ${key} from ${network}` : `user ${key}`
  }

  return {
    requireNetwork: (ipAddress) => take(`network ${networkOf(ipAddress)}`, ofNetwork),
    requireUser(email, ipAddress) {
      const key = keyOf(email, ipAddress)
      const waitMs = (failures.get(key)?.untilMs ?? 0) - app.clock.monotonicMs()
      if (waitMs > 0) throw tooOften(waitMs / 1000)
      take(key, ofUser)
    },
    noteFailure(email, ipAddress) {
      const key = keyOf(email, ipAddress)
      const count = (failures.get(key)?.count ?? 0) + 1
      failures.delete(key)
      if (failures.size >= MOST_REMEMBERED) {
        const [oldest] = failures.keys()
        if (oldest !== undefined) failures.delete(oldest)
      }
      const waitSeconds = count < FREE_FAILURES ? 0 : Math.min(LONGEST_WAIT_SECONDS, 2 ** (count - FREE_FAILURES))
      failures.set(key, { count, untilMs: app.clock.monotonicMs() + waitSeconds * 1000 })
    },
    noteSuccess: (email, ipAddress) => void failures.delete(keyOf(email, ipAddress)),
    mayMail: (email) => mails.take(userEmail(email), 1, MAILS).ok,
    mayTell: (userId) => telling.take(String(userId), 1, TELLING).ok,
  }
}

const tooOften = (retryAfterSeconds: number) =>
  tooMany('rate_limited', 'There were too many attempts; wait before the next.', retryAfterSeconds)
