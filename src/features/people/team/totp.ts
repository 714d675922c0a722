/**
 * @module The second factor: codes of an authenticator app (RFC 6238: SHA-1, six digits, 30 seconds) and the recovery
 * codes that replace them. A code is accepted once. Secrets are sealed, recovery codes hashed: they have 80 random
 * bits, so an unsalted hash reveals nothing.
 */
import { Secret, TOTP } from 'otpauth'
import type { App } from '#features/core/app/app.ts'
import { equalBytes, type KeyRing, sha256 } from '#platform/crypto/crypto.ts'
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import type { Tx } from '#platform/db/open.ts'
import { formatUuid, randomBytes, type UuidBytes } from '#platform/ids.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { changeUser, type User } from './users.ts'

const ISSUER = 'Tassis'
const PERIOD_SECONDS = 30
const DIGITS = 6
/** RFC 4226 §4 recommends 160 bits. */
const SECRET_BYTES = 20
/** Steps accepted before and after the current one, because clocks differ and people type slowly (RFC 6238 §5.2). */
const STEP_WINDOW = 1
const RECOVERY_CODE_COUNT = 10
const RECOVERY_CODE_BYTES = 10

const toSealContext = (uuid: UuidBytes): string => `totp:${formatUuid(uuid)}`

const createTotp = (secret: Secret, label: string): TOTP =>
  new TOTP({ issuer: ISSUER, label, secret, algorithm: 'SHA1', digits: DIGITS, period: PERIOD_SECONDS })

export function createTotpSecret(keys: KeyRing, user: Pick<User, 'uuid' | 'email'>) {
  const bytes = randomBytes(SECRET_BYTES)
  const secret = new Secret({ buffer: bytes.slice().buffer })
  return {
    /** For typing. */
    secret: secret.base32,
    /** For the QR code. */
    otpauth_uri: createTotp(secret, user.email).toString(),
    sealed: keys.seal(bytes, toSealContext(user.uuid)),
  }
}

/** The time step of a code that is valid at a time; undefined when it is not. */
export function findCodeStep(
  keys: KeyRing,
  user: Pick<User, 'uuid' | 'totpSecret'>,
  code: string,
  now: Millis,
): number | undefined {
  if (user.totpSecret === null) return undefined
  const digits = code.replace(/\s/g, '')
  if (!/^\d{6}$/.test(digits)) return undefined
  const secret = new Secret({ buffer: keys.unseal(user.totpSecret, toSealContext(user.uuid)).slice().buffer })
  const delta = createTotp(secret, '').validate({ token: digits, timestamp: now, window: STEP_WINDOW })
  return delta === null ? undefined : Math.floor(now / seconds(PERIOD_SECONDS)) + delta
}

/**
 * Checks a code, of the app or for recovery, and consumes it: the same code is never accepted again. Call it in the
 * transaction that signs the user in, with the user as that transaction reads it.
 */
export function consumeCode(app: App, tx: Tx, user: User, code: string, now: Millis): 'app' | 'recovery' | undefined {
  const step = findCodeStep(app.keys, user, code, now)
  if (step !== undefined) {
    if (step <= (user.totpLastStep ?? -1)) return undefined
    changeUser(tx, user.id, { totpLastStep: step })
    return 'app'
  }
  const hashes = JSON.parse(user.recoveryCodes ?? '[]') as string[]
  const hash = Buffer.from(hashRecoveryCode(code))
  const remaining = hashes.filter((known) => !equalBytes(Buffer.from(known, 'base64'), hash))
  if (remaining.length === hashes.length) return undefined
  changeUser(tx, user.id, { recoveryCodes: JSON.stringify(remaining) })
  return 'recovery'
}

/** Creates codes that each let a user in once without the app, with the hashes to store. */
export function createRecoveryCodes(): { readonly codes: string[]; readonly hashes: readonly string[] } {
  const codes = Array.from({ length: RECOVERY_CODE_COUNT }, () => {
    const text = new Secret({ buffer: randomBytes(RECOVERY_CODE_BYTES).slice().buffer }).base32.toLowerCase()
    return text.replace(/(.{4})(?=.)/g, '$1-')
  })
  return { codes, hashes: codes.map((code) => Buffer.from(hashRecoveryCode(code)).toString('base64')) }
}

/** Users type their codes with or without spaces, dashes and capitals. */
const hashRecoveryCode = (code: string): Uint8Array => sha256(code.toLowerCase().replace(/[^a-z2-7]/g, ''))

export const countRecoveryCodes = (user: User): number => (JSON.parse(user.recoveryCodes ?? '[]') as unknown[]).length

export const SEALED_COLUMNS: readonly SealedColumns[] = [
  { table: 'users', id: 'id', owner: 'uuid', columns: { totp_secret: toSealContext } },
]
