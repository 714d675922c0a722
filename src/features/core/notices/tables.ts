import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, time, ZERO } from '#platform/db/columns.ts'

/** A mail that is owed. The row is deleted in the transaction that accepts the mail. */
export const notices = sqliteTable(
  'notices',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    /** Name of the kind, as its feature defines it. */
    kind: text('kind').notNull(),
    /** Row id of what it is about: a domain, a webhook, a contact. */
    topic: integer('topic').notNull(),
    /** JSON of the kind; null: nothing. */
    data: text('data'),
    dueAt: time('due_at').notNull(),
    /** Failed attempts. */
    attempts: integer('attempts').notNull().default(ZERO),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('notices_topic').on(t.topic, t.kind),
    index('notices_due').on(t.dueAt),
    // Due rows of an account by kind: each kind waits separately.
    index('notices_account').on(t.accountId, t.kind, t.dueAt),
  ],
)
describeTable(notices, { account: 'account_id', group: 'contacts' })
