import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'

/** A recipient without a definite reply from its server: expired, failed on our side, or uncertain. */
export const deadLetters = sqliteTable(
  'dead_letters',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    emailId: integer('email_id').notNull(),
    recipientId: integer('recipient_id').notNull(),
    /** `expired`, `failed` or `uncertain`. */
    reason: text('reason').notNull(),
    lastError: text('last_error'),
    failedAt: time('failed_at').notNull(),
  },
  (t) => [index('dead_letters_account').on(t.accountId), uniqueIndex('dead_letters_recipient').on(t.recipientId)],
)
describeTable(deadLetters, { account: 'account_id', group: 'logs' })
