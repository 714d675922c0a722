import { integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { bytes, describeTable, time } from '#platform/db/columns.ts'

/**
 * The whole response to a request with an Idempotency-Key header that is not a single send, stored for at least 24 hours.
 */
export const batchReplies = sqliteTable(
  'batch_replies',
  {
    id: integer('id').primaryKey(),
    accountId: integer('account_id').notNull(),
    keyHash: bytes('key_hash').notNull(),
    bodyHash: bytes('body_hash').notNull(),
    /** JSON of the response body of a batch or broadcast; of other requests see `idempotency.ts`. */
    response: text('response').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [uniqueIndex('batch_replies_key').on(t.accountId, t.keyHash)],
)
describeTable(batchReplies, { account: 'account_id', kept: { since: 'created_at', days: 2 }, group: 'logs' })
