import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { flag, time, uuid, ZERO } from '#platform/db/columns.ts'

export const accounts = sqliteTable('accounts', {
  id: integer('id').primaryKey(),
  uuid: uuid('uuid').notNull().unique(),
  name: text('name').notNull(),
  email: text('email').notNull(),
  plan: text('plan').notNull(),
  /** Overrides the plan's quota; null: the plan's. */
  monthlyQuota: integer('monthly_quota'),
  trackingDefault: flag('tracking_default').notNull().default(false),
  /** Whether opens and clicks are kept without IP address and user agent. */
  trackingPrivacy: flag('tracking_privacy').notNull().default(false),
  /** When sending was paused; null: it is not. */
  pausedAt: time('paused_at'),
  createdAt: time('created_at').notNull(),
  updatedAt: time('updated_at').notNull(),
})

/** Recipients accepted in a calendar month (UTC); what the quota is measured against. */
export const usage = sqliteTable(
  'usage',
  {
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    /** Months since year 0: year * 12 + month (0..11). */
    month: integer('month').notNull(),
    recipients: integer('recipients').notNull().default(ZERO),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.month] })],
)
