import { integer, primaryKey, sqliteTable } from 'drizzle-orm/sqlite-core'

/** Rows that were too old already, but open, when retention came to them: looked at again until they are over. */
export const retentionLeft = sqliteTable(
  'retention_left',
  {
    /** Index into WALKS. */
    kind: integer('kind').notNull(),
    rowId: integer('row_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.kind, t.rowId] })],
)
