import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'

/**
 * A feedback report about an email: a complaint, at most one per recipient, or a `not-spam` report, which is only
 * stored.
 */
export const complaints = sqliteTable(
  'complaints',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    emailId: integer('email_id').notNull(),
    /** Null: the email has several recipients and the report did not identify one. */
    recipientId: integer('recipient_id'),
    feedbackType: text('feedback_type').notNull(),
    /** Provider whose feedback loop provably sent the report (SPF or DKIM); null: no proof. */
    feedbackLoop: text('feedback_loop'),
    reporter: text('reporter'),
    rawRef: integer('raw_ref'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('complaints_recipient')
      .on(t.recipientId)
      .where(sql`recipient_id is not null and feedback_type <> 'not-spam'`),
    index('complaints_email').on(t.emailId),
    index('complaints_account').on(t.accountId, t.createdAt),
  ],
)
describeTable(complaints, { account: 'account_id', rawMail: ['raw_ref'], group: 'logs' })
