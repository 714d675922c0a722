import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { time, uuid, ZERO } from '#platform/db/columns.ts'

/**
 * An address that an account no longer sends to. The unique index is the look-up of every acceptance and delivery; an address has at most one row
 * that covers all mail, and one for each stream or list that it unsubscribed from.
 */
export const suppressions = sqliteTable(
  'suppressions',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull(),
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    /** As `toSuppressionKey` gives it: lower case, domain in A-labels. */
    address: text('address').notNull(),
    /** Index into COVERAGES: all mail, or only mail with `transactional: false`. */
    covers: integer('covers').notNull(),
    /** Only mail of this stream; 0: of every stream. */
    streamId: integer('stream_id').notNull().default(ZERO),
    /** Only mail to this contact list; 0: to every list and to none. */
    listId: integer('list_id').notNull().default(ZERO),
    /** `hard_bounce`, `complaint`, `manual`, `unsubscribe`, or as its account gave it. */
    reason: text('reason').notNull(),
    /** Row id of the email that led to it. */
    sourceEmailId: integer('source_email_id'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('suppressions_address').on(t.accountId, t.address, t.covers, t.streamId, t.listId),
    // The list, newest first; of all and of one reason.
    index('suppressions_account').on(t.accountId),
    index('suppressions_reason').on(t.accountId, t.reason),
  ],
)
