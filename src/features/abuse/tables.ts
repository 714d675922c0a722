import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { time } from '#platform/db/columns.ts'

/** Something about an account that its operator should look at: what paused it, or came near to it. */
export const abuseFindings = sqliteTable(
  'abuse_findings',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    /** One of PAUSE_SOURCES. */
    source: text('source').notNull(),
    reason: text('reason').notNull(),
    /** JSON object: figures, the link, the words. */
    detail: text('detail'),
    emailId: integer('email_id'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('abuse_findings_account').on(t.accountId, t.createdAt), index('abuse_findings_age').on(t.createdAt)],
)

/** An email whose content is yet to be looked at. Its row goes with the look. */
export const contentChecks = sqliteTable('content_checks', {
  emailId: integer('email_id').primaryKey(),
  accountId: integer('account_id').notNull(),
  createdAt: time('created_at').notNull(),
})
