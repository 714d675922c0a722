/** @module Wire shape of audit log entries. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { Nullable, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { StoredAuditEntry } from './read.ts'

export const AuditLogRecord = Type.Object({
  id: Uuid({ description: 'Id of the entry.' }),
  account_id: Nullable(Uuid(), { description: 'Account that was changed.' }),
  actor_type: Type.String({ description: 'user, api_key, system or operator.' }),
  actor_id: Type.String({
    description: 'Id of the key or user; `cli`, `system` or what acted otherwise; `erased` where it was erased.',
  }),
  action: Type.String({ description: 'What was done: domain.created, api_key.deleted and so on.' }),
  resource_type: Nullable(Type.String(), { description: 'Kind of thing that was changed.' }),
  resource_id: Nullable(Type.String(), { description: 'Id of the thing that was changed.' }),
  ip_address: Nullable(Type.String(), { description: 'Address that the request came from; null: there was none.' }),
  metadata: Nullable(Type.Unknown(), { description: 'More about the change.' }),
  created_at: Timestamp({ description: 'When it was done.' }),
})
export type AuditLogRecord = Static<typeof AuditLogRecord>

/** What an entry says beside its fields. A text that somebody has changed into no JSON is given as it stands. */
export function parseAuditMetadata(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export const toAuditLogWire = (entry: StoredAuditEntry, accountUuid: string): AuditLogRecord => ({
  id: formatUuid(entry.uuid),
  account_id: accountUuid,
  actor_type: entry.actorType,
  actor_id: entry.actorId,
  action: entry.action,
  resource_type: entry.resourceType,
  resource_id: entry.resourceId,
  ip_address: entry.ipAddress,
  metadata: parseAuditMetadata(entry.metadata),
  created_at: isoTime(entry.createdAt),
})
