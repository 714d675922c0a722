import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, flag, time, uuid, ZERO } from '#platform/db/columns.ts'

export const accounts = sqliteTable(
  'accounts',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    name: text('name').notNull(),
    email: text('email').notNull(),
    plan: text('plan').notNull(),
    /** Overrides the plan's quota; null: the plan's quota applies. */
    monthlyQuota: integer('monthly_quota'),
    trackingDefault: flag('tracking_default').notNull().default(false),
    /** Whether opens and clicks are stored without IP address and user agent. */
    trackingPrivacy: flag('tracking_privacy').notNull().default(false),
    /** IANA name of the zone of its days. */
    timezone: text('timezone').notNull().default('UTC'),
    /** When sending was paused; null: not paused. */
    pausedAt: time('paused_at'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Row id of the parent account; null: not a sub-account. */
    parentId: integer('parent_id'),
    /** When the parent disabled the account; null: enabled. */
    disabledAt: time('disabled_at'),
    /** When the owner deleted the account. The row is emptied once all data of the account is deleted. */
    deletedAt: time('deleted_at'),
    /** What paused sending, one of PAUSE_SOURCES, and the reason in one sentence. */
    pauseSource: text('pause_source'),
    pauseReason: text('pause_reason'),
    /** When sending was last resumed; earlier bounces and complaints do not pause the account again. */
    resumedAt: time('resumed_at'),
    /**
     * Whether the plan is billed but no invoice above zero is settled yet: until then the quota is that of plan free.
     */
    quotaHeld: flag('quota_held').notNull().default(false),
    stripeCustomerId: text('stripe_customer_id'),
    stripeSubscriptionId: text('stripe_subscription_id'),
    subscriptionStatus: text('subscription_status'),
    billingEmail: text('billing_email'),
    trialEndsAt: time('trial_ends_at'),
    /** When an export of the account was last completed. */
    exportedAt: time('exported_at'),
    /** When an API key first read the event feed; null: never. */
    eventsReadAt: time('events_read_at'),
  },
  (t) => [
    index('accounts_parent').on(t.parentId).where(sql`parent_id is not null`),
    index('accounts_deleted').on(t.id).where(sql`deleted_at is not null`),
    uniqueIndex('accounts_customer').on(t.stripeCustomerId).where(sql`stripe_customer_id is not null`),
  ],
)
describeTable(accounts, { account: { except: 'an emptied row stays, so that its number is not reused' } })

/** The column of a row that belongs to an account. */
export const ofAccount = () =>
  integer('account_id')
    .notNull()
    .references(() => accounts.id)

/** Recipients accepted per calendar month (UTC); compared with the quota. */
export const usage = sqliteTable(
  'usage',
  {
    accountId: ofAccount(),
    /** Months since year 0: year * 12 + month (0..11). */
    month: integer('month').notNull(),
    recipients: integer('recipients').notNull().default(ZERO),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.month] })],
)
describeTable(usage, { account: 'account_id' })

/**
 * Recipients accepted per month by all sub-accounts of an account, deleted ones included; the parent's quota limits the
 * sum.
 */
export const usageOfSubAccounts = sqliteTable(
  'usage_of_sub_accounts',
  {
    /** The parent. */
    accountId: ofAccount(),
    month: integer('month').notNull(),
    recipients: integer('recipients').notNull().default(ZERO),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.month] })],
)
describeTable(usageOfSubAccounts, { account: 'account_id' })

/**
 * Stored amounts per account: contacts, and bytes of contacts, templates, newsletters and suppressions. Database
 * triggers keep it up to date; see migrations/0000_initial.sql.
 */
export const storedAmounts = sqliteTable('stored_amounts', {
  accountId: integer('account_id').primaryKey(),
  contacts: integer('contacts').notNull().default(ZERO),
  /** Bytes of text, plus an allowance for each contact and suppression. */
  bytes: integer('bytes').notNull().default(ZERO),
})
describeTable(storedAmounts, { account: 'account_id' })
