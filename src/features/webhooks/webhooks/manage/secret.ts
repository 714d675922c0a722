/**
 * @module Creates, seals, reveals and rotates the signing secret of a webhook. The secret is shown at creation, and
 * later only to signed-in users who typed their password a short while ago, and to the operator.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import type { KeyRing } from '#platform/crypto/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid, randomBase62, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { PREVIOUS_SECRET_MS } from './signature.ts'
import { getWebhook, openSecret, requireUnchanged, toSealContext } from './webhooks.ts'

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
    audit(app, tx, actor, {
      action: 'webhook.secret_revealed',
      resourceType: 'webhook',
      resourceId: formatUuid(webhook.uuid),
    })
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
    audit(app, tx, actor, {
      action: 'webhook.secret_rotated',
      resourceType: 'webhook',
      resourceId: formatUuid(uuid),
    })
    tx.afterCommit(() => app.webhookChanged.emit({ webhookId }))
    return clear
  })
}

/** Deletes secrets that no longer sign. */
export const dropPreviousSecrets = (tx: Tx, now: Millis): void =>
  void sql(tx.db).dropPrevious.run(now - PREVIOUS_SECRET_MS)
