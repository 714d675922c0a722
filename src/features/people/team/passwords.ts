/**
 * @module Passwords: which are accepted, and their argon2id hashes. Hashing runs in the thread pool, a few at a time
 * for the whole process, because each hash takes 19 MiB and a thread that database syncs need too. Hashes of known and
 * unknown owners wait in two queues that are served in turn, so a hash of a known owner waits for at most one of an
 * unknown owner. Never stores a password.
 */
import { availableParallelism } from 'node:os'
import { AppError, invalid } from '#platform/errors.ts'
import { FairPool } from '#platform/queue/fair-scheduler.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'
import commonPasswords from './common-passwords.json' with { type: 'json' }

/** Of ten characters and more, which attackers try first; shorter ones are rejected for their length. */
const COMMON_PASSWORDS = new Set(commonPasswords)

const MIN_DISTINCT_CHARACTERS = 4

/** Whether a password is among those that attackers try first: well known, or made of few different characters. */
const isCommonPassword = (password: string): boolean =>
  COMMON_PASSWORDS.has(password.toLowerCase()) || new Set(password.toLowerCase()).size < MIN_DISTINCT_CHARACTERS

export const MIN_PASSWORD_LENGTH = 10
export const MAX_PASSWORD_LENGTH = 200

/** The OWASP minimum for argon2id: 19 MiB, two passes. */
const ARGON2 = { algorithm: 'argon2id', memoryCost: (19 * MiB) / 1024, timeCost: 2 } as const

/** Matches no password: checked where no user exists, so that the response takes the same time. */
const DUMMY_HASH =
  '$argon2id$v=19$m=19456,t=2,p=1$LbxwbX1tD6h2mympoZkrh/IoGgsoLGsqm577LQhTYHk$73gmgjqlJWGnYq94npYqRsm39dQkNigsGRBg8scTfg4'

/** About two seconds of work. */
export const MAX_WAITING_HASHES = 40
/** Per owner, so that one network cannot fill the queue. */
const MAX_WAITING_PER_OWNER = 20
const RETRY_AFTER_SECONDS = 3

/** Identifies the owner of a hash that is waiting. */
export interface HashRequest {
  /**
   * Whether the owner is signed in, has a link, or comes from a network where the user was signed in before. Hashes of
   * unknown owners, from however many networks, delay a known one by one hash at most.
   */
  readonly isKnown: boolean
  /** Owners are served round-robin. A known owner is a user or an account; an unknown one is a network. */
  readonly owner: string
}

/** Runs a hash when its turn comes; rejects with 503 when too many are waiting. */
type RunHash = <T>(request: HashRequest, hash: () => Promise<T>) => Promise<T>

/** @param maxConcurrent hashes that run at the same time, known and unknown together */
export function createHashScheduler(maxConcurrent: number, clock: Pick<Clock, 'monotonicMs'> = systemClock): RunHash {
  const createPool = (limits: { readonly maxWaiting?: number; readonly maxPerOwner?: number }): FairPool =>
    new FairPool({ clock, concurrency: maxConcurrent, overload: hashQueueFull, ...limits })
  const waiting = { maxWaiting: MAX_WAITING_HASHES, maxPerOwner: MAX_WAITING_PER_OWNER }
  const known = createPool(waiting)
  const unknown = createPool(waiting)
  // At most `maxConcurrent` hashes of each queue get here at a time.
  const shared = createPool({})
  return ({ isKnown, owner }, hash) =>
    (isKnown ? known : unknown).run(owner, () => shared.run(isKnown ? 'known' : 'unknown', hash))
}

const hashQueueFull = () =>
  new AppError(503, 'busy', 'Too many people are signing in at the moment; try again in a few seconds.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })

/**
 * Bun has as many threads as cores; where there are several, one is left to database syncs. If all of them hashed,
 * every commit would wait for a hash: measured 22 ms instead of 0.3 on two cores.
 */
const MAX_CONCURRENT_HASHES = Math.max(1, Math.min(3, availableParallelism() - 1))
const runHash = createHashScheduler(MAX_CONCURRENT_HASHES)

/** The same password, however a keyboard composes its characters (NIST SP 800-63B §5.1.1.2). */
const normalisePassword = (password: string): string => password.normalize('NFKC')

/**
 * Throws 422 for a password that is too short, too long, the user's address or among those that attackers try first.
 */
export function requireStrongPassword(password: string, email: string): void {
  const weak = (message: string): AppError => invalid('password', message, 'weak_password')
  const { length } = [...password]
  if (length < MIN_PASSWORD_LENGTH || password.length > MAX_PASSWORD_LENGTH)
    throw weak(`A password must have ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters.`)
  const lower = normalisePassword(password).toLowerCase()
  const [localPart = ''] = email.split('@')
  if (lower === email.toLowerCase() || lower === localPart.toLowerCase())
    throw weak('The password must not be your address; choose another one.')
  if (isCommonPassword(lower))
    throw weak(
      'The password must not be one that attackers try first; choose another one, such as four unrelated words.',
    )
}

/**
 * The hash to store, in PHC format. Throws 503 when too many are waiting.
 * @param owner whose password it is: a user who is signed in or has a link, or an account
 */
export const hashPassword = (password: string, owner: string): Promise<string> =>
  runHash({ isKnown: true, owner }, () => Bun.password.hash(normalisePassword(password), ARGON2))

/**
 * Whether a password matches a hash; false when there is no hash, after the same time. Throws 503 when too many are
 * waiting.
 */
export async function verifyPassword(
  password: string,
  hash: string | null | undefined,
  request: HashRequest,
): Promise<boolean> {
  const isMatch = await runHash(request, () => Bun.password.verify(normalisePassword(password), hash ?? DUMMY_HASH))
  return isMatch && hash !== null && hash !== undefined
}
