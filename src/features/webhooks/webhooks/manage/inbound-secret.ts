/**
 * @module The inbound secret of an account, which signs the requests of all its route webhooks. It is created when the
 * first route gets a URL or the operator asks for it, and sealed for its account. Only the operator can see it.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { generateSecret } from './secret.ts'
import { PREVIOUS_SECRET_MS, type SigningSecrets } from './signature.ts'
import { openSecrets, type Webhook } from './webhooks.ts'

interface Row {
  readonly secret: Uint8Array
  readonly previousSecret: Uint8Array | null
  readonly updatedAt: Millis
  readonly accountUuid: Uint8Array
}

const sql = prepareStatements((db) => ({
  get: db.prepare<Row, [number]>(
    `SELECT secret, previous_secret AS previousSecret, inbound_secrets.updated_at AS updatedAt, uuid AS accountUuid
     FROM inbound_secrets JOIN accounts ON accounts.id = account_id WHERE account_id = ?`,
  ),
  put: db.prepare(
    `INSERT INTO inbound_secrets (account_id, secret, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
     ON CONFLICT DO UPDATE SET previous_secret = inbound_secrets.secret, secret = excluded.secret, updated_at = excluded.updated_at`,
  ),
  dropPrevious: db.prepare(
    'UPDATE inbound_secrets SET previous_secret = NULL WHERE previous_secret IS NOT NULL AND updated_at < ?',
  ),
  // Invalidates the results of attempts signed with the old secret.
  touchRoutes: db.prepare<{ id: number }, [number, number, number]>(
    `UPDATE webhooks SET secret_rotated_at = ?, updated_at = max(?, updated_at + 1)
     WHERE account_id = ? AND route_id IS NOT NULL AND deleted_at IS NULL RETURNING id`,
  ),
}))

/** Seal context of an inbound secret, so that it opens for no other account. */
export const toInboundSealContext = (accountUuid: string): string => `inbound:${accountUuid}`

function openInboundSecrets(db: Database, keys: KeyRing, accountId: number): SigningSecrets | undefined {
  const row = sql(db).get.get(accountId)
  if (!row) return undefined
  const open = (sealed: Uint8Array) => keys.unsealText(sealed, toInboundSealContext(formatUuid(row.accountUuid)))
  return {
    current: open(row.secret),
    previous: row.previousSecret
      ? { secret: open(row.previousSecret), until: row.updatedAt + PREVIOUS_SECRET_MS }
      : undefined,
  }
}

/** The secrets that sign a webhook's requests. Throws when one is missing or cannot be opened with this master key. */
export function openSigningSecrets({ db, keys }: Pick<App, 'db' | 'keys'>, webhook: Webhook): SigningSecrets {
  if (webhook.routeId === null) return openSecrets(keys, webhook)
  const secrets = openInboundSecrets(db, keys, webhook.accountId)
  if (secrets === undefined) throw new Error('the account has inbound routes with a URL, but no inbound secret')
  return secrets
}

function storeNewSecret(app: App, tx: Tx, { accountId, accountUuid }: Actor): string {
  const clear = generateSecret()
  sql(tx.db).put.run(accountId, app.keys.seal(clear, toInboundSealContext(accountUuid)), app.eventTime())
  return clear
}

const auditSecret = (app: App, tx: Tx, actor: Actor, action: 'revealed' | 'rotated'): void =>
  audit(app, tx, actor, {
    action: `inbound_secret.${action}`,
    resourceType: 'inbound_secret',
    resourceId: actor.accountUuid,
  })

/** The account's inbound secret in clear, created in the caller's transaction when there is none yet. */
export const ensureInboundSecret = (app: App, tx: Tx, actor: Actor): string =>
  openInboundSecrets(tx.db, app.keys, actor.accountId)?.current ?? storeNewSecret(app, tx, actor)

/** The account's inbound secret in clear; writes an audit entry. */
export const revealInboundSecret = (app: App, actor: Actor): Promise<string> =>
  app.commit.write((tx) => {
    auditSecret(app, tx, actor, 'revealed')
    return ensureInboundSecret(app, tx, actor)
  })

/**
 * Replaces the account's inbound secret and returns the new one, which signs every later attempt, including retries. In
 * the headers of Standard Webhooks the old one also signs for a day.
 */
export const rotateInboundSecret = (app: App, actor: Actor): Promise<string> =>
  app.commit.write((tx) => {
    const clear = storeNewSecret(app, tx, actor)
    auditSecret(app, tx, actor, 'rotated')
    const touched = sql(tx.db).touchRoutes.all(app.clock.now(), app.eventTime(), actor.accountId)
    tx.afterCommit(() => {
      for (const { id } of touched) app.webhookChanged.emit({ webhookId: id })
    })
    return clear
  })

/** Deletes inbound secrets that no longer sign. */
export const dropPreviousInboundSecrets = (tx: Tx, now: Millis): void =>
  void sql(tx.db).dropPrevious.run(now - PREVIOUS_SECRET_MS)
