import { index, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'

/** MTA-STS policies of recipient domains (RFC 8461); limited in number. */
export const mtaStsPolicies = sqliteTable(
  'mta_sts_policies',
  {
    domain: text('domain').primaryKey(),
    /** The id in the DNS record when the policy was fetched. */
    policyId: text('policy_id').notNull(),
    /** JSON: mode, mx and maxAgeSeconds. */
    policy: text('policy').notNull(),
    fetchedAt: time('fetched_at').notNull(),
    expiresAt: time('expires_at').notNull(),
  },
  (table) => [index('mta_sts_policies_expiry').on(table.expiresAt)],
)
describeTable(mtaStsPolicies, { account: { except: 'policies that recipient domains publish' } })
