/**
 * @module The audit log: every change by anyone has a row, in the transaction of the change, chained to the row before. This folder is the only writer
 * of `audit_logs`; rows are never changed, but for the erasure of their personal fields (`erase.ts`) and removal for their age (`trim.ts`).
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { computeDigest, computeHash, createSalt, findNextInChain, setChainHead } from './chain.ts'

export interface AuditEntry {
  /** `resource.verb` in the past tense: `domain.created`. */
  readonly action: string
  readonly resourceType?: string
  /** Public id of what was changed. */
  readonly resourceId?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    `INSERT INTO audit_logs (id, uuid, account_id, actor_type, actor_id, action, resource_type, resource_id, ip_address, metadata, created_at,
     salt, digest, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ),
}))

/** Who acts when the service does something by itself for an account. */
export const createSystemActor = (account: { readonly accountId: number; readonly accountUuid: UuidBytes }): Actor => ({
  accountId: account.accountId,
  accountUuid: formatUuid(account.accountUuid),
  type: 'system',
  id: 'system',
  scopes: new Set(),
})

/** Who did something; without an account it concerns the installation alone. */
export type AuditActor = Actor | (Pick<Actor, 'type' | 'id' | 'ipAddress'> & { readonly accountId: null })

/** Writes what an actor did; call it in the transaction that does it. */
export function audit(app: App, tx: Tx, actor: AuditActor, entry: AuditEntry): void {
  const { id, before, notBefore } = findNextInChain(tx.db)
  const personal = {
    actorId: toStorable(actor.id),
    ipAddress: toStorableOrNull(actor.ipAddress),
    resourceId: toStorableOrNull(entry.resourceId),
    metadata: entry.metadata ? JSON.stringify(entry.metadata) : null,
  }
  const lasting = {
    id,
    uuid: newUuid(),
    accountId: actor.accountId,
    actorType: actor.type,
    action: entry.action,
    resourceType: entry.resourceType ?? null,
    createdAt: Math.max(app.eventTime(), notBefore),
  }
  const salt = createSalt()
  const digest = computeDigest(salt, personal)
  const hash = computeHash(before, lasting, digest)
  sql(tx.db).insert.run(
    id,
    lasting.uuid,
    lasting.accountId,
    lasting.actorType,
    personal.actorId,
    lasting.action,
    lasting.resourceType,
    personal.resourceId,
    personal.ipAddress,
    personal.metadata,
    lasting.createdAt,
    salt,
    digest,
    hash,
  )
  setChainHead(tx.db, id, hash)
}

/** As the database gives it back: no half of a surrogate pair, which would become another character on its way. */
const toStorable = (text: string): string => text.toWellFormed()
const toStorableOrNull = (text: string | undefined): string | null => (text === undefined ? null : toStorable(text))
