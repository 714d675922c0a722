import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { describeTable, flag, time, uuid } from '#platform/db/columns.ts'

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
    /** Domain that DMARC, SPF or DKIM authenticated as its sender; null: none, or an operator imported it. */
    reporter: text('reporter'),
    reportId: text('report_id').notNull(),
    beginAt: time('begin_at'),
    endAt: time('end_at'),
    /** Unpacked XML or JSON, in the content store. */
    contentRef: integer('content_ref').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    createdAt: time('created_at').notNull(),
    /** Messages or sessions that were counted; null: none. */
    counted: integer('counted'),
    /** Why they were not, a sentence. */
    uncounted: text('uncounted'),
    /** An operator imported it; the limit of reports within a day is for those that remote clients send. */
    isImported: flag('is_imported').notNull(),
  },
  (t) => [
    uniqueIndex('received_reports_id').on(t.kind, t.organisation, t.reportId, t.domain),
    index('received_reports_domain').on(t.domain, t.createdAt),
    index('received_reports_account').on(t.accountId),
    index('received_reports_covered').on(t.coveredBy, t.createdAt),
  ],
)
describeTable(receivedReports, { account: 'account_id', content: ['content_ref'], group: 'inbound' })

/** What counted reports say: messages or TLS sessions of a report with the same meaning. Goes with its report. */
export const reportRows = sqliteTable(
  'report_rows',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    reportId: integer('report_id').notNull(),
    /** The account and its verified domain at or above the From domain: not always those of the report. */
    accountId: integer('account_id').notNull(),
    domain: text('domain').notNull(),
    /** Days since the epoch. */
    day: integer('day').notNull(),
    /** As above; of an imported report the name that it states. */
    reporter: text('reporter').notNull(),
    /** Whether advice may rest on it: the report is of a large receiver, or an operator imported it. */
    isProven: flag('is_proven').notNull(),
    /** One of DMARC_CLASSES, `tls_ok` or `tls_failed`. */
    class: text('class').notNull(),
    /**
     * A result type of RFC 8460 §4.3, or what is remarkable about mail, a cause of texts.json; `''`: nothing. From a
     * foreign address: `forwarded`, our signature survived; `modified`, it did not; `forwarder`, none, with our return path;
     * `list`, the receiver saw a mailing list.
     */
    cause: text('cause').notNull(),
    /** IP address that sent; of TLS sessions the host that received. `''`: several, or unknown. */
    source: text('source').notNull(),
    /** The service or domain that the mail authenticates. */
    sender: text('sender').notNull(),
    disposition: text('disposition').notNull(),
    isFromUs: flag('is_from_us').notNull(),
    /** Whether DKIM and SPF passed, aligned. */
    dkim: flag('dkim').notNull(),
    spf: flag('spf').notNull(),
    count: integer('count').notNull(),
  },
  (t) => [index('report_rows_domain').on(t.accountId, t.domain, t.day)],
)
describeTable(reportRows, { account: 'account_id', group: 'inbound' })

/** What turned bad and was mailed to the owners, once until it has been good for a while. */
export const reportAlerts = sqliteTable(
  'report_alerts',
  {
    id: integer('id').primaryKey(),
    accountId: integer('account_id').notNull(),
    domainId: integer('domain_id').notNull(),
    /** Key of the finding. */
    cause: text('cause').notNull(),
    text: text('text').notNull(),
    lastSeenAt: time('last_seen_at').notNull(),
  },
  (t) => [
    uniqueIndex('report_alerts_cause').on(t.accountId, t.domainId, t.cause),
    index('report_alerts_seen').on(t.lastSeenAt),
  ],
)
describeTable(reportAlerts, { account: 'account_id', kept: { since: 'last_seen_at', days: 7 }, group: 'inbound' })
