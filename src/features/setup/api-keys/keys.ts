/**
 * @module Creates, imports, lists, changes, deletes and authenticates API keys. Stores only the SHA-256 of a key. The
 * only writer of `api_keys` and `revoked_api_keys`.
 */
import type { Database } from 'bun:sqlite'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, ActorLimits, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { insertSql, prepareStatements, setSql, type Tx, toSnakeCase } from '#platform/db/open.ts'
import { AppError, conflict, invalid, notFound } from '#platform/errors.ts'
import { createNetworkMatcher } from '#platform/http/client-ip.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, newUuid, parseUuid, randomBase62 } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { applyLimits, isRestricted } from './limits.ts'
import type { ApiKey, ApiKeyChange, LimitsInput } from './model.ts'
import { hasScope, MAILBOX_SCOPES, RESTRICTED_SCOPES, SCOPES } from './scopes.ts'
import type { apiKeys } from './tables.ts'

type Row = Readonly<Omit<typeof apiKeys.$inferSelect, 'hash'>> & { readonly accountUuid: Uint8Array }

const COLUMNS = `api_keys.id, api_keys.uuid, account_id AS accountId, accounts.uuid AS accountUuid, api_keys.name, key_prefix AS keyPrefix, scopes, expires_at AS expiresAt, limits,
  last_used_at AS lastUsedAt, api_keys.created_at AS createdAt`

const sql = prepareStatements((db) => ({
  insert: db.prepare(insertSql('api_keys', 'uuid accountId name hash keyPrefix scopes expiresAt limits createdAt')),
  byUuid: db.prepare<Row, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM api_keys JOIN accounts ON accounts.id = account_id WHERE api_keys.uuid = ? AND account_id = ?`,
  ),
  update: db.prepare(`UPDATE api_keys SET ${setSql('name scopes expiresAt limits')} WHERE id = $id`),
  list: db.prepare<Row, [number]>(
    `SELECT ${COLUMNS} FROM api_keys JOIN accounts ON accounts.id = account_id WHERE account_id = ? ORDER BY api_keys.id DESC`,
  ),
  byHash: db.prepare<Row & { isOpen: number }, [Uint8Array]>(
    `SELECT ${COLUMNS}, (deleted_at IS NULL AND disabled_at IS NULL) AS isOpen FROM api_keys JOIN accounts ON accounts.id = account_id WHERE hash = ?`,
  ),
  deleteAll: db.prepare('DELETE FROM api_keys WHERE account_id = ?'),
  delete: db.prepare('DELETE FROM api_keys WHERE uuid = ? AND account_id = ?'),
  revoke: db.prepare(
    `INSERT OR REPLACE INTO revoked_api_keys (hash, uuid, account_id, name, revoked_at)
     SELECT hash, uuid, account_id, name, ? FROM api_keys WHERE uuid = ? AND account_id = ?`,
  ),
  owner: db.prepare<{ accountId: number; uuid: Uint8Array }, { hash: Uint8Array }>(
    `SELECT account_id AS accountId, uuid FROM api_keys WHERE hash = $hash
     UNION ALL SELECT account_id, uuid FROM revoked_api_keys WHERE hash = $hash LIMIT 1`,
  ),
  hash: db.prepare<{ hash: Uint8Array }, [Uint8Array]>('SELECT hash FROM api_keys WHERE uuid = ?'),
  used: db.prepare('UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?'),
}))

const KEY_PREFIX = 'tassis_live_'
const RANDOM_LENGTH = 32
const SHOWN_PREFIX_LENGTH = 16
/** A key provided by the operator: long enough to resist guessing, short enough for a header. */
const KEY_PATTERN = /^[\x21-\x7e]{20,200}$/

const toLimits = ({ limits, expiresAt }: Pick<Row, 'limits' | 'expiresAt'>): ActorLimits => ({
  ...(JSON.parse(limits ?? '{}') as Omit<ActorLimits, 'expiresAt'>),
  ...(expiresAt !== null && { expiresAt }),
})

/** What a key may do, as it is stored. */
function toAccess(scopes: readonly string[], { expiresAt, ...limits }: ActorLimits) {
  const json = JSON.stringify(limits)
  return { scopes: JSON.stringify(scopes), expiresAt: expiresAt ?? null, limits: json === '{}' ? null : json }
}

/** What a key may do, as the audit log says it. */
const describeAccess = (scopes: readonly string[], { expiresAt, ...limits }: ActorLimits) => ({
  scopes,
  expires_at: expiresAt && isoTime(expiresAt),
  ...Object.fromEntries(Object.entries(limits).map(([field, value]) => [toSnakeCase(field), value])),
})

const toApiKey = (row: Row): ApiKey => ({
  id: formatUuid(row.uuid),
  name: row.name,
  keyPrefix: row.keyPrefix,
  scopes: JSON.parse(row.scopes) as string[],
  limits: toLimits(row),
  lastUsedAt: row.lastUsedAt,
  createdAt: row.createdAt,
})

/** The account's keys, newest first. */
export const listApiKeys = (db: Database, accountId: number): ApiKey[] => sql(db).list.all(accountId).map(toApiKey)

/**
 * Creates a key and returns it in clear; it is never returned again.
 * @param input.scopes if empty, the key gets all scopes of the actor
 * @param input.limits where the key may be used; what is missing is as for the actor
 * @param input.key provided in place of a random key
 */
export const createApiKey = (app: App, actor: Actor, input: NewKey): Promise<ApiKey & { key: string }> =>
  app.commit.write((tx) => insertApiKey(app, tx, actor, input))

interface NewKey {
  readonly name: string
  readonly scopes?: readonly string[] | null | undefined
  readonly limits?: LimitsInput
  readonly key?: string
}

/** The same in the transaction of the caller. */
export function insertApiKey(app: App, tx: Tx, actor: Actor, input: NewKey): ApiKey & { key: string } {
  const name = parseName(input.name)
  const limits = applyLimits(app, actor, actor.limits ?? {}, input.limits ?? {})
  const scopes = resolveScopes(actor, input.scopes ?? [], limits)
  const key = input.key ?? `${KEY_PREFIX}${randomBase62(RANDOM_LENGTH)}`
  if (!KEY_PATTERN.test(key))
    throw invalid('key', 'The key must have 20 to 200 printable ASCII characters without spaces.')
  const uuid = newUuid()
  const id = formatUuid(uuid)
  const keyPrefix = key.slice(0, SHOWN_PREFIX_LENGTH)
  const createdAt = app.eventTime()
  const hash = sha256(key)
  if (sql(tx.db).byHash.get(hash)) throw conflict('api_key_exists', 'This key is already in use.')
  const { accountId } = actor
  sql(tx.db).insert.run({ uuid, accountId, name, hash, keyPrefix, ...toAccess(scopes, limits), createdAt })
  auditChange(app, tx, actor, 'api_key.created', id, { name, ...describeAccess(scopes, limits) })
  return { id, name, keyPrefix, scopes, limits, lastUsedAt: null, createdAt, key }
}

/**
 * Changes a key, from its next request on. Throws 404, and 422 for an empty change and when the changed key could do
 * more than the actor: a key that can already do more can only be renamed.
 */
export function changeApiKey(app: App, actor: Actor, id: string, change: ApiKeyChange): Promise<ApiKey> {
  const uuid = parseUuid(id)
  const { name: newName, ...access } = change
  const isNameOnly = Object.values(access).every((value) => value === undefined)
  if (isNameOnly && newName === undefined)
    throw invalid('body', 'The body must have at least one of name, scopes and the limits.')
  return app.commit.write((tx) => {
    const row = uuid && sql(tx.db).byUuid.get(uuid, actor.accountId)
    if (!row) throw apiKeyNotFound()
    const before = toApiKey(row)
    const name = newName === undefined ? before.name : parseName(newName)
    const limits = isNameOnly ? before.limits : applyLimits(app, actor, before.limits, access)
    const scopes = isNameOnly ? before.scopes : resolveScopes(actor, access.scopes ?? before.scopes, limits)
    sql(tx.db).update.run({ name, ...toAccess(scopes, limits), id: row.id })
    const after = { name, ...describeAccess(scopes, limits) }
    const changes = describeChanges({ name: before.name, ...describeAccess(before.scopes, before.limits) }, after)
    auditChange(app, tx, actor, 'api_key.updated', id, { ...after, ...changes })
    announceAccessChange(app, tx, actor.accountId)
    return { ...before, name, scopes, limits }
  })
}

const apiKeyNotFound = () => notFound('api_key_not_found', 'API key not found.')

/** A key never gets scopes that its creator lacks, nor one that its limits exclude. */
function resolveScopes(actor: Actor, requested: readonly string[], limits: ActorLimits): string[] {
  const allowed = limits.mailboxId ? MAILBOX_SCOPES : isRestricted(limits) ? RESTRICTED_SCOPES : SCOPES
  if (requested.length === 0) return allowed.filter((scope) => hasScope(actor.scopes, scope))
  for (const scope of requested) {
    if (!SCOPES.includes(scope))
      throw invalid(
        'scopes',
        `Unknown scope "${scope.slice(0, 60)}"; the scopes are ${SCOPES.join(', ')}.`,
        'invalid_scope',
      )
    if (!allowed.includes(scope))
      throw invalid(
        'scopes',
        `A key with drafts, allowed_recipients, daily_limit or mailbox_id cannot have the scope ${scope}; it may have ${allowed.join(', ')}.`,
        'invalid_scope',
      )
    if (!hasScope(actor.scopes, scope))
      throw invalid('scopes', `This key cannot grant the scope ${scope}, which it does not have.`, 'invalid_scope')
  }
  return [...new Set(requested)]
}

/** Deletes a key. Throws 404. */
export const revokeApiKey = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => revokeInTransaction(app, tx, actor, id))

/** The same in the transaction of the caller. */
export function revokeInTransaction(app: App, tx: Tx, actor: Actor, id: string): void {
  const uuid = parseUuid(id)
  if (!uuid || sql(tx.db).revoke.run(app.eventTime(), uuid, actor.accountId).changes === 0) throw apiKeyNotFound()
  sql(tx.db).delete.run(uuid, actor.accountId)
  auditChange(app, tx, actor, 'api_key.deleted', id)
  announceAccessChange(app, tx, actor.accountId)
}

/** Deletes the keys of an agent mailbox that is deleted. */
export function revokeKeysOfMailbox(app: App, tx: Tx, actor: Actor, mailboxId: string): void {
  for (const { id, limits } of listApiKeys(tx.db, actor.accountId))
    if (limits.mailboxId === mailboxId) revokeInTransaction(app, tx, actor, id)
}

/**
 * Deletes all keys of an account. The caller announces the changed access; otherwise caches would still accept the
 * keys.
 */
export const deleteKeysOfAccount = (tx: Tx, accountId: number): void => void sql(tx.db).deleteAll.run(accountId)

/** Deletes one key of an account. The caller announces the changed access. */
export const deleteApiKey = (tx: Tx, accountId: number, uuid: Uint8Array): void =>
  void sql(tx.db).delete.run(uuid, accountId)

/** Whose key it is, or was before it was revoked; says nothing about what the key may do. */
export function findKeyOwner(db: Database, key: string): Pick<Actor, 'accountId' | 'id'> | undefined {
  const row = sql(db).owner.get({ hash: sha256(key) })
  return row ? { accountId: row.accountId, id: formatUuid(row.uuid) } : undefined
}

export type Authenticator = ReturnType<typeof createAuthenticator>

const MAX_CACHED_KEYS = 10_000

interface CachedKey {
  readonly actor: Actor
  readonly rowId: number
  /** Undefined: any network. */
  readonly isAllowedNetwork: ((address: string) => boolean) | undefined
}

function requireUsable({ actor, isAllowedNetwork }: CachedKey, now: Millis, clientIp: () => string): void {
  const { expiresAt, networks = [] } = actor.limits ?? {}
  if (expiresAt !== undefined && now >= expiresAt)
    throw new AppError(
      401,
      'api_key_expired',
      `This API key expired at ${isoTime(expiresAt)}; use another one, or give it a later expires_at.`,
    )
  if (isAllowedNetwork === undefined) return
  const address = clientIp()
  if (!isAllowedNetwork(address))
    throw new AppError(
      403,
      'network_not_allowed',
      `This API key may be used from ${networks.join(', ')} only; this request came from ${address}.`,
    )
}

/**
 * Authenticates keys by hash, with a cache in front of the table. The cache is always right, because this process is
 * the only writer of the table.
 */
export function createAuthenticator(app: App) {
  const actors = new Map<string, CachedKey>()
  const lastUsed = new Map<number, Millis>()
  app.accessChanged.listen(({ accountId }) => {
    for (const [key, { actor }] of actors) if (actor.accountId === accountId) actors.delete(key)
  })
  const authenticateHash = (hash: Uint8Array, clientIp: () => string): Actor | undefined => {
    const cacheKey = hash.toHex()
    let known = actors.get(cacheKey)
    if (!known) {
      const row = sql(app.db).byHash.get(hash)
      if (row?.isOpen !== 1) return undefined
      const limits = toLimits(row)
      known = {
        rowId: row.id,
        isAllowedNetwork: limits.networks && createNetworkMatcher(limits.networks),
        actor: {
          accountId: row.accountId,
          accountUuid: formatUuid(row.accountUuid),
          type: 'api_key',
          id: formatUuid(row.uuid),
          scopes: new Set(JSON.parse(row.scopes) as string[]),
          limits,
          // Reads the table: since the actor was cached, the key may have been deleted, or its account disabled or
          // deleted.
          mayStillAct: () => {
            const current = sql(app.db).byHash.get(hash)
            return current?.isOpen === 1 && (current.expiresAt ?? Number.POSITIVE_INFINITY) > app.clock.now()
          },
        },
      }
      if (actors.size >= MAX_CACHED_KEYS) actors.clear()
      actors.set(cacheKey, known)
    }
    requireUsable(known, app.clock.now(), clientIp)
    lastUsed.set(known.rowId, app.clock.now())
    return known.actor
  }
  return {
    /**
     * The actor of a key; undefined for an unknown or deleted key. Throws 401 `api_key_expired` for an expired key, and
     * 403 `network_not_allowed` for a client outside of its networks.
     * @param clientIp called only for a key with networks
     */
    authenticate: (key: string, clientIp: () => string): Actor | undefined => authenticateHash(sha256(key), clientIp),
    /** The same by the id of a key, for a request that proves in another way that its sender has the key. */
    authenticateId(id: string, clientIp: () => string): Actor | undefined {
      const uuid = parseUuid(id)
      const row = uuid && sql(app.db).hash.get(uuid)
      return row ? authenticateHash(row.hash, clientIp) : undefined
    },
    findOwner: (key: string) => findKeyOwner(app.db, key),
    /** Stores the times of last use; called periodically, so that requests need no write. */
    async flushLastUsed(): Promise<void> {
      if (lastUsed.size === 0) return
      const used = [...lastUsed]
      lastUsed.clear()
      await app.commit.writeFromReserve((tx: Tx) => {
        for (const [id, at] of used) sql(tx.db).used.run(at, id)
      })
    },
  }
}
