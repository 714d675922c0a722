/**
 * @module Sessions: browsers in which a user is signed in. The cookie has 256 random bits, stored as SHA-256. A session
 * lasts as long as it is used. Every request reads it from the database, so it becomes invalid as soon as it is ended,
 * its user leaves the team or the account is disabled.
 */
import type { Database } from 'bun:sqlite'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { equalBytes, hmacSha256 } from '#platform/crypto/crypto.ts'
import { prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import {
  formatCookie,
  readCookie,
  requireCsrfToken,
  requireOwnOrigin,
  type SessionGate,
} from '#platform/http/session.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import { networkOf } from '#platform/net/network.ts'
import { days, hours, type Millis, seconds } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { createLinkToken, hashLinkToken } from './links.ts'
import { findOwnerRefusal, findRoleRefusal, scopesOf } from './roles.ts'
import type { sessions } from './tables.ts'
import { endUserGrants, type Membership, toUserActor, type User } from './users.ts'

/** How long a browser stays signed in without being used. */
const SESSION_MS = days(14)

type Row = Readonly<typeof sessions.$inferSelect>

export type Session = Pick<Row, 'id' | 'uuid' | 'ipAddress' | 'userAgent' | 'lastSeenAt' | 'expiresAt' | 'createdAt'>

interface LiveSession extends Pick<Row, 'id' | 'lastSeenAt' | 'accountId'> {
  readonly userUuid: Uint8Array
  readonly accountUuid: Uint8Array
  readonly role: TeamRole
}
interface Factors extends Pick<Row, 'secondFactorAt'> {
  readonly operatorAt: number | null
  readonly totpEnabledAt: number | null
  readonly hasPasskey: number
}
type SessionFacts = Pick<Row, 'id' | 'uuid' | 'tokenHash' | 'accountId' | 'secondFactorAt' | 'passwordAt'>
type EndedSession = Pick<Row, 'uuid' | 'accountId'>

/** How often the last use is stored. */
const LAST_SEEN_INTERVAL_MS = hours(1)
/** Beyond this, the session that was used longest ago ends. */
const MAX_SESSIONS_PER_USER = 50
const MAX_USER_AGENT_LENGTH = 300
/** How long a network in which a user has been signed in is known, as `tables.ts` states it. */
const NETWORK_RETENTION_MS = days(90)
/** Beyond this, the network seen longest ago is deleted. */
const MAX_NETWORKS_PER_USER = 50

const SELECT_LIVE = `SELECT sessions.id, last_seen_at AS lastSeenAt, users.uuid AS userUuid, sessions.account_id AS accountId,
  accounts.uuid AS accountUuid, members.role FROM sessions
  JOIN users ON users.id = sessions.user_id
  JOIN members ON members.user_id = sessions.user_id AND members.account_id = sessions.account_id
  JOIN accounts ON accounts.id = sessions.account_id AND disabled_at IS NULL AND deleted_at IS NULL`

const sql = prepareStatements((db) => ({
  byToken: db.prepare<LiveSession, [Uint8Array, number]>(`${SELECT_LIVE} WHERE token_hash = ? AND expires_at > ?`),
  byId: db.prepare<LiveSession, [number, number]>(`${SELECT_LIVE} WHERE sessions.id = ? AND expires_at > ?`),
  find: db.prepare<SessionFacts, [number]>(
    'SELECT id, uuid, token_hash AS tokenHash, account_id AS accountId, second_factor_at AS secondFactorAt, password_at AS passwordAt FROM sessions WHERE id = ?',
  ),
  update: db.prepare(`UPDATE sessions SET ${setSql('accountId secondFactorAt passwordAt')} WHERE id = $id`),
  insert: db.prepare<{ id: number }, (Uint8Array | number | string | null)[]>(
    `INSERT INTO sessions (uuid, user_id, account_id, token_hash, ip_address, user_agent, second_factor_at, last_seen_at, password_at, ends_at, expires_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  ),
  factors: db.prepare<Factors, [number]>(
    `SELECT operator_at AS operatorAt, totp_enabled_at AS totpEnabledAt, second_factor_at AS secondFactorAt,
     EXISTS (SELECT 1 FROM passkeys WHERE passkeys.user_id = users.id) AS hasPasskey FROM sessions JOIN users ON users.id = user_id WHERE sessions.id = ?`,
  ),
  forgetSecondFactors: db.prepare('UPDATE sessions SET second_factor_at = NULL WHERE user_id = ? AND id <> ?'),
  seen: db.prepare(
    'UPDATE sessions SET last_seen_at = ?1, expires_at = min(?2, coalesce(ends_at, ?2)), ip_address = ?3 WHERE id = ?4',
  ),
  list: db.prepare<Session, [number, number]>(
    `SELECT id, uuid, ip_address AS ipAddress, user_agent AS userAgent, last_seen_at AS lastSeenAt, expires_at AS expiresAt, created_at AS createdAt
     FROM sessions WHERE user_id = ? AND expires_at > ? ORDER BY last_seen_at DESC, id DESC`,
  ),
  crowded: db.prepare<EndedSession, [number, number]>(
    `DELETE FROM sessions WHERE user_id = ? AND id NOT IN (SELECT id FROM sessions WHERE user_id = ? ORDER BY last_seen_at DESC, id DESC LIMIT ${MAX_SESSIONS_PER_USER})
     RETURNING uuid, account_id AS accountId`,
  ),
  byUuid: db.prepare<{ id: number }, [Uint8Array, number]>('SELECT id FROM sessions WHERE uuid = ? AND user_id = ?'),
  delete: db.prepare<EndedSession, [number]>(
    'DELETE FROM sessions WHERE id = ? RETURNING uuid, account_id AS accountId',
  ),
  deleteOthers: db.prepare<EndedSession, [number, number]>(
    'DELETE FROM sessions WHERE user_id = ? AND id <> ? RETURNING uuid, account_id AS accountId',
  ),
  findNetwork: db.prepare<{ one: number }, [string, string, number]>(
    `SELECT 1 AS one FROM users JOIN known_networks ON user_id = users.id WHERE email = ? AND network = ? AND last_seen_at > ?`,
  ),
  recordNetwork: db.prepare<{ userId: number }, [string, number, number]>(
    `INSERT INTO known_networks (user_id, network, last_seen_at) SELECT user_id, ?, ? FROM sessions WHERE id = ?
     ON CONFLICT (user_id, network) DO UPDATE SET last_seen_at = excluded.last_seen_at RETURNING user_id AS userId`,
  ),
  crowdedNetworks: db.prepare(
    `DELETE FROM known_networks WHERE user_id = ?1 AND network NOT IN
     (SELECT network FROM known_networks WHERE user_id = ?1 ORDER BY last_seen_at DESC LIMIT ${MAX_NETWORKS_PER_USER})`,
  ),
}))

export const isHttps = ({ publicUrl }: App['config']): boolean => publicUrl.startsWith('https:')

/** What let the user in. */
export interface SignInProof {
  readonly how: 'password' | 'invitation' | 'setup' | 'single_sign_on' | 'passkey'
  /** Whether the user proved to be there, as by typing the password. */
  readonly hasPassword: boolean
  /** Whether a code of the second factor was accepted. */
  readonly hasSecondFactor: boolean
  /** After which the session ends however much it is used; default: never. */
  readonly maxMs?: number
}

/**
 * Signs a user in to an account, in the caller's transaction. Every sign-in has a token of its own; the caller ends the
 * previous session of the browser.
 */
export function startSession(
  app: App,
  tx: Tx,
  user: User,
  membership: Membership,
  browser: SignInProof & { readonly ipAddress: string; readonly userAgent: string | null },
): { readonly token: string; readonly id: number } {
  const { token, hash } = createLinkToken()
  const uuid = newUuid()
  // Not `eventTime`: while that is ahead of the clock, the session would begin in the future and last too long.
  const now = app.clock.now()
  const row = sql(tx.db).insert.get(
    uuid,
    user.id,
    membership.accountId,
    hash,
    browser.ipAddress || null,
    browser.userAgent?.slice(0, MAX_USER_AGENT_LENGTH) ?? null,
    // Compared with `totpEnabledAt`, which is an event time.
    browser.hasSecondFactor ? app.eventTime() : null,
    now,
    browser.hasPassword ? now : null,
    browser.maxMs === undefined ? null : now + browser.maxMs,
    now + Math.min(SESSION_MS, browser.maxMs ?? SESSION_MS),
    now,
  )
  if (!row) throw new Error('the session was not stored')
  announceSessionEnd(app, tx, sql(tx.db).crowded.all(user.id, user.id))
  recordNetwork(tx, row.id, browser.ipAddress, now)
  auditChange(app, tx, toUserActor(user, membership, browser.ipAddress), 'session.created', uuid, { by: browser.how })
  return { token, id: row.id }
}

/**
 * Whether the user with this address, in any spelling, has been signed in from the network of an IP address, also if that
 * session has ended. Attempts to sign in from there have separate limits and a separate queue (attempts.ts,
 * passwords.ts), so that an attack from elsewhere cannot lock a known user out.
 */
export const isKnownNetwork = (db: Database, email: string, ipAddress: string, now: Millis): boolean =>
  sql(db).findNetwork.get(normaliseAddress(email), networkOf(ipAddress), now - NETWORK_RETENTION_MS) !== null

function recordNetwork(tx: Tx, sessionId: number, ipAddress: string, now: Millis): void {
  const recorded = ipAddress === '' ? null : sql(tx.db).recordNetwork.get(networkOf(ipAddress), now, sessionId)
  if (recorded) sql(tx.db).crowdedNetworks.run(recorded.userId)
}

/** Live sessions of a user, most recently used first. */
export const listSessions = (db: Database, userId: number, now: Millis): Session[] => sql(db).list.all(userId, now)

/** The row id of a user's session; undefined when the user has none with this public id. */
export function findSession(db: Database, userId: number, uuid: string): number | undefined {
  const bytes = parseUuid(uuid)
  return bytes && sql(db).byUuid.get(bytes, userId)?.id
}

/** Ends a session and returns its public id; undefined when it had already ended. */
export function endSession(app: App, tx: Tx, id: number): string | undefined {
  const ended = sql(tx.db).delete.all(id)
  announceSessionEnd(app, tx, ended)
  return ended[0] && formatUuid(ended[0].uuid)
}

/**
 * Ends all sessions of a user except one, and what the user let programs do: whoever had the password may have done it.
 * @param keptId row id of the session that stays; 0: end all
 */
export function endOtherSessions(app: App, tx: Tx, userId: number, keptId = 0): number {
  const ended = sql(tx.db).deleteOthers.all(userId, keptId)
  announceSessionEnd(app, tx, [...ended, ...endUserGrants(tx, userId)])
  return ended.length
}

/** Ends the event streams and long polls that the sessions have open. */
function announceSessionEnd(app: App, tx: Tx, ended: readonly Pick<EndedSession, 'accountId'>[]): void {
  for (const accountId of new Set(ended.map((session) => session.accountId))) announceAccessChange(app, tx, accountId)
}

/** Changes a session, as when a factor was accepted in it. Returns its public id; undefined when it has ended. */
export function changeSession(
  tx: Tx,
  id: number,
  change: Partial<Pick<SessionFacts, 'accountId' | 'secondFactorAt' | 'passwordAt'>>,
): string | undefined {
  const session = sql(tx.db).find.get(id)
  if (!session) return undefined
  sql(tx.db).update.run({ ...session, ...change })
  return formatUuid(session.uuid)
}

/**
 * What the sessions of a user have shown no longer counts, as when a factor was removed.
 * @param keptId row id of the session that stays as it is; 0: none
 */
export const forgetSecondFactors = (tx: Tx, userId: number, keptId = 0): void =>
  void sql(tx.db).forgetSecondFactors.run(userId, keptId)

/** When the user last typed the password in a session; null: never, or the session has ended. */
export const findPasswordTime = (db: Database, id: number): Millis | null => sql(db).find.get(id)?.passwordAt ?? null

/** The token that changes require in addition to the cookie: a MAC of the session, so it need not be stored. */
const computeCsrfToken = (subkey: Uint8Array, tokenHash: Uint8Array): string =>
  Buffer.from(hmacSha256(subkey, tokenHash)).toString('base64url')

/** The CSRF token of a session, by its row id; empty when the session has ended. */
export function getCsrfToken({ db, keys }: App, sessionId: number): string {
  const row = sql(db).find.get(sessionId)
  return row ? computeCsrfToken(keys.subkey('csrf'), row.tokenHash) : ''
}

export function isValidCsrfToken({ db, keys }: App, sessionId: number, token: string): boolean {
  const row = sql(db).find.get(sessionId)
  if (!row) return false
  return keys
    .subkeys('csrf')
    .some((subkey) => equalBytes(Buffer.from(computeCsrfToken(subkey, row.tokenHash)), Buffer.from(token)))
}

/** Set-Cookie for a session; without a token, it removes the cookie. */
export const toCookieHeader = ({ config }: App, token: string | undefined): string =>
  formatCookie(token ?? '', token === undefined ? 0 : SESSION_MS / seconds(1), {
    isSecure: isHttps(config),
  })

/** Row id of the session that identified an actor. */
export function requireSessionId({ sessionId }: Actor): number {
  if (sessionId === undefined) throw new Error('this route is for sessions only')
  return sessionId
}

/** Creates the gate that finds the signed-in user by the cookie of a request, for routes and pages alike. */
export function createSessionGate(app: App): SessionGate<Actor> {
  /** Sessions whose use is being stored. */
  const pending = new Set<number>()
  const recordUse = (id: number, now: Millis, ipAddress: string): void => {
    if (pending.has(id)) return
    pending.add(id)
    app.commit
      .writeFromReserve((tx) => {
        sql(tx.db).seen.run(now, now + SESSION_MS, ipAddress || null, id)
        recordNetwork(tx, id, ipAddress, now)
      })
      // Caused by a full disk, for example. The time of a later use is stored instead.
      .catch((error: unknown) => app.log.warn({ err: error }, 'session use not stored'))
      .finally(() => pending.delete(id))
  }
  return {
    actorOf(request, clientIp) {
      const token = readCookie(request.headers, { isSecure: isHttps(app.config) })
      const hash = token === undefined ? undefined : hashLinkToken(token)
      const now = app.clock.now()
      const row = hash && sql(app.db).byToken.get(hash, now)
      if (!row) return undefined
      if (now - row.lastSeenAt > LAST_SEEN_INTERVAL_MS) recordUse(row.id, now, clientIp())
      const { id: sessionId, accountId, role } = row
      return {
        accountId,
        accountUuid: formatUuid(row.accountUuid),
        type: 'user',
        id: formatUuid(row.userUuid),
        role,
        scopes: scopesOf(role),
        sessionId,
        mayStillAct() {
          const current = sql(app.db).byId.get(sessionId, app.clock.now())
          return current?.accountId === accountId && current.role === role
        },
        // A getter, because only the audit log reads the address.
        get ipAddress() {
          return clientIp()
        },
      }
    },
    requireOwnPage({ headers }, { sessionId }) {
      requireOwnOrigin(headers, app.config.publicUrl)
      requireCsrfToken(headers, (token) => sessionId !== undefined && isValidCsrfToken(app, sessionId, token))
    },
    sessionRefusal: ({ sessionId }) =>
      sessionId === undefined
        ? new AppError(403, 'session_required', 'This requires a signed-in user; an API key cannot do it.')
        : undefined,
    ownerRefusal: findOwnerRefusal,
    operatorRefusal: (actor) => findOperatorRefusal(app.db, actor),
    roleRefusal: findRoleRefusal,
  }
}

/**
 * The 403 for an actor who is not an operator of the service, or has not used a second factor in this session;
 * undefined for an operator who has.
 */
function findOperatorRefusal(db: Database, { sessionId }: Actor): AppError | undefined {
  const row = sessionId === undefined ? undefined : sql(db).factors.get(sessionId)
  if (!row || row.operatorAt === null)
    return new AppError(
      403,
      'operator_required',
      'Only an operator of the service may do this; `tassis users operator EMAIL` on the server makes a user one.',
    )
  if (row.totpEnabledAt === null && row.hasPasskey === 0)
    return new AppError(
      403,
      'authenticator_required',
      'An operator needs an authenticator app or a passkey; set one up, then try again.',
    )
  return hasShownFactor(row) ? undefined : noSecondFactor()
}

// A code that was accepted before belongs to an app that is no longer in use.
const hasShownFactor = ({ secondFactorAt, totpEnabledAt }: Factors): boolean =>
  secondFactorAt !== null && secondFactorAt >= (totpEnabledAt ?? 0)

const noSecondFactor = (): AppError => new AppError(403, ...SECOND_FACTOR_REQUIRED)

/** For the `errorResponses` of routes that call `requireOwnSecondFactor`. */
export const SECOND_FACTOR_REQUIRED = [
  'second_factor_required',
  'This session has shown no second factor; send a code to POST /v1/auth/session/code, or use a passkey.',
] as const

/**
 * Throws 403 `second_factor_required` when the user has an authenticator app or a passkey and the session has shown
 * none: who has only the password must not be able to set up another factor.
 */
export function requireOwnSecondFactor(db: Database, actor: Actor): void {
  const row = sql(db).factors.get(requireSessionId(actor))
  if (row && (row.totpEnabledAt !== null || row.hasPasskey === 1) && !hasShownFactor(row)) throw noSecondFactor()
}
