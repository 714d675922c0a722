import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'

/** A running erasure of one address from an account: the row, with the address, is deleted at its end. */
export const erasures = sqliteTable(
  'erasures',
  {
    id: integer('id').primaryKey(),
    accountId: integer('account_id').notNull(),
    operationId: integer('operation_id').notNull(),
    /**
     * The result of `toSuppressionKey`; its keyed hash during the scrub; the operation's number while only other
     * recipients are open.
     */
    address: text('address').notNull(),
    /** Index into STEPS, and the last row that the step has read. */
    step: integer('step').notNull(),
    cursor: integer('cursor').notNull(),
    rows: integer('rows').notNull(),
    dueAt: time('due_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [uniqueIndex('erasures_address').on(t.accountId, t.address), index('erasures_due').on(t.dueAt)],
)
describeTable(erasures, { account: 'account_id' })

/** An email with other open recipients: its content is deleted when these have ended. */
export const erasureEmails = sqliteTable(
  'erasure_emails',
  {
    erasureId: integer('erasure_id').notNull(),
    emailId: integer('email_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.erasureId, t.emailId] })],
)
describeTable(erasureEmails, { account: ['erasure_id', 'erasures'] })

/** A running deletion of an account. Its row is deleted last. */
export const accountDeletions = sqliteTable('account_deletions', {
  accountId: integer('account_id').primaryKey(),
  operationId: integer('operation_id'),
  /** Index into STEPS, and the last row that the step has read. */
  step: integer('step').notNull(),
  cursor: integer('cursor').notNull(),
  rows: integer('rows').notNull(),
  dueAt: time('due_at').notNull(),
  createdAt: time('created_at').notNull(),
})
describeTable(accountDeletions, { account: { except: 'delete-account.ts removes them last' } })
