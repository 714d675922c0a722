import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
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

/** Sessions to the mail hosts of domains that want TLS reports (RFC 8460), by day; limited in number. */
export const tlsSessionCounts = sqliteTable(
  'tls_session_counts',
  {
    /** Days since the epoch, UTC. */
    day: integer('day').notNull(),
    domain: text('domain').notNull(),
    /** JSON: the policy as the report states it. */
    policy: text('policy').notNull(),
    /** JSON: details of a failure as the report states them; empty for successful sessions. */
    failure: text('failure').notNull(),
    sessions: integer('sessions').notNull(),
  },
  (table) => [primaryKey({ columns: [table.day, table.domain, table.policy, table.failure] })],
)
describeTable(tlsSessionCounts, { account: { except: 'numbers of sessions to mail hosts, for days' } })
