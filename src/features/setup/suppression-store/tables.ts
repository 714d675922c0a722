import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid, ZERO } from '#platform/db/columns.ts'

/**
 * An address to which an account no longer sends. The unique index serves the look-up of every acceptance and delivery.
 * An address has at most one row that covers all mail, and one per stream or list from which it unsubscribed.
 */
export const suppressions = sqliteTable(
  'suppressions',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull(),
    accountId: ofAccount(),
    /** As `toSuppressionKey` returns it: lower case, domain in A-labels. */
    address: text('address').notNull(),
    /** Index into SUPPRESSION_SCOPES: all mail, or only mail with `transactional: false`. */
    covers: integer('covers').notNull(),
    /** Only mail of this stream; 0: every stream. */
    streamId: integer('stream_id').notNull().default(ZERO),
    /** Only mail to this contact list; 0: any list or none. */
    listId: integer('list_id').notNull().default(ZERO),
    /** `hard_bounce`, `complaint`, `manual`, `unsubscribe`, or a reason that the account provided. */
    reason: text('reason').notNull(),
    /** Row id of the email that caused it. */
    sourceEmailId: integer('source_email_id'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('suppressions_address').on(t.accountId, t.address, t.covers, t.streamId, t.listId),
    // Used for pages of the list, newest first, unfiltered or by reason.
    index('suppressions_account').on(t.accountId),
    index('suppressions_reason').on(t.accountId, t.reason),
  ],
)
describeTable(suppressions, { account: 'account_id', group: 'contacts' })
