import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** A received DMARC aggregate (RFC 9990) or TLS-RPT (RFC 8460) report. */
export const receivedReports = sqliteTable(
  'received_reports',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    /** `dmarc` or `tls`. */
    kind: text('kind').notNull(),
    /** Account with the domain; null: none. */
    accountId: integer('account_id'),
    /** Domain that the report is about, in A-labels. */
    domain: text('domain').notNull(),
    /** Our domain at or above it: an account's, or the name of this host. */
    coveredBy: text('covered_by').notNull(),
    organisation: text('organisation').notNull(),
    reportId: text('report_id').notNull(),
    beginAt: time('begin_at'),
    endAt: time('end_at'),
    /** Unpacked XML or JSON, in the content store. */
    contentRef: integer('content_ref').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('received_reports_id').on(t.kind, t.organisation, t.reportId, t.domain),
    index('received_reports_domain').on(t.domain, t.createdAt),
    index('received_reports_account').on(t.accountId),
    index('received_reports_covered').on(t.coveredBy, t.createdAt),
  ],
)
describeTable(receivedReports, { account: 'account_id', content: ['content_ref'], group: 'inbound' })
