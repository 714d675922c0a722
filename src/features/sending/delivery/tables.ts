import { integer, primaryKey, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'
import { days } from '#platform/units.ts'

/**
 * Accounts whose mail was held because they may not send. The row is deleted once the account may send again and all
 * its held mail is released.
 */
export const heldAccounts = sqliteTable('held_accounts', {
  accountId: integer('account_id').primaryKey(),
})
describeTable(heldAccounts, { account: 'account_id' })

/**
 * What a restart must not lose of a pair of provider and outgoing address: its suspension and its lowered rate. A pair
 * that is as it should be has no row.
 */
export const providerPairs = sqliteTable(
  'provider_pairs',
  {
    /** The name of an entry of `providers.toml`, or the MX hosts of a site without an entry. */
    provider: text('provider').notNull(),
    /** The outgoing address; empty when the system chooses it. */
    source: text('source').notNull(),
    /** The fraction of the limits in use, from 0 to 1. */
    factor: real('factor').notNull(),
    /** Limit in messages a minute that replies showed; null: that of the policy. */
    learnedPerMinute: real('learned_per_minute'),
    /** The rule and the reply that began the suspension; null: not suspended. */
    rule: text('rule'),
    reason: text('reason'),
    suspendedAt: time('suspended_at'),
    suspendedUntil: time('suspended_until'),
    /** Length of the last period of the suspension. */
    durationMs: integer('duration_ms').notNull(),
    /** Suspensions and rejected probes in a row. */
    failures: integer('failures').notNull(),
  },
  (t) => [primaryKey({ columns: [t.provider, t.source] })],
)
describeTable(providerPairs, { account: { except: 'limits and suspensions by provider and outgoing address' } })

/**
 * Warm-ups of pairs of provider and outgoing address. A row without provider is about the address itself: budget 0 if
 * it was new when it was first configured, null if mail had left from it before. `provider_outcomes` counts the messages.
 */
export const warmUps = sqliteTable(
  'warm_ups',
  {
    /** The name of an entry of `providers.toml`; empty for the address itself. */
    provider: text('provider').notNull(),
    /** The outgoing address; empty when the system chooses it. */
    source: text('source').notNull(),
    /** The day that is counted, in days since 1970 (UTC); of an address, when it was configured: 0, before any domain. */
    day: integer('day').notNull(),
    /** Messages of the day; null: the warm-up has ended. */
    budget: integer('budget'),
    /** Whether the provider suspended the pair on this day. */
    isBlocked: integer('is_blocked').notNull(),
  },
  (t) => [primaryKey({ columns: [t.provider, t.source] })],
)
describeTable(warmUps, { account: { except: 'daily budgets of our outgoing addresses' } })

/**
 * Outcomes of attempts, and complaints, by UTC day and pair, with the replies: what a provider thinks of an address.
 * What goes to a server of this process is not counted.
 */
export const providerOutcomes = sqliteTable(
  'provider_outcomes',
  {
    /** Days since the epoch. */
    day: integer('day').notNull(),
    /** The configured outgoing address; empty when the system chooses it. */
    source: text('source').notNull(),
    /** The name of an entry of `providers.toml`; `other`: all sites without an entry. */
    provider: text('provider').notNull(),
    /** `accepted`, `deferred`, `refused`; `complaints` on the day of the report. */
    outcome: text('outcome').notNull(),
    /** Whether the reply blames our address or set-up. */
    isBlocked: integer('is_blocked').notNull(),
    /** Without persons and ids; the rule or category in its place; empty: accepted, or one of many other replies. */
    reply: text('reply').notNull(),
    count: integer('count').notNull(),
  },
  (t) => [primaryKey({ columns: [t.day, t.source, t.provider, t.outcome, t.isBlocked, t.reply] })],
)
describeTable(providerOutcomes, {
  account: { except: 'outcomes by provider and outgoing address' },
  // OUTCOME_DAYS
  kept: { since: 'day', days: 90, unitMs: days(1) },
})
