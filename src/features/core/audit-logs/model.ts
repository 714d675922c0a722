/** @module Wire form of audit log entries. */
import { type Static, Type } from '@sinclair/typebox'
import { extra, Nullable, Text, TextOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { isJsonObject } from '#platform/json-object.ts'
import type { FieldChange } from './audit.ts'
import type { StoredAuditEntry } from './read.ts'

export const AuditLogRecord = Type.Object({
  id: Uuid({ description: 'Id of the entry.' }),
  account_id: Nullable(Uuid(), { description: 'Account that the change concerns.' }),
  actor_type: Type.String({ description: 'user, api_key, system or operator.' }),
  actor_id: Text(
    'Id of the key or user, or `cli`, `system` or another actor of the service; `erased` once the personal fields of the entry are erased.',
  ),
  action: Type.String({ description: 'What happened: domain.created, api_key.deleted and so on.' }),
  resource_type: Nullable(Type.String(), { description: 'Type of the changed resource.' }),
  resource_id: Nullable(Type.String(), { description: 'Id of the changed resource.' }),
  ip_address: Nullable(Type.String(), { description: 'Client address of the request; null when there was none.' }),
  metadata: Nullable(Type.Unknown(), { description: 'Details of the change.' }),
  created_at: Timestamp({ description: 'When the change was made.' }),
  actor_name: extra(
    Type.Optional(
      TextOrNull('Name or address of the user, name of the key, `Tassis` for the service; null: not known any more.'),
    ),
  ),
  resource_name: extra(
    Type.Optional(Nullable(Type.String(), { description: 'Name of the resource, or its last known one; null: none.' })),
  ),
  resource_exists: extra(
    Type.Optional(
      Nullable(Type.Boolean(), {
        description: 'Whether the resource still exists; null for kinds without an own row.',
      }),
    ),
  ),
  changes: extra(
    Type.Array(
      Type.Object({
        field: Type.String({ description: 'Name of the field.' }),
        from: Type.Unknown({ description: 'Value before.' }),
        to: Type.Unknown({ description: 'Value after.' }),
      }),
      { description: 'The fields that the change set to other values; empty for other changes.' },
    ),
  ),
})
export type AuditLogRecord = Static<typeof AuditLogRecord>

/** What an entry refers to, as it is now. */
export type AuditNames = Required<Pick<AuditLogRecord, 'actor_name' | 'resource_name' | 'resource_exists'>>

const LOGGED = Type.Omit(AuditLogRecord, ['actor_name', 'resource_name', 'resource_exists', 'changes'])

/** The metadata of an entry. Text that tampering made invalid JSON is returned unchanged. */
export function parseAuditMetadata(text: string | null): unknown {
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** @param names of its actor and resource; absent: not looked up */
export function toAuditLogWire(entry: StoredAuditEntry, account_id: string, names?: AuditNames): AuditLogRecord {
  const parsed = parseAuditMetadata(entry.metadata)
  const { changes = [], ...metadata } = isJsonObject(parsed) ? (parsed as { readonly changes?: FieldChange[] }) : {}
  return {
    ...toWire(LOGGED, entry, { account_id, metadata: isJsonObject(parsed) ? metadata : parsed }),
    ...names,
    changes: [...changes],
  }
}
