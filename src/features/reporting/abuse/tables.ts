import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, flag, time, ZERO } from '#platform/db/columns.ts'

/** A finding about an account for its operator: a pause, or a suspicion. */
export const abuseFindings = sqliteTable(
  'abuse_findings',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    /** One of PAUSE_SOURCES. */
    source: text('source').notNull(),
    reason: text('reason').notNull(),
    /** JSON object: stats, the link, the words. */
    detail: text('detail'),
    emailId: integer('email_id'),
    paused: flag('paused').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('abuse_findings_account').on(t.accountId, t.createdAt), index('abuse_findings_age').on(t.createdAt)],
)
describeTable(abuseFindings, {
  account: 'account_id',
  kept: { since: 'created_at', days: 400 },
  personTexts: ['detail'],
})

/**
 * Counters of the hour in which an account was resumed, up to the resume; subtracted from the account's later counts.
 */
export const resumedFigures = sqliteTable('resumed_figures', {
  accountId: integer('account_id').primaryKey(),
  /** Hours since the epoch. */
  hour: integer('hour').notNull(),
  delivered: integer('delivered').notNull(),
  bounced: integer('bounced').notNull(),
})
describeTable(resumedFigures, { account: 'account_id' })

/** How many emails of an account the content watch has read. */
export const contentWatch = sqliteTable('content_watch', {
  accountId: integer('account_id').primaryKey(),
  emails: integer('emails').notNull().default(ZERO),
})
describeTable(contentWatch, { account: 'account_id' })

/** A single row: the newest email that the content watch has read. */
export const contentCursor = sqliteTable('content_cursor', {
  id: integer('id').primaryKey(),
  emailId: integer('email_id').notNull(),
})
describeTable(contentCursor, { account: { except: 'a position in the emails' } })
