import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { bytes, describeTable, flag, time } from '#platform/db/columns.ts'

/** What was last published for a domain, and the credentials for the next time, if its owner lets us keep them. */
export const dnsCredentials = sqliteTable('dns_credentials', {
  domainId: integer('domain_id').primaryKey(),
  provider: text('provider').notNull(),
  zone: text('zone').notNull(),
  /** JSON of the fields, sealed with context `dns:{uuid of the domain}`; null: not kept. */
  fields: bytes('fields'),
  /** Whether the operator gave them, who may name a server in his own network. */
  allowsPrivate: flag('allows_private').notNull(),
  keptAt: time('kept_at'),
  publishedAt: time('published_at'),
  /** Of the last attempt, in sentences; null: it succeeded. */
  error: text('error'),
  /** Of the records at the last attempt: others are published soon. */
  recordsHash: text('records_hash').notNull(),
  /** Of automatic attempts with the same records. */
  nextAttemptAt: time('next_attempt_at').notNull(),
})
describeTable(dnsCredentials, { account: ['domain_id', 'domains'] })
