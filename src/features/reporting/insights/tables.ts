import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** A report on an account's stats, written by a model. */
export const insights = sqliteTable(
  'insights',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    generatedAt: time('generated_at').notNull(),
    periodStart: time('period_start').notNull(),
    periodEnd: time('period_end').notNull(),
    model: text('model').notNull(),
    inputTokens: integer('input_tokens').notNull(),
    outputTokens: integer('output_tokens').notNull(),
    summary: text('summary').notNull(),
    /** JSON: [{severity, area, observation, recommendation}]. */
    findings: text('findings').notNull(),
    rawMarkdown: text('raw_markdown').notNull(),
    acknowledgedAt: time('acknowledged_at'),
  },
  (t) => [index('insights_account').on(t.accountId, t.generatedAt)],
)
describeTable(insights, { account: 'account_id' })
