import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { bytes, time, uuid } from '#platform/db/columns.ts'

export const auditLogs = sqliteTable(
  'audit_logs',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull(),
    /** Null for what concerns no account. Not a foreign key: the log outlives the account. */
    accountId: integer('account_id'),
    actorType: text('actor_type').notNull(),
    actorId: text('actor_id').notNull(),
    action: text('action').notNull(),
    resourceType: text('resource_type'),
    resourceId: text('resource_id'),
    ipAddress: text('ip_address'),
    /** JSON object. */
    metadata: text('metadata'),
    createdAt: time('created_at').notNull(),
    /** What keeps the digest of the personal fields from being guessed; null: they were erased, and the digest stays. */
    salt: bytes('salt'),
    /** SHA-256 of the salt and the personal fields: actor, IP address, resource, metadata. Null: written before there was a chain. */
    digest: bytes('digest'),
    /** SHA-256 of the entry before, the other fields and the digest. */
    hash: bytes('hash'),
  },
  (t) => [index('audit_logs_account').on(t.accountId)],
)
