/** @module The audit log: every change by anyone has a row, in the transaction of the change. The only writer of `audit_logs`. */
import type { Actor, App } from '#features/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'

export interface AuditEntry {
  /** `resource.verb` in the past tense: `domain.created`. */
  readonly action: string
  readonly resourceType?: string
  /** Public id of what was changed. */
  readonly resourceId?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

const sql = prepared((db) => ({
  insert: db.prepare(
    `INSERT INTO audit_logs (uuid, account_id, actor_type, actor_id, action, resource_type, resource_id, ip_address, metadata, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
}))

/** Who acts when the service does something by itself for an account. */
export const systemActor = (account: { readonly accountId: number; readonly accountUuid: UuidBytes }): Actor => ({
  accountId: account.accountId,
  accountUuid: formatUuid(account.accountUuid),
  type: 'system',
  id: 'system',
  scopes: new Set(),
})

/** Writes what an actor did; call it in the transaction that does it. */
export function audit(app: App, tx: Tx, actor: Actor, entry: AuditEntry): void {
  sql(tx.db).insert.run(
    newUuid(),
    actor.accountId,
    actor.type,
    actor.id,
    entry.action,
    entry.resourceType ?? null,
    entry.resourceId ?? null,
    actor.ipAddress ?? null,
    entry.metadata ? JSON.stringify(entry.metadata) : null,
    app.eventTime(),
  )
}
