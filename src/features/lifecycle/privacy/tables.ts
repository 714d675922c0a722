import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { time } from '#platform/db/columns.ts'

/** The erasure of one address from an account, while it runs: the row, and the address with it, goes at its end. */
export const erasures = sqliteTable(
  'erasures',
  {
    id: integer('id').primaryKey(),
    accountId: integer('account_id').notNull(),
    operationId: integer('operation_id').notNull(),
    /** As `toSuppressionKey` gives it; its keyed hash while the files are scrubbed; the number of its operation while only mail of others is waited for. */
    address: text('address').notNull(),
    /** Index into STEPS, and the last row that the step has looked at. */
    step: integer('step').notNull(),
    cursor: integer('cursor').notNull(),
    /** Rows erased so far. */
    rows: integer('rows').notNull(),
    /** When the next step is due. */
    dueAt: time('due_at').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [uniqueIndex('erasures_address').on(t.accountId, t.address), index('erasures_due').on(t.dueAt)],
)

/** An email that others are still to get: what it says goes when that is over. */
export const erasureEmails = sqliteTable(
  'erasure_emails',
  {
    erasureId: integer('erasure_id').notNull(),
    emailId: integer('email_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.erasureId, t.emailId] })],
)

/** The deletion of an account while it runs. Its row goes last. */
export const accountDeletions = sqliteTable('account_deletions', {
  accountId: integer('account_id').primaryKey(),
  operationId: integer('operation_id'),
  /** Index into STEPS, and the last row that the step has looked at. */
  step: integer('step').notNull(),
  cursor: integer('cursor').notNull(),
  rows: integer('rows').notNull(),
  dueAt: time('due_at').notNull(),
  createdAt: time('created_at').notNull(),
})
