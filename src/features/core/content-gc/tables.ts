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
    /** How often it was let go of since it was noted: one that was during a look is looked up again. */
    times: integer('times').notNull(),
  },
  (t) => [primaryKey({ columns: [t.store, t.ref] })],
)
