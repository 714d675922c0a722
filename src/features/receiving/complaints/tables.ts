import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { time } from '#platform/db/columns.ts'

/** What a provider's feedback loop told of an email: a complaint, at most one a recipient, or that it is `not-spam`, which is only kept. */
export const complaints = sqliteTable(
  'complaints',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    emailId: integer('email_id').notNull(),
    /** Null: of an email with several recipients, and the report did not say which. */
    recipientId: integer('recipient_id'),
    feedbackType: text('feedback_type').notNull(),
    /** Provider whose feedback loop SPF or DKIM proves to have sent the report; null: nothing proves who did. */
    feedbackLoop: text('feedback_loop'),
    /** Who reported: User-Agent or reporting MTA of the report. */
    reporter: text('reporter'),
    /** The report, in the store of raw messages. */
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
