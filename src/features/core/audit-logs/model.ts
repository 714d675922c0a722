/** @module Wire form of audit log entries. */
import { type Static, Type } from '@sinclair/typebox'
import { Nullable, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import type { StoredAuditEntry } from './read.ts'

export const AuditLogRecord = Type.Object({
  id: Uuid({ description: 'Id of the entry.' }),
  account_id: Nullable(Uuid(), { description: 'Account that the change concerns.' }),
  actor_type: Type.String({ description: 'user, api_key, system or operator.' }),
  actor_id: Type.String({
    description:
      'Id of the key or user, or `cli`, `system` or another actor of the service; `erased` once the personal fields of the entry are erased.',
  }),
  action: Type.String({ description: 'What happened: domain.created, api_key.deleted and so on.' }),
  resource_type: Nullable(Type.String(), { description: 'Type of the changed resource.' }),
  resource_id: Nullable(Type.String(), { description: 'Id of the changed resource.' }),
  ip_address: Nullable(Type.String(), { description: 'Client address of the request; null when there was none.' }),
  metadata: Nullable(Type.Unknown(), { description: 'Details of the change.' }),
  created_at: Timestamp({ description: 'When the change was made.' }),
})
export type AuditLogRecord = Static<typeof AuditLogRecord>

/** The metadata of an entry. Text that tampering made invalid JSON is returned unchanged. */
export function parseAuditMetadata(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export const toAuditLogWire = (entry: StoredAuditEntry, account_id: string): AuditLogRecord =>
  toWire(AuditLogRecord, entry, { account_id, metadata: parseAuditMetadata(entry.metadata) })
