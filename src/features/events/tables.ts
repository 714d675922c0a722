import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { time } from '#platform/db/columns.ts'

/**
 * What happened, in one gap-free order an account. No foreign keys: events outlive what they tell of. The public id is derived from account and
 * sequence (`eventUuid`), not stored.
 */
export const events = sqliteTable(
  'events',
  {
    accountId: integer('account_id').notNull(),
    seq: integer('seq').notNull(),
    /** Index into EVENT_TYPES. */
    type: integer('type').notNull(),
    at: time('at').notNull(),
    emailId: integer('email_id'),
    recipientId: integer('recipient_id'),
    /** JSON object of what the type carries; null when it carries nothing. */
    data: text('data'),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.seq] }),
    index('events_email').on(t.emailId).where(sql`email_id is not null`),
  ],
)

/** The last sequence number given out, an account. */
export const eventSequences = sqliteTable('event_sequences', {
  accountId: integer('account_id').primaryKey(),
  lastSeq: integer('last_seq').notNull(),
})

/** Totals by account, metric and hour: what lists and analytics report without scanning. `tassis check` recounts them. */
export const counters = sqliteTable(
  'counters',
  {
    accountId: integer('account_id').notNull(),
    metric: text('metric').notNull(),
    /** Hours since the epoch. */
    hour: integer('hour').notNull(),
    value: integer('value').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.metric, t.hour] })],
)

/** Single values of the installation: the newest time seen, the master key's fingerprint. */
export const meta = sqliteTable('meta', {
  key: text('key').primaryKey(),
  value: text('value').notNull(),
})
