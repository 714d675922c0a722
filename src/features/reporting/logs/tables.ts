import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { accounts, ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable } from '#platform/db/columns.ts'

/** WITHOUT ROWID: rows are appended to those of their account, and need no other index. */
export const requestLogs = sqliteTable(
  'request_logs',
  {
    accountId: ofAccount(),
    /** Grows with the time, which it contains: see `toLogId`. */
    id: integer('id').notNull(),
    /** Code of a kind, see `kinds`. */
    kind: integer('kind').notNull(),
    method: text('method').notNull(),
    path: text('path'),
    status: integer('status').notNull(),
    errorCode: text('error_code'),
    errorMessage: text('error_message'),
    durationMs: integer('duration_ms').notNull(),
    /** Public id of the API key or user. */
    actorId: text('actor_id').notNull(),
    ipAddress: text('ip_address'),
    userAgent: text('user_agent'),
    requestId: text('request_id'),
    emailId: text('email_id'),
    /** Of a refused request: JSON of `summariseBody`. */
    body: text('body'),
    /** Bytes of the row, as `request_log_totals` counts them. */
    size: integer('size').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.id] })],
)
describeTable(requestLogs, { account: 'account_id', personTexts: ['path', 'error_message', 'body'] })

/** What the log of an account holds. */
export const requestLogTotals = sqliteTable('request_log_totals', {
  accountId: integer('account_id')
    .primaryKey()
    .references(() => accounts.id),
  rows: integer('rows').notNull(),
  bytes: integer('bytes').notNull(),
})
describeTable(requestLogTotals, { account: 'account_id' })
