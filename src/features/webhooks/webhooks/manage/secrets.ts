/**
 * @module The secrets that sign requests: that of a webhook, and the inbound secret of an account, which signs for all
 * its route webhooks. Creates, seals, reveals and rotates them. The secret of a webhook is shown at creation, and later
 * only to signed-in users who typed their password a short while ago, and to the operator. An inbound secret is created
 * when the first route gets a URL or the operator asks for it; only the operator can see it.
 */

import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import type { SealedColumns } from '#platform/crypto/sealed-columns.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid, randomBase62, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { PREVIOUS_SECRET_MS, type SigningSecrets } from './signature.ts'
import { getWebhook, openSecret, requireUnchanged, toSealContext, type Webhook } from './webhooks.ts'

const SECRET_PREFIX = 'whsec_'
const RANDOM_LENGTH = 32

const sql = prepareStatements((db) => ({
  // `updated_at` always increases, even while the clock stands still: it reveals attempts signed with the old secret,
  // and outdated versions of the page.
  setSecret: db.prepare(
    'UPDATE webhooks SET previous_secret = secret, secret = ?1, secret_rotated_at = ?2, updated_at = max(?3, updated_at + 1) WHERE id = ?4',
  ),
  dropPrevious: db.prepare(
    'UPDATE webhooks SET previous_secret = NULL WHERE previous_secret IS NOT NULL AND secret_rotated_at < ?',
  ),
  get: db.prepare<Row, [number]>(
    `SELECT secret, previous_secret AS previousSecret, inbound_secrets.updated_at AS rotatedAt, uuid AS accountUuid
     FROM inbound_secrets JOIN accounts ON accounts.id = account_id WHERE account_id = ?`,
  ),
  put: db.prepare(
    `INSERT INTO inbound_secrets (account_id, secret, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
     ON CONFLICT DO UPDATE SET previous_secret = inbound_secrets.secret, secret = excluded.secret, updated_at = excluded.updated_at`,
  ),
  dropPreviousInbound: db.prepare(
    'UPDATE inbound_secrets SET previous_secret = NULL WHERE previous_secret IS NOT NULL AND updated_at < ?',
  ),
  // Invalidates the results of attempts signed with the old secret.
  touchRoutes: db.prepare<{ id: number }, [number, number, number]>(
    `UPDATE webhooks SET secret_rotated_at = ?, updated_at = max(?, updated_at + 1)
     WHERE account_id = ? AND route_id IS NOT NULL AND deleted_at IS NULL RETURNING id`,
  ),
}))

/** A new secret in clear: `whsec_` and 32 random characters. */
export const generateSecret = (): string => `${SECRET_PREFIX}${randomBase62(RANDOM_LENGTH)}`

/** A new secret for the webhook with this id: in clear, and sealed for its row. */
export function createSealedSecret(keys: KeyRing, uuid: UuidBytes): { clear: string; sealed: Uint8Array } {
  const clear = generateSecret()
  return { clear, sealed: keys.seal(clear, toSealContext(uuid)) }
}

/** The secret of the account's webhook in clear; writes an audit entry. Throws 404. */
export function revealSecret(app: App, actor: Actor, id: string): Promise<string> {
  return app.commit.write((tx) => {
    const webhook = getWebhook(tx.db, actor.accountId, id)
    auditChange(app, tx, actor, 'webhook.secret_revealed', webhook.uuid)
    return openSecret(app.keys, webhook)
  })
}

/**
 * Replaces the secret and returns the new one, which signs every later attempt, including retries. In the headers of
 * Standard Webhooks the old one also signs for a day. Throws 404.
 * @param expectedUpdatedAt `updatedAt` of the webhook as the user saw it; throws 409 `webhook_changed` when it differs.
 * Default: any
 */
export function rotateSecret(app: App, actor: Actor, id: string, expectedUpdatedAt?: Millis): Promise<string> {
  return app.commit.write((tx) => {
    const webhook = getWebhook(tx.db, actor.accountId, id)
    requireUnchanged(webhook, expectedUpdatedAt)
    const { id: webhookId, uuid } = webhook
    const { clear, sealed } = createSealedSecret(app.keys, uuid)
    sql(tx.db).setSecret.run(sealed, app.clock.now(), app.eventTime(), webhookId)
    auditChange(app, tx, actor, 'webhook.secret_rotated', uuid)
    tx.afterCommit(() => app.webhookChanged.emit({ webhookId }))
    return clear
  })
}

interface SealedSecrets {
  readonly secret: Uint8Array
  readonly previousSecret: Uint8Array | null
  /** When the previous one was replaced. */
  readonly rotatedAt: Millis | null
}

interface Row extends SealedSecrets {
  readonly accountUuid: Uint8Array
}

const toSigningSecrets = (
  { secret, previousSecret, rotatedAt }: SealedSecrets,
  open: (sealed: Uint8Array) => string,
): SigningSecrets => ({
  current: open(secret),
  ...(previousSecret !== null &&
    rotatedAt !== null && { previous: { secret: open(previousSecret), until: rotatedAt + PREVIOUS_SECRET_MS } }),
})

/** Seal context of an inbound secret, so that it opens for no other account. */
const toInboundSealContext = (accountUuid: string): string => `inbound:${accountUuid}`
const toAccountContext = (uuid: Uint8Array): string => toInboundSealContext(formatUuid(uuid))

function openInboundSecrets(db: Database, keys: KeyRing, accountId: number): SigningSecrets | undefined {
  const row = sql(db).get.get(accountId)
  if (!row) return undefined
  return toSigningSecrets(row, (sealed) => keys.unsealText(sealed, toAccountContext(row.accountUuid)))
}

/** The secrets that sign a webhook's requests. Throws when one is missing or cannot be opened with this master key. */
export function openSigningSecrets({ db, keys }: Pick<App, 'db' | 'keys'>, webhook: Webhook): SigningSecrets {
  const { uuid, secretRotatedAt: rotatedAt } = webhook
  if (webhook.routeId === null)
    return toSigningSecrets({ ...webhook, rotatedAt }, (secret) => openSecret(keys, { secret, uuid }))
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
  auditChange(app, tx, actor, `inbound_secret.${action}`, actor.accountUuid)

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

/** Deletes secrets that no longer sign. */
export function dropPreviousSecrets(tx: Tx, now: Millis): void {
  sql(tx.db).dropPrevious.run(now - PREVIOUS_SECRET_MS)
  sql(tx.db).dropPreviousInbound.run(now - PREVIOUS_SECRET_MS)
}

/** The sealed columns of webhooks, so that they can be sealed again under a new master key. */
export const SEALED_COLUMNS: readonly SealedColumns[] = [
  { table: 'webhooks', id: 'id', owner: 'uuid', columns: { secret: toSealContext, previous_secret: toSealContext } },
  {
    table: 'inbound_secrets',
    id: 'account_id',
    owner: '(SELECT uuid FROM accounts WHERE accounts.id = account_id)',
    columns: { secret: toAccountContext, previous_secret: toAccountContext },
  },
]
