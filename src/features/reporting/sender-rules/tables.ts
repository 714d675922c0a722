import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, time } from '#platform/db/columns.ts'

/** What Google Postmaster Tools last said about a verified domain. */
export const postmasterData = sqliteTable(
  'postmaster_data',
  {
    domainId: integer('domain_id').primaryKey(),
    /** When Google last answered, with data or without; after a failure a time by which it is due again. */
    askedAt: time('asked_at').notNull(),
    /** JSON of a `GoogleReport`; null: Google shows the service account nothing of the domain. */
    data: text('data'),
  },
  (t) => [index('postmaster_data_asked').on(t.askedAt)],
)
describeTable(postmasterData, { account: ['domain_id', 'domains'], kept: { since: 'asked_at', days: 30 } })
