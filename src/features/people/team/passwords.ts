/**
 * @module Passwords: which are accepted, and their argon2id hashes. Hashing runs in the thread pool, a few at a time
 * for the whole process, because each hash takes 19 MiB and a thread that database syncs need too; `hash-scheduler`
 * sets the order. Never stores a password.
 */
import { availableParallelism } from 'node:os'
import { invalid } from '#platform/errors.ts'
import { MiB } from '#platform/units.ts'
import { isCommonPassword } from './common-passwords.ts'
import { createHashScheduler, type HashRequest } from './hash-scheduler.ts'

export const MIN_PASSWORD_LENGTH = 10
export const MAX_PASSWORD_LENGTH = 200

/** The OWASP minimum for argon2id: 19 MiB, two passes. */
const ARGON2 = { algorithm: 'argon2id', memoryCost: (19 * MiB) / 1024, timeCost: 2 } as const

/** Matches no password: checked where no user exists, so that the response takes the same time. */
const DUMMY_HASH =
  '$argon2id$v=19$m=19456,t=2,p=1$LbxwbX1tD6h2mympoZkrh/IoGgsoLGsqm577LQhTYHk$73gmgjqlJWGnYq94npYqRsm39dQkNigsGRBg8scTfg4'

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
export function requireStrongPassword(password: string, email: string, field = 'password'): void {
  const { length } = [...password]
  if (length < MIN_PASSWORD_LENGTH || password.length > MAX_PASSWORD_LENGTH)
    throw invalid(
      field,
      `A password must have ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters.`,
      'weak_password',
    )
  const lower = normalisePassword(password).toLowerCase()
  const [localPart = ''] = email.split('@')
  if (lower === email.toLowerCase() || lower === localPart.toLowerCase())
    throw invalid(field, 'The password must not be your address; choose another one.', 'weak_password')
  if (isCommonPassword(lower))
    throw invalid(
      field,
      'The password must not be one that attackers try first; choose another one, such as four unrelated words.',
      'weak_password',
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
