import { integer, primaryKey, sqliteTable } from 'drizzle-orm/sqlite-core'

/**
 * References into the content stores that a row no longer holds. Another row may hold the same, since identical parts are stored once: the sweep looks, and
 * removes the part or the entry here.
 */
export const contentGarbage = sqliteTable(
  'content_garbage',
  {
    /** Index into STORES. */
    store: integer('store').notNull(),
    ref: integer('ref').notNull(),
  },
  (t) => [primaryKey({ columns: [t.store, t.ref] })],
)
