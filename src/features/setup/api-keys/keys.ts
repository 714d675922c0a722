/**
 * @module Creates, imports, lists, deletes and authenticates API keys. Stores only the SHA-256 of a key. The only
 * writer of `api_keys`.
 */
import type { Database } from 'bun:sqlite'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import type { Millis } from '#platform/clock.ts'
import { sha256 } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { formatUuid, newUuid, parseUuid, randomBase62 } from '#platform/ids.ts'
import { hasScope, SCOPES } from './scopes.ts'

export interface ApiKey {
  readonly id: string
  readonly name: string
  readonly keyPrefix: string
  readonly scopes: readonly string[]
  readonly lastUsedAt: Millis | null
  readonly createdAt: Millis
}

interface Row {
  id: number
  uuid: Uint8Array
  accountId: number
  accountUuid: Uint8Array
  name: string
  keyPrefix: string
  scopes: string
  lastUsedAt: number | null
  createdAt: number
}

const COLUMNS = `api_keys.id, api_keys.uuid, account_id AS accountId, accounts.uuid AS accountUuid, api_keys.name, key_prefix AS keyPrefix, scopes,
  last_used_at AS lastUsedAt, api_keys.created_at AS createdAt`

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    'INSERT INTO api_keys (uuid, account_id, name, hash, key_prefix, scopes, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
  ),
  list: db.prepare<Row, [number]>(
    `SELECT ${COLUMNS} FROM api_keys JOIN accounts ON accounts.id = account_id WHERE account_id = ? ORDER BY api_keys.id DESC`,
  ),
  byHash: db.prepare<Row & { isOpen: number }, [Uint8Array]>(
    `SELECT ${COLUMNS}, (deleted_at IS NULL AND disabled_at IS NULL) AS isOpen FROM api_keys JOIN accounts ON accounts.id = account_id WHERE hash = ?`,
  ),
  deleteAll: db.prepare('DELETE FROM api_keys WHERE account_id = ?'),
  delete: db.prepare('DELETE FROM api_keys WHERE uuid = ? AND account_id = ?'),
  used: db.prepare('UPDATE api_keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?'),
}))

const KEY_PREFIX = 'tassis_live_'
const RANDOM_LENGTH = 32
const SHOWN_PREFIX_LENGTH = 16
const MAX_NAME_LENGTH = 200
/** A key provided by the operator: long enough to resist guessing, short enough for a header. */
const KEY_PATTERN = /^[\x21-\x7e]{20,200}$/

const toApiKey = (row: Row): ApiKey => ({
  id: formatUuid(row.uuid),
  name: row.name,
  keyPrefix: row.keyPrefix,
  scopes: JSON.parse(row.scopes) as string[],
  lastUsedAt: row.lastUsedAt,
  createdAt: row.createdAt,
})

/** The account's keys, newest first. */
export const listApiKeys = (db: Database, accountId: number): ApiKey[] => sql(db).list.all(accountId).map(toApiKey)

/**
 * Creates a key and returns it in clear; it is never returned again.
 * @param input.scopes empty for all scopes of the actor
 * @param input.key provided by the operator in place of a random one
 * @param inTransaction runs in the same transaction; if it throws, no key is created
 */
export async function createApiKey(
  app: App,
  actor: Actor,
  input: { name: string; scopes?: readonly string[] | undefined; key?: string },
  inTransaction?: (tx: Tx, id: string) => void,
): Promise<ApiKey & { key: string }> {
  const name = input.name.trim()
  if (name === '' || name.length > MAX_NAME_LENGTH)
    throw invalid('name', `The name must have 1 to ${MAX_NAME_LENGTH} characters.`)
  const scopes = resolveScopes(actor, input.scopes ?? [])
  const key = input.key ?? `${KEY_PREFIX}${randomBase62(RANDOM_LENGTH)}`
  if (!KEY_PATTERN.test(key))
    throw invalid('key', 'The key must have 20 to 200 printable ASCII characters without spaces.')
  const uuid = newUuid()
  const id = formatUuid(uuid)
  const keyPrefix = key.slice(0, SHOWN_PREFIX_LENGTH)
  const createdAt = app.eventTime()
  await app.commit.write((tx) => {
    const hash = sha256(key)
    if (sql(tx.db).byHash.get(hash)) throw conflict('api_key_exists', 'This key is already in use.')
    sql(tx.db).insert.run(uuid, actor.accountId, name, hash, keyPrefix, JSON.stringify(scopes), createdAt)
    audit(app, tx, actor, {
      action: 'api_key.created',
      resourceType: 'api_key',
      resourceId: id,
      metadata: { name, scopes },
    })
    inTransaction?.(tx, id)
  })
  return { id, name, keyPrefix, scopes, lastUsedAt: null, createdAt, key }
}

/** A key never gets scopes that its creator lacks. */
function resolveScopes(actor: Actor, requested: readonly string[]): string[] {
  if (requested.length === 0) return SCOPES.filter((scope) => hasScope(actor.scopes, scope))
  for (const scope of requested) {
    if (!SCOPES.includes(scope))
      throw invalid(
        'scopes',
        `Unknown scope "${scope.slice(0, 60)}"; the scopes are ${SCOPES.join(', ')}.`,
        'invalid_scope',
      )
    if (!hasScope(actor.scopes, scope))
      throw invalid('scopes', `This key cannot grant the scope ${scope}, which it does not have.`, 'invalid_scope')
  }
  return [...new Set(requested)]
}

/** Deletes a key. Throws 404. */
export function revokeApiKey(app: App, actor: Actor, id: string): Promise<void> {
  const uuid = parseUuid(id)
  return app.commit.writeFromReserve((tx) => {
    if (!uuid || sql(tx.db).delete.run(uuid, actor.accountId).changes === 0)
      throw notFound('api_key_not_found', 'API key not found.')
    audit(app, tx, actor, { action: 'api_key.deleted', resourceType: 'api_key', resourceId: id })
    announceAccessChange(app, tx, actor.accountId)
  })
}

/**
 * Deletes all keys of an account. The caller announces the changed access, so that no cache still accepts any of them.
 */
export const deleteKeysOfAccount = (tx: Tx, accountId: number): void => void sql(tx.db).deleteAll.run(accountId)

export interface Authenticator {
  /** The actor of a key; undefined for an unknown or deleted key. */
  authenticate(key: string): Actor | undefined
  /** Stores the times of last use; called periodically, so that requests need no write. */
  flushLastUsed(): Promise<void>
}

const MAX_CACHED_KEYS = 10_000

/**
 * Authenticates keys by hash, with a cache in front of the table. The cache is exact, because this process is the only
 * writer.
 */
export function createAuthenticator(app: App): Authenticator {
  const actors = new Map<string, { actor: Actor; rowId: number }>()
  const lastUsed = new Map<number, Millis>()
  app.accessChanged.listen(({ accountId }) => {
    for (const [key, { actor }] of actors) if (actor.accountId === accountId) actors.delete(key)
  })
  return {
    authenticate(key) {
      const hash = sha256(key)
      const cacheKey = hash.toHex()
      let known = actors.get(cacheKey)
      if (!known) {
        const row = sql(app.db).byHash.get(hash)
        if (row?.isOpen !== 1) return undefined
        known = {
          rowId: row.id,
          actor: {
            accountId: row.accountId,
            accountUuid: formatUuid(row.accountUuid),
            type: 'api_key',
            id: formatUuid(row.uuid),
            scopes: new Set(JSON.parse(row.scopes) as string[]),
            // Since the actor was cached, the key may have been deleted, or its account disabled or deleted.
            mayStillAct: () => sql(app.db).byHash.get(hash)?.isOpen === 1,
          },
        }
        if (actors.size >= MAX_CACHED_KEYS) actors.clear()
        actors.set(cacheKey, known)
      }
      lastUsed.set(known.rowId, app.clock.now())
      return known.actor
    },
    async flushLastUsed() {
      if (lastUsed.size === 0) return
      const used = [...lastUsed]
      lastUsed.clear()
      await app.commit.writeFromReserve((tx: Tx) => {
        for (const [id, at] of used) sql(tx.db).used.run(at, id)
      })
    },
  }
}
