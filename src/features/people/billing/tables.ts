import { index, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'

/** Events of the payment provider that were applied, because it may send the same event twice. */
export const billingEvents = sqliteTable(
  'billing_events',
  {
    /** As the provider assigned it. */
    id: text('id').primaryKey(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('billing_events_age').on(t.createdAt)],
)
// Stripe repeats an event for three days automatically, and for thirty on request.
describeTable(billingEvents, {
  account: { except: 'ids of the payment provider' },
  kept: { since: 'created_at', days: 60 },
})
