/**
 * @module Grants: what a user lets a program do, until it is revoked or not used for 60 days. A grant is an API key that
 * nobody has; its tokens stand for it, at /mcp only. Codes and tokens are sealed: the database has none to steal.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { type Authenticator, findKeyOwner, insertApiKey, revokeInTransaction } from '#features/setup/api-keys/keys.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { openSealed, sealJson } from '#platform/crypto/sealed-token.ts'
import { insertSql, prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { days, hours, type Millis, minutes, seconds } from '#platform/units.ts'
import { createLinkToken } from '../links.ts'
import { scopesOf } from '../roles.ts'
import { isValidCsrfToken, listSessions } from '../sessions.ts'
import type { oauthGrants } from '../tables.ts'
import { findUser, listMemberships, toUserActor } from '../users.ts'

const CODE_VALID_MS = minutes(1)
/** A grant lives as long as its refresh token. */
const VALID_MS = { access: hours(1), refresh: days(60) }
/** How long the refresh token before the newest still counts, since an answer can be lost. */
const GRACE_MS = minutes(1)
const CODE_CONTEXT = 'oauth-code'
const TOKEN_PREFIX = 'tassis_oauth_'

/** What the user agreed to. */
interface Code {
  /** Of the program. */
  readonly name: string
  readonly scopes: readonly string[]
  /** Whether its emails wait until a person releases them. */
  readonly drafts: boolean
  readonly accountId: number
  readonly userId: number
  /** CSRF token of the session in which the user agreed: what ends it ends the code too, and no row id is used again. */
  readonly session: string
  /** Who may exchange the code, as `bindCode` returns it. */
  readonly binding: string
  /** The API key to create: it exists only once, so that a code is used only once. */
  readonly key: string
  readonly at: Millis
}

/** What a token is sealed for, so that one is never taken for the other. */
type TokenKind = keyof typeof VALID_MS

interface Token {
  /** Public id of the API key. */
  readonly id: string
  /** Hash of the id of the client. */
  readonly client: string
  readonly generation: number
  readonly at: Millis
}

type Row = Omit<typeof oauthGrants.$inferSelect, 'userId'> &
  Readonly<{ accountUuid: UuidBytes; role: TeamRole; scopes: string }>

const SELECT = `SELECT key_uuid AS keyUuid, g.account_id AS accountId, generation, issued_at AS issuedAt, accounts.uuid AS accountUuid, role, scopes
  FROM oauth_grants g JOIN api_keys ON api_keys.uuid = key_uuid JOIN accounts ON accounts.id = g.account_id AND disabled_at IS NULL AND deleted_at IS NULL
  JOIN members ON members.account_id = g.account_id AND members.user_id = g.user_id`

const sql = prepareStatements((db) => ({
  insert: db.prepare(insertSql('oauth_grants', 'keyUuid accountId userId issuedAt')),
  find: db.prepare<Row, [UuidBytes | null]>(`${SELECT} WHERE key_uuid = ?`),
  connectors: db.prepare<{ keyUuid: UuidBytes; email: string }, [number]>(
    'SELECT key_uuid AS keyUuid, email FROM oauth_grants JOIN users ON users.id = user_id WHERE account_id = ?',
  ),
  renew: db.prepare('UPDATE oauth_grants SET generation = ?, issued_at = ? WHERE key_uuid = ?'),
  old: db.prepare<Row, [number]>(`${SELECT} WHERE issued_at <= ?`),
}))

/** Who connected the programs of an account: email addresses by the ids of the API keys. */
export const listConnectors = (db: Database, accountId: number): ReadonlyMap<string, string> =>
  new Map(
    sql(db)
      .connectors.all(accountId)
      .map(({ keyUuid, email }) => [formatUuid(keyUuid), email]),
  )

const hash = (text: string): string => Buffer.from(sha256(text)).toString('base64url')

/** Ties a code to its client, its redirect URI and its PKCE challenge (RFC 7636). */
export const bindCode = (...facts: readonly [clientId: string, redirectUri: string, challenge: string]): string =>
  hash(JSON.stringify(facts))

export const createCode = ({ keys, clock }: App, consent: Omit<Code, 'key' | 'at'>): string =>
  sealJson(keys, { ...consent, key: `connected_oauth_${createLinkToken().token}`, at: clock.now() }, CODE_CONTEXT)

export const isToken = (text: string): boolean => text.startsWith(TOKEN_PREFIX)

/** The answer of the token endpoint. */
function issueTokens({ keys, clock }: App, facts: Omit<Token, 'at'>, scopes: Iterable<string>) {
  const token: Token = { ...facts, at: clock.now() }
  const seal = (kind: TokenKind) => TOKEN_PREFIX + sealJson(keys, token, `oauth-${kind}`)
  const [access_token, refresh_token] = [seal('access'), seal('refresh')]
  const expires_in = VALID_MS.access / seconds(1)
  return { access_token, token_type: 'Bearer', expires_in, refresh_token, scope: [...scopes].join(' ') }
}

const invalidGrant = (problem: string): AppError =>
  new AppError(400, 'invalid_grant', `${problem}; ask the user again.`)

const endGrant = (app: App, tx: Tx, row: Row): void =>
  revokeInTransaction(app, tx, createSystemActor(row), formatUuid(row.keyUuid))

const findByKey = (tx: Tx, keyId: string): Row | undefined => sql(tx.db).find.get(parseUuid(keyId) ?? null) ?? undefined

/** Ends the grants that were not used for too long. */
export const endOldGrants = (app: App): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    for (const row of sql(tx.db).old.all(app.clock.now() - VALID_MS.refresh)) endGrant(app, tx, row)
  })

/**
 * Exchanges a code for tokens. Throws 400 `invalid_grant`; a code that was used before also ends its grant.
 * @param field of the request, by its name
 */
export async function exchangeCode(app: App, field: (name: string) => string) {
  const clientId = field('client_id')
  const consent = openSealed<Code>(app.keys, field('code'), CODE_CONTEXT)
  const issuedAt = app.clock.now()
  const tokens = await app.commit.write((tx) => {
    const user = consent && findUser(tx.db, consent.userId)
    const membership = user && listMemberships(tx.db, user.id).find(({ accountId }) => accountId === consent.accountId)
    const isCurrent = consent !== undefined && Math.abs(issuedAt - consent.at) < CODE_VALID_MS
    const sessions = membership ? listSessions(tx.db, user.id, issuedAt) : []
    if (!membership || !isCurrent || !sessions.some(({ id }) => isValidCsrfToken(app, id, consent.session)))
      throw invalidGrant('The code is not of this service, or has expired')
    const { key, name, scopes, drafts, accountId } = consent
    const used = findKeyOwner(tx.db, key)
    if (used) {
      const row = findByKey(tx, used.id)
      return row && endGrant(app, tx, row)
    }
    if (consent.binding !== bindCode(clientId, field('redirect_uri'), hash(field('code_verifier'))))
      throw invalidGrant('The code has another client_id, redirect_uri or code_verifier')
    const actor: Actor = { ...toUserActor(user, membership), scopes: scopesOf(membership.role) }
    const { id } = insertApiKey(app, tx, actor, { name, scopes, key, limits: { drafts } })
    sql(tx.db).insert.run({ keyUuid: parseUuid(id) ?? null, accountId, userId: user.id, issuedAt })
    return issueTokens(app, { id, client: hash(clientId), generation: 0 }, scopes)
  })
  if (!tokens) throw invalidGrant('The code was used before, so its tokens were revoked')
  return tokens
}

/** A token and its grant, while its user belongs to the account; undefined for any other text. */
function findGrant({ keys, clock }: App, db: Database, text: string, kind: TokenKind) {
  const token = openSealed<Token>(keys, text.slice(TOKEN_PREFIX.length), `oauth-${kind}`)
  const row = token && sql(db).find.get(parseUuid(token.id) ?? null)
  return row && clock.now() - token.at < VALID_MS[kind] ? { row, token } : undefined
}

/** The scopes to which the user agreed, without those that the user's role lacks now. */
function scopesOfGrant({ role, scopes }: Row): ReadonlySet<string> {
  const agreed = new Set(JSON.parse(scopes) as string[])
  return new Set([...scopesOf(role)].filter((scope) => hasScope(agreed, scope)))
}

/**
 * Exchanges a refresh token for the next tokens (OAuth 2.1 §4.3). Throws 400 `invalid_grant`; a token that was used
 * before was copied, and ends the grant.
 */
export async function refreshTokens(app: App, text: string, clientId: string) {
  const now = app.clock.now()
  const tokens = await app.commit.write((tx) => {
    const { row, token } = findGrant(app, tx.db, text, 'refresh') ?? {}
    if (!row || token?.client !== hash(clientId))
      throw invalidGrant('The refresh token has expired, was revoked or has another client_id')
    const generation = token.generation + 1
    if (generation > row.generation) sql(tx.db).renew.run(generation, now, row.keyUuid)
    else if (generation < row.generation || now - row.issuedAt >= GRACE_MS) return endGrant(app, tx, row)
    return issueTokens(app, { ...token, generation }, scopesOfGrant(row))
  })
  if (!tokens) throw invalidGrant('The refresh token was used before, so all tokens were revoked')
  return tokens
}

/** Ends the grant of any of its tokens (RFC 7009). */
export const revokeToken = (app: App, text: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const { row } = findGrant(app, tx.db, text, 'access') ?? findGrant(app, tx.db, text, 'refresh') ?? {}
    if (row) endGrant(app, tx, row)
  })

/** The actor of an access token: the API key of its grant. Throws as `authenticate` does. */
export function authenticateToken(app: App, keys: Authenticator, text: string, clientIp: () => string) {
  const find = () => findGrant(app, app.db, text, 'access')
  const grant = find()
  const actor = grant && keys.authenticateId(grant.token.id, clientIp)
  // A long poll ends when the role changes, too.
  const mayStillAct = () => actor?.mayStillAct?.() === true && find()?.row.role === grant?.row.role
  return actor && { ...actor, scopes: scopesOfGrant(grant.row), mayStillAct }
}
