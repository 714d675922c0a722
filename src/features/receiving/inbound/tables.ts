import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid, ZERO } from '#platform/db/columns.ts'

/** Queue between the listener and processing: messages that got their 250 and are not processed yet. */
export const inboundReceipts = sqliteTable('inbound_receipts', {
  id: integer('id').primaryKey({ autoIncrement: true }),
  /** Envelope sender; `''`: the null reverse-path. */
  mailFrom: text('mail_from').notNull(),
  /** JSON array of `Destination`, as decided at RCPT. */
  destinations: text('destinations').notNull(),
  sourceIp: text('source_ip').notNull(),
  helo: text('helo').notNull(),
  /** `TLSv1.3 TLS_AES_256_GCM_SHA384`; null: no TLS. */
  tls: text('tls'),
  rawRef: integer('raw_ref').notNull(),
  sizeBytes: integer('size_bytes').notNull(),
  /**
   * How often the process died with this message in progress, plus the attempt in progress. Only the first death can be
   * among other messages; after it the message is processed alone.
   */
  attempts: integer('attempts').notNull().default(ZERO),
  receivedAt: time('received_at').notNull(),
})
describeTable(inboundReceipts, {
  account: { except: 'messages on their way, for seconds' },
  rawMail: ['raw_ref'],
  group: 'inbound',
})

/** A message for an inbound domain: one row for each matching route, otherwise one for the domain. */
export const inboundEmails = sqliteTable(
  'inbound_emails',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    domainId: integer('domain_id').notNull(),
    /** Public id and name of the domain, whose row may be deleted before this one. */
    domainUuid: uuid('domain_uuid').notNull(),
    domain: text('domain').notNull(),
    /** Row of the inbound route; null: none matched. */
    routeId: integer('route_id'),
    /** Index into INBOUND_STATUSES. */
    status: integer('status').notNull(),
    mailFrom: text('mail_from').notNull(),
    /** JSON array of envelope recipients. */
    rcptTo: text('rcpt_to').notNull(),
    sourceIp: text('source_ip').notNull(),
    helo: text('helo').notNull(),
    tls: text('tls'),
    /** Address of From, and JSON array of the addresses in To; the next columns hold the headers. */
    fromAddress: text('from_address'),
    toAddresses: text('to_addresses').notNull(),
    fromHeader: text('from_header'),
    toHeader: text('to_header'),
    ccHeader: text('cc_header'),
    subject: text('subject').notNull(),
    messageId: text('message_id'),
    /** References into the content store: the headers (JSON of [name, value] pairs), then the text and HTML bodies. */
    headersRef: integer('headers_ref'),
    textRef: integer('text_ref'),
    htmlRef: integer('html_ref'),
    /** JSON: [{filename, content_type, size, content_id, disposition, ref}]. */
    attachments: text('attachments').notNull(),
    rawRef: integer('raw_ref').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    spfResult: text('spf_result'),
    /** JSON of all authentication results. */
    authentication: text('authentication'),
    /** JSON of `SpamVerdict`; null: not judged. */
    spam: text('spam'),
    /** JSON of a `ForwardState`: what became of it at the addresses of its route; null: nothing was to be forwarded. */
    forward: text('forward'),
    errorMessage: text('error_message'),
    /** Position of its `email.inbound` event in the account's feed. */
    eventSeq: integer('event_seq'),
    webhookDeliveredAt: time('webhook_delivered_at'),
    receivedAt: time('received_at').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('inbound_emails_account').on(t.accountId),
    // Filtered lists, each in id order.
    index('inbound_emails_status').on(t.accountId, t.status),
    index('inbound_emails_domain').on(t.accountId, t.domainUuid, t.status),
    index('inbound_emails_from').on(t.accountId, sql`lower(${t.fromAddress})`),
    index('inbound_emails_spam').on(t.accountId, sql`${t.spam} ->> '$.verdict'`).where(sql`spam is not null`),
    index('inbound_emails_refused').on(t.accountId).where(sql`forward ->> '$.refused' <> '{}'`),
    index('inbound_emails_route_status').on(t.routeId, t.status).where(sql`route_id is not null`),
    index('inbound_emails_route').on(t.routeId, t.eventSeq).where(sql`route_id is not null`),
    // Counts and sizes unrouted mail of a domain without reading rows.
    index('inbound_emails_unrouted').on(t.domainId, t.sizeBytes).where(sql`route_id is null`),
  ],
)
describeTable(inboundEmails, {
  account: 'account_id',
  content: ['headers_ref', 'text_ref', 'html_ref'],
  attachments: 'attachments',
  rawMail: ['raw_ref'],
  personTexts: ['forward'],
  group: 'inbound',
})
