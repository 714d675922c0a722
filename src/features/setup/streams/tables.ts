import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

export const streams = sqliteTable(
  'streams',
  {
    id: integer('id').primaryKey(),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    slug: text('slug').notNull(),
    name: text('name').notNull(),
    /** Seconds after which mail of the stream expires, unless a send has its own; null: the default of the service. */
    expiresIn: integer('expires_in'),
    /** Code of the priority of its mail. */
    priority: integer('priority').notNull().default(0),
    /** The pool of outgoing addresses that an operator gave its mail; null: that of the account. */
    pool: text('pool'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    deletedAt: time('deleted_at'),
  },
  (t) => [
    uniqueIndex('streams_slug').on(t.accountId, t.slug).where(sql`deleted_at is null`),
    // Includes deleted streams.
    index('streams_account').on(t.accountId),
  ],
)
describeTable(streams, { account: 'account_id' })
