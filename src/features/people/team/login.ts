/**
 * @module Signing in and out. Whatever is wrong or missing (user, password, code, membership), the response is the same
 * 401 after the same work. Failed attempts are counted and logged; those for existing users also go to the audit logs
 * of their accounts, once a minute.
 */

import { actIn } from '#features/core/accounts/accounts.ts'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { type AuditActor, auditChange, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { openSealed, sealJson } from '#platform/crypto/sealed-token.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError, notFound } from '#platform/errors.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { type Millis, minutes } from '#platform/units.ts'
import type { Attempts } from './attempts.ts'
import { verifyPassword } from './passwords.ts'
import {
  changeSession,
  endOtherSessions,
  endSession,
  findSession,
  requireSessionId,
  type SignInProof,
  startSession,
} from './sessions.ts'
import { consumeCode } from './totp.ts'
import {
  changeUser,
  findUser,
  findUserByEmail,
  findUserByUuid,
  listMemberships,
  type Membership,
  type User,
} from './users.ts'

/** The browser that sent the request. */
export interface Browser {
  readonly ipAddress: string
  readonly userAgent: string | null
  /** Row id of the session that the browser already has; the next sign-in ends it. */
  readonly sessionId?: number | undefined
}

export interface Credentials {
  readonly email: string
  readonly password: string
  /** Code of the authenticator app, or recovery code. */
  readonly code?: string | null | undefined
}

export interface SignedIn extends ReturnType<typeof startSession> {
  readonly user: User
  readonly membership: Membership
}

export const invalidLogin = ({ localSignIn, oidcName }: App['config']): AppError =>
  new AppError(
    401,
    'invalid_login',
    localSignIn
      ? 'Email address, password or code is wrong, or you belong to no account. If you use an authenticator app, enter a new code.'
      : `Sign in with ${oidcName} at /login. A password is accepted only within 24 hours after \`tassis users reset\` on the server.`,
  )

/** For the `errorResponses` of routes that throw `onlyByProvider`. */
export const ONLY_PROVIDED = ['local_sign_in_off', 'Only the identity provider lets the user in.'] as const

/** The 403 for what only the identity provider can do. */
export const onlyByProvider = ({ oidcName }: App['config']): AppError =>
  new AppError(403, 'local_sign_in_off', `Sign in with ${oidcName}: nothing else lets you in.`)

/**
 * Signs a user in. Throws 401 `invalid_login`, 429 after too many attempts, 503 when too many people sign in at the
 * same time.
 */
export async function login(
  app: App,
  attempts: Attempts,
  credentials: Credentials,
  browser: Browser,
): Promise<SignedIn> {
  attempts.requireNetwork(browser.ipAddress, credentials.email)
  const user = await checkPassword(app, attempts, credentials, browser)
  return completeLogin(app, attempts, credentials, user, browser)
}

/**
 * The first step of the sign-in page: signs in a user without a second factor; for any other whose password is right,
 * returns the user, who must enter a code. Throws as `login` does.
 */
export async function beginLogin(
  app: App,
  attempts: Attempts,
  credentials: Omit<Credentials, 'code'>,
  browser: Browser,
): Promise<{ readonly signedIn: SignedIn } | { readonly codeOf: User }> {
  attempts.requireNetwork(browser.ipAddress, credentials.email)
  const user = await checkPassword(app, attempts, credentials, browser)
  if (user && user.totpEnabledAt !== null && listMemberships(app.db, user.id).length > 0) {
    app.log.info({ user: formatUuid(user.uuid), ipAddress: browser.ipAddress }, 'password accepted, code requested')
    return { codeOf: user }
  }
  return { signedIn: await completeLogin(app, attempts, credentials, user, browser) }
}

/** Between the two steps, a sealed field of the form proves for so long that the browser has sent the right password. */
const PROOF_VALID_MS = minutes(5)
const PROOF_CONTEXT = 'password-proof'

type PasswordProof = Pick<User, 'id' | 'passwordHash'> & { readonly at: Millis }

/** It signs no one in without a code. @param user whose password was right */
export function createPasswordProof({ clock, keys }: App, { id, passwordHash }: User): string {
  const proof: PasswordProof = { id, passwordHash, at: clock.now() }
  return sealJson(keys, proof, PROOF_CONTEXT)
}

/** The user of a proof in a form, while the user has this password; undefined when it is not valid. */
export function readPasswordProof({ clock, db, keys }: App, text: string): User | undefined {
  const proof = openSealed<PasswordProof>(keys, text, PROOF_CONTEXT)
  const user = proof && findUser(db, proof.id)
  // Also for a clock that was set back.
  const isCurrent = proof !== undefined && Math.abs(clock.now() - proof.at) < PROOF_VALID_MS
  return isCurrent && user?.passwordHash === proof.passwordHash ? user : undefined
}

/** The second step of the sign-in page: signs in the user who has proved the password. Throws as `login` does. */
export async function finishLogin(
  app: App,
  attempts: Attempts,
  { user, code }: { readonly user: User; readonly code: string },
  browser: Browser,
): Promise<SignedIn> {
  attempts.requireNetwork(browser.ipAddress, user.email)
  attempts.requireUser(user.email, browser.ipAddress, 'code of ')
  return completeLogin(app, attempts, { email: user.email, code }, user, browser)
}

/** @param user the user whose password was right; undefined: it was wrong */
async function completeLogin(
  app: App,
  attempts: Attempts,
  { email, code }: Omit<Credentials, 'password'>,
  user: User | undefined,
  browser: Browser,
): Promise<SignedIn> {
  const signedIn = await app.commit.writeFromReserve((tx) => {
    const current = user && consumeFactors(app, attempts, tx, user, code, browser.ipAddress)
    const [membership] = current ? listMemberships(tx.db, current.id) : []
    if (!current || !membership) return undefined
    return signIn(app, tx, current, membership, browser, {
      how: 'password',
      hasPassword: true,
      hasSecondFactor: isTotpOn(current),
    })
  })
  if (!signedIn) {
    recordFailedLogin(app, attempts, email, user, browser)
    throw invalidLogin(app.config)
  }
  attempts.recordSuccess(email, browser.ipAddress)
  return signedIn
}

/**
 * The user whose password matches; undefined when no user exists or the password is wrong. Throws 429 and 503 as
 * `login` does.
 */
export async function checkPassword(
  app: App,
  attempts: Attempts,
  { email, password }: Credentials,
  { ipAddress }: Pick<Browser, 'ipAddress'>,
): Promise<User | undefined> {
  attempts.requireUser(email, ipAddress)
  const found = findUserByEmail(app.db, email)
  const isRight = await verifyPassword(password, found?.passwordHash, attempts.toHashRequest(email, ipAddress))
  return isRight && mayUsePassword(app, found) ? found : undefined
}

const mayUsePassword = ({ config, clock }: App, user: User | undefined): boolean =>
  config.localSignIn || (user?.passwordUntil ?? 0) > clock.now()

/**
 * The user, if the password that was checked is still the current one and the second factor, if enabled, is right.
 * Undefined also when the same code has been used since then, and while wrong codes delay further attempts. Call it in
 * the transaction that signs the user in.
 */
export function consumeFactors(
  app: App,
  attempts: Attempts,
  tx: Tx,
  checked: User,
  code: string | null | undefined,
  ipAddress: string,
): User | undefined {
  const user = findUser(tx.db, checked.id)
  if (!user || user.passwordHash !== checked.passwordHash) return undefined
  if (user.totpEnabledAt === null) return user
  if (!code || !attempts.canTryCode(user.email, ipAddress)) return undefined
  const kind = consumeCode(app, tx, user, code, app.clock.now())
  attempts.recordCode(user.email, ipAddress, kind !== undefined)
  if (kind === undefined) return undefined
  if (kind === 'recovery') auditInAccounts(app, tx, user, 'user.recovery_code_used', ipAddress)
  return user
}

/** Whether `consumeFactors` required a code of a user it returned. */
export const isTotpOn = ({ totpEnabledAt }: User): boolean => totpEnabledAt !== null

/** Creates the session, and ends the previous one of the browser. */
export function signIn(
  app: App,
  tx: Tx,
  user: User,
  membership: Membership,
  browser: Browser,
  proof: SignInProof,
): SignedIn {
  if (browser.sessionId !== undefined) endSession(app, tx, browser.sessionId)
  changeUser(tx, user.id, { lastLoginAt: app.eventTime() })
  return { ...startSession(app, tx, user, membership, { ...browser, ...proof }), user, membership }
}

/** Counts a failed attempt; the caller's response does not wait for the write. */
export function recordFailedLogin(
  app: App,
  attempts: Attempts,
  email: string,
  checked: User | undefined,
  { ipAddress }: Pick<Browser, 'ipAddress'>,
): void {
  attempts.recordFailure(email, ipAddress)
  app.log.warn({ ipAddress }, 'sign-in failed')
  const user = checked ?? findUserByEmail(app.db, email)
  if (!user || !attempts.canAuditFailure(user.id)) return
  app.commit
    .write((tx) => auditInAccounts(app, tx, user, 'user.login_failed', ipAddress))
    .catch((error: unknown) => app.log.warn({ err: error }, 'failed sign-in not stored'))
}

/** A user-level action is audited in at most this many of the user's accounts. */
const MAX_AUDITED_ACCOUNTS = 20

/**
 * Writes a row to the audit log of each account of a user, for actions that concern the user and not one account.
 * @param actor who acted; default: the service
 */
export function auditInAccounts(
  app: App,
  tx: Tx,
  user: User,
  action: string,
  ipAddress?: string,
  actor?: AuditActor,
  details?: Parameters<typeof auditChange>[5],
): void {
  for (const { accountId, uuid } of listMemberships(tx.db, user.id).slice(0, MAX_AUDITED_ACCOUNTS)) {
    const by = actor
      ? { scopes: new Set<string>(), ...actor, accountId, accountUuid: formatUuid(uuid) }
      : { ...createSystemActor({ accountId, accountUuid: uuid }), ...(ipAddress !== undefined && { ipAddress }) }
    auditChange(app, tx, by, action, user.uuid, details)
  }
}

/** The user behind a signed-in actor. A missing user is a bug: the session would have ended. */
export function requireActorUser(app: App, actor: Actor, db = app.db): User {
  const user = findUserByUuid(db, parseUuid(actor.id) ?? new Uint8Array())
  if (!user) throw new Error('a session without a user')
  return user
}

export const logout = (app: App, actor: Actor): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const id = endSession(app, tx, requireSessionId(actor))
    if (id !== undefined) auditChange(app, tx, actor, 'session.deleted', id)
  })

/** Ends one of the actor's own sessions. Throws 404 when none has this id. */
export const endOwnSession = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const found = findSession(tx.db, requireActorUser(app, actor, tx.db).id, id)
    if (found === undefined) throw notFound('session_not_found', 'Session not found.')
    endSession(app, tx, found)
    auditChange(app, tx, actor, 'session.deleted', id)
  })

/** Ends all of the actor's own sessions but the one that sent the request; resolves with their number. */
export const endOtherOwnSessions = (app: App, actor: Actor): Promise<number> =>
  app.commit.writeFromReserve((tx) => {
    const user = requireActorUser(app, actor, tx.db)
    const ended = endOtherSessions(app, tx, user.id, requireSessionId(actor))
    if (ended > 0) auditInAccounts(app, tx, user, 'user.signed_out_elsewhere', undefined, actor)
    return ended
  })

/** Switches the session to another account of the user. Throws 404 when the user does not belong to it. */
export const switchAccount = (app: App, actor: Actor, accountId: string): Promise<Membership> =>
  app.commit.write((tx) => {
    const memberships = listMemberships(tx.db, requireActorUser(app, actor, tx.db).id)
    const found = memberships.find(({ uuid }) => formatUuid(uuid) === accountId.toLowerCase())
    if (!found) throw notFound('account_not_found', 'You belong to no account with this id.')
    changeSession(tx, requireSessionId(actor), { accountId: found.accountId })
    announceAccessChange(app, tx, actor.accountId)
    const actorThere = actIn(actor, { id: found.accountId, uuid: found.uuid })
    auditChange(app, tx, actorThere, 'session.account_changed', found.uuid, undefined, 'account')
    return found
  })
