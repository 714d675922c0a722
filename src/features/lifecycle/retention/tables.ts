import { integer, primaryKey, sqliteTable } from 'drizzle-orm/sqlite-core'
import { describeTable } from '#platform/db/columns.ts'

/**
 * Rows that were old enough but still open when a scan passed them: checked again in each run until they are removed.
 */
export const retentionLeft = sqliteTable(
  'retention_left',
  {
    /** Index into SCANS. */
    kind: integer('kind').notNull(),
    rowId: integer('row_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.kind, t.rowId] })],
)
describeTable(retentionLeft, { account: { except: 'row ids' } })
