import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

export const operations = sqliteTable(
  'operations',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    operationType: text('operation_type').notNull(),
    status: text('status').notNull(),
    totalItems: integer('total_items').notNull(),
    completedItems: integer('completed_items').notNull(),
    failedItems: integer('failed_items').notNull(),
    errorSummary: text('error_summary'),
    /** JSON object. */
    metadata: text('metadata'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    completedAt: time('completed_at'),
    expiresAt: time('expires_at').notNull(),
  },
  (t) => [index('operations_account').on(t.accountId)],
)
describeTable(operations, {
  account: { except: 'delete-account.ts removes them last, with its own' },
  personTexts: ['error_summary', 'metadata'],
  group: 'logs',
})
