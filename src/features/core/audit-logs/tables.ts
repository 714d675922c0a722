import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { bytes, describeTable, time, uuid } from '#platform/db/columns.ts'

export const auditLogs = sqliteTable(
  'audit_logs',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull(),
    /** Null for entries of the whole installation. Not a foreign key: the log outlives the account. */
    accountId: integer('account_id'),
    actorType: text('actor_type').notNull(),
    /** `erased` once the personal fields are erased. */
    actorId: text('actor_id').notNull(),
    action: text('action').notNull(),
    resourceType: text('resource_type'),
    resourceId: text('resource_id'),
    ipAddress: text('ip_address'),
    /** JSON object. */
    metadata: text('metadata'),
    createdAt: time('created_at').notNull(),
    /**
     * Salt of the digest, so that the personal fields cannot be guessed; null once they are erased. The digest stays.
     */
    salt: bytes('salt'),
    /** SHA-256 of the salt and the personal fields: actor, IP address, resource, metadata. */
    digest: bytes('digest').notNull(),
    /** SHA-256 of the previous hash, the other fields and the digest. */
    hash: bytes('hash').notNull(),
  },
  (t) => [
    index('audit_logs_account').on(t.accountId),
    index('audit_logs_action').on(t.accountId, t.action),
    index('audit_logs_resource').on(t.accountId, t.resourceId).where(sql`resource_id is not null`),
  ],
)
describeTable(auditLogs, { account: { except: 'entries stay without personal fields' }, group: 'audit' })

/** One row: where the chain begins and ends. */
export const auditChain = sqliteTable('audit_chain', {
  id: integer('id').primaryKey(),
  /** Id and hash of the newest purged entry; 0 and zeros if none was. */
  anchorId: integer('anchor_id').notNull(),
  anchorHash: bytes('anchor_hash').notNull(),
  /** Id and hash of the newest entry in the chain. */
  headId: integer('head_id').notNull(),
  headHash: bytes('head_hash').notNull(),
})
describeTable(auditChain, { account: { except: 'ends of the chain of the audit log: hashes' } })
