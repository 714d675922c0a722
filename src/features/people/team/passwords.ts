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

/** Of ten characters and more, which attackers try first; shorter ones are rejected for their length. */
const COMMON_PASSWORD_TEXT = `
1234567890 12345678910 123456789a 0123456789 0987654321 9876543210 1q2w3e4r5t 1qaz2wsx3edc qwertyuiop qwertyuiop123 qwerty12345 qwerty123456
qwerty1234 q1w2e3r4t5 q1w2e3r4t5y6 asdfghjkl1 asdfghjkl123 zxcvbnm123 1qazxsw23edc zaq12wsxcde3 password12 password123 password1234
password12345 password123456 passw0rd123 p@ssw0rd123 p@ssword123 p@55word123 password01 password2024 password2025 password2026 passwordpassword
mypassword1 mypassword123 newpassword newpassword1 thisisapassword administrator administrator1 admin12345 admin123456 adminadmin adminadmin123
changeme123 changeme1234 letmein123 letmein1234 welcome123 welcome1234 welcome2024 welcome2025 welcome2026 iloveyou123 iloveyou12 iloveyou1234
iloveyou11 ilovejesus iloveyoubaby sunshine123 princess123 princess12 football123 football12 baseball123 basketball superman123 batman12345
pokemon123 dragon12345 monkey12345 master12345 michael123 jennifer123 charlie123 abcdefghij abcdefghijk abc1234567 abcd123456 abcd1234567
abc123456789 a123456789 aa12345678 aa123456789 test123456 test1234567 testtest123 testtest12 computer123 internet123 secret12345 secretpassword
hunter2hunter2 correcthorsebatterystaple trustno1trustno1 whatever123 starwars123 samsung123 google12345 facebook123 liverpool123 liverpool1 manchester1
christian1 chocolate1 chocolate123 butterfly1 butterfly123 barcelona1 alexander1 elizabeth1 spiderman1 spiderman123 friends123 summer2024 summer2025
summer2026 winter2024 winter2025 winter2026 spring2026 autumn2026 company123 company1234 qweasdzxc1 qweasdzxc123 qwe123qwe123 zxcvbnm1234
1111111111a 11223344556 1122334455 112233445566 1020304050 9999999999a 5555555555a tassis1234 tassis12345 tassistassis
`

const COMMON_PASSWORDS = new Set(COMMON_PASSWORD_TEXT.trim().split(/\s+/))

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
