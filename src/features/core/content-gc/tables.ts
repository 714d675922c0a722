import { integer, primaryKey, sqliteTable } from 'drizzle-orm/sqlite-core'
import { describeTable } from '#platform/db/columns.ts'

/**
 * References to the content stores that a row dropped. Identical content is stored once, so another row may hold the
 * same reference. The sweep checks this: it deletes the blob, or only the entry here.
 */
export const contentGarbage = sqliteTable(
  'content_garbage',
  {
    /** Index into STORES. */
    store: integer('store').notNull(),
    ref: integer('ref').notNull(),
    /**
     * How often the reference was dropped since this entry was created. An entry whose reference is dropped again
     * during a scan is checked again.
     */
    times: integer('times').notNull(),
  },
  (t) => [primaryKey({ columns: [t.store, t.ref] })],
)
describeTable(contentGarbage, { account: { except: 'references, swept before the deletion is complete' } })
