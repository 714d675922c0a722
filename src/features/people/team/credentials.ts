/**
 * @module Changes that signed-in users make to their own credentials: password and second factor. Each requires the
 * password again: someone who finds a browser open must not be able to lock its user out.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { minutes } from '#platform/units.ts'
import type { Attempts } from './attempts.ts'
import { auditInAccounts, consumeFactors, onlyByProvider, recordFailedLogin, requireActorUser } from './login.ts'
import { hashPassword, requireStrongPassword, verifyPassword } from './passwords.ts'
import {
  changeSession,
  endOtherSessions,
  findPasswordTime,
  forgetSecondFactors,
  requireOwnSecondFactor,
  requireSessionId,
} from './sessions.ts'
import { createRecoveryCodes, createTotpSecret, findCodeStep } from './totp.ts'
import { changeUser, findUser, isOnlyProvided, NO_TOTP, type User } from './users.ts'

/**
 * The user, once the password is checked. Throws 422 on `field` when it is wrong, 429 after too many wrong ones. A user
 * without a password has to have confirmed in another way, else it throws 403 `password_required`.
 */
export async function requirePassword(
  app: App,
  attempts: Attempts,
  actor: Actor,
  { password = '', field }: { readonly password?: string | undefined; readonly field: string },
): Promise<User> {
  const user = requireActorUser(app, actor)
  if (user.passwordHash === null) {
    requireRecentPassword(app, actor)
    return user
  }
  attempts.requireUser(user.email, actor.ipAddress ?? '')
  if (await verifyPassword(password, user.passwordHash, { isKnown: true, owner: user.email })) return user
  recordFailedLogin(app, attempts, user.email, user, { ipAddress: actor.ipAddress ?? '' })
  throw invalid(field, 'This is not your password.', 'wrong_password')
}

const invalidCode = (): AppError =>
  invalid('code', 'This code is wrong, expired or already used; enter the one that the app shows now.', 'wrong_code')

/** Sets a new password and ends all other sessions. Throws 403 for a user whom only the identity provider lets in. */
export async function changePassword(
  app: App,
  attempts: Attempts,
  actor: Actor,
  input: { readonly current_password: string; readonly password: string },
): Promise<void> {
  const { current_password: password } = input
  const checked = await requirePassword(app, attempts, actor, { password, field: 'current_password' })
  if (isOnlyProvided(app, checked)) throw onlyByProvider(app.config)
  requireStrongPassword(input.password, checked.email)
  const passwordHash = await hashPassword(input.password, checked.email)
  await app.commit.write((tx) => {
    const user = findUser(tx.db, checked.id)
    if (user?.passwordHash !== checked.passwordHash)
      throw conflict('password_changed', 'The password has been changed since then; sign in with the new one.')
    changeUser(tx, user.id, { passwordHash })
    endOtherSessions(app, tx, user.id, requireSessionId(actor))
    changeSession(tx, requireSessionId(actor), { passwordAt: app.clock.now() })
    auditInAccounts(app, tx, user, 'user.password_changed', undefined, actor)
  })
  attempts.resetCodeFailures(checked.email)
}

/**
 * Creates a secret for an authenticator app; no code is required before `confirmTotp`. Throws 409 when the user already
 * has an app, 403 when the user has a passkey that this session has not shown.
 */
export async function startTotp(
  app: App,
  attempts: Attempts,
  actor: Actor,
  password: string | undefined,
): Promise<{ secret: string; otpauth_uri: string }> {
  const user = await requirePassword(app, attempts, actor, { password, field: 'password' })
  const { sealed, ...shown } = createTotpSecret(app.keys, user)
  await app.commit.write((tx) => {
    if (requireActorUser(app, actor, tx.db).totpEnabledAt !== null)
      throw conflict('totp_enabled', 'An authenticator app is already in use; disable it before you set up another.')
    requireOwnSecondFactor(tx.db, actor)
    changeUser(tx, user.id, { ...NO_TOTP, totpSecret: sealed })
  })
  return shown
}

/** Enables the second factor with a code of the app. Resolves with the recovery codes, which are not shown again. */
export function confirmTotp(app: App, attempts: Attempts, actor: Actor, code: string): Promise<string[]> {
  attempts.requireUser(requireActorUser(app, actor).email, actor.ipAddress ?? '')
  return app.commit.write((tx) => {
    const user = requireActorUser(app, actor, tx.db)
    if (user.totpEnabledAt !== null) throw conflict('totp_enabled', 'An authenticator app is already in use.')
    if (user.totpSecret === null)
      throw conflict('totp_not_begun', 'First request a secret with POST /v1/auth/totp and enter it in the app.')
    requireOwnSecondFactor(tx.db, actor)
    const step = findCodeStep(app.keys, user, code, app.clock.now())
    if (step === undefined) throw invalidCode()
    const { codes, hashes } = createRecoveryCodes()
    const now = app.eventTime()
    changeUser(tx, user.id, { totpEnabledAt: now, totpLastStep: step, recoveryCodes: JSON.stringify(hashes) })
    changeSession(tx, requireSessionId(actor), { secondFactorAt: now })
    auditInAccounts(app, tx, user, 'user.totp_enabled', undefined, actor)
    return codes
  })
}

/** Password and a code, again. */
interface BothFactors {
  readonly password?: string | undefined
  readonly code: string
}

/** Disables the second factor, by password and a code. */
export const disableTotp = (app: App, attempts: Attempts, actor: Actor, factors: BothFactors): Promise<void> =>
  withBothFactors(app, attempts, actor, factors, (tx, user) => {
    changeUser(tx, user.id, NO_TOTP)
    forgetSecondFactors(tx, user.id, requireSessionId(actor))
    auditInAccounts(app, tx, user, 'user.totp_disabled', undefined, actor)
  })

/** Replaces the recovery codes, by password and a code. Resolves with the new ones, which are not shown again. */
export const renewRecoveryCodes = (
  app: App,
  attempts: Attempts,
  actor: Actor,
  factors: BothFactors,
): Promise<string[]> =>
  withBothFactors(app, attempts, actor, factors, (tx, user) => {
    const { codes, hashes } = createRecoveryCodes()
    changeUser(tx, user.id, { recoveryCodes: JSON.stringify(hashes) })
    auditInAccounts(app, tx, user, 'user.recovery_codes_renewed', undefined, actor)
    return codes
  })

/** Runs `change` once password and code are checked. Throws 409 when the user has no second factor. */
async function withBothFactors<T>(
  app: App,
  attempts: Attempts,
  actor: Actor,
  { password, code }: BothFactors,
  change: (tx: Tx, user: User) => T,
): Promise<T> {
  const checked = await requirePassword(app, attempts, actor, { password, field: 'password' })
  if (checked.totpEnabledAt === null) throw conflict('totp_not_enabled', 'No authenticator app is in use.')
  const done = await app.commit.write((tx) => {
    const user = consumeFactors(app, attempts, tx, checked, code, actor.ipAddress ?? '')
    return user && { result: change(tx, user) }
  })
  if (done) return done.result
  recordFailedLogin(app, attempts, checked.email, checked, { ipAddress: actor.ipAddress ?? '' })
  throw invalidCode()
}

/**
 * What shows or replaces a secret requires that the password was typed within this time, so that a browser left open does
 * not give it away. A sign-in counts.
 */
const PASSWORD_VALID_MINUTES = 10

/** For the `errorResponses` of routes that call `requireRecentPassword`. */
export const PASSWORD_REQUIRED = [
  'password_required',
  `The password was typed more than ${PASSWORD_VALID_MINUTES} minutes ago; send it to POST /v1/auth/session/password.`,
] as const

/** Throws 403 `password_required` when a user last typed the password too long ago; commands on the machine need none. */
export function requireRecentPassword({ clock, db }: Pick<App, 'clock' | 'db'>, actor: Actor): void {
  if (actor.type === 'operator') return
  const typedAt = findPasswordTime(db, requireSessionId(actor))
  // Also for a clock that was set back.
  if (typedAt === null || Math.abs(clock.now() - typedAt) >= minutes(PASSWORD_VALID_MINUTES))
    throw new AppError(
      403,
      'password_required',
      `You typed your password more than ${PASSWORD_VALID_MINUTES} minutes ago; send it to POST /v1/auth/session/password, then repeat this request.`,
    )
}

/** Checks the password and remembers that it was typed. Throws 422 when it is wrong, 429 after too many wrong ones. */
export async function confirmPassword(app: App, attempts: Attempts, actor: Actor, password: string): Promise<void> {
  const checked = await requirePassword(app, attempts, actor, { password, field: 'password' })
  await app.commit.write((tx) => {
    if (findUser(tx.db, checked.id)?.passwordHash !== checked.passwordHash)
      throw conflict('password_changed', 'The password has been changed since then; enter the new one.')
    const id = changeSession(tx, requireSessionId(actor), { passwordAt: app.clock.now() })
    if (id !== undefined) auditChange(app, tx, actor, 'session.password_confirmed', id)
  })
  attempts.recordSuccess(checked.email, actor.ipAddress ?? '')
}

/** Checks a code, of the app or for recovery, as the second factor of this session. Throws 409, 422 and 429. */
export async function confirmCode(app: App, attempts: Attempts, actor: Actor, code: string): Promise<void> {
  const checked = requireActorUser(app, actor)
  const ipAddress = actor.ipAddress ?? ''
  attempts.requireUser(checked.email, ipAddress)
  const isRight = await app.commit.write((tx) => {
    const user = findUser(tx.db, checked.id)
    if (!user || user.totpEnabledAt === null) throw conflict('totp_not_enabled', 'No authenticator app is in use.')
    if (!consumeFactors(app, attempts, tx, user, code, ipAddress)) return false
    changeSession(tx, requireSessionId(actor), { secondFactorAt: app.eventTime() })
    auditInAccounts(app, tx, user, 'user.code_confirmed', undefined, actor)
    return true
  })
  if (isRight) return
  recordFailedLogin(app, attempts, checked.email, checked, { ipAddress })
  throw invalidCode()
}
