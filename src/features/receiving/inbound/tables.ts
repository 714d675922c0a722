import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { time, uuid, ZERO } from '#platform/db/columns.ts'

/**
 * A message that got its 250 and is not processed yet: the queue between the listener and everything else. Its row goes
 * with its processing.
 */
export const inboundReceipts = sqliteTable('inbound_receipts', {
  id: integer('id').primaryKey({ autoIncrement: true }),
  /** Address of MAIL FROM; `''`: the null reverse-path. */
  mailFrom: text('mail_from').notNull(),
  /** JSON array of `Destination`: who it is for, as decided at RCPT. */
  destinations: text('destinations').notNull(),
  sourceIp: text('source_ip').notNull(),
  /** What the client said in HELO or EHLO. */
  helo: text('helo').notNull(),
  /** `TLSv1.3 TLS_AES_256_GCM_SHA384`; null: in clear. */
  tls: text('tls'),
  /** The message as it came, in the store of raw messages. */
  rawRef: integer('raw_ref').notNull(),
  sizeBytes: integer('size_bytes').notNull(),
  /** What was in hand when the process died: 1 with others, and one more for each time alone (`receipts.ts`). */
  attempts: integer('attempts').notNull().default(ZERO),
  receivedAt: time('received_at').notNull(),
})

/** A message for an inbound domain: one row for each route that it fell to, else one for the domain. */
export const inboundEmails = sqliteTable(
  'inbound_emails',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    domainId: integer('domain_id').notNull(),
    /** Public id and name of the domain, whose row may go before this one. */
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
    /** Addresses of From and To, JSON arrays; headers as they read are in `headers`. */
    fromAddress: text('from_address'),
    toAddresses: text('to_addresses').notNull(),
    fromHeader: text('from_header'),
    toHeader: text('to_header'),
    ccHeader: text('cc_header'),
    subject: text('subject').notNull(),
    messageId: text('message_id'),
    /** References into the content store: JSON of [name, value] pairs, bodies. */
    headersRef: integer('headers_ref'),
    textRef: integer('text_ref'),
    htmlRef: integer('html_ref'),
    /** JSON: [{filename, content_type, size, content_id, disposition, ref}]. */
    attachments: text('attachments').notNull(),
    /** In the store of raw messages. */
    rawRef: integer('raw_ref').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    spfResult: text('spf_result'),
    /** JSON of all authentication results. */
    authentication: text('authentication'),
    errorMessage: text('error_message'),
    /** Position of its `email.inbound` in the account's feed. */
    eventSeq: integer('event_seq'),
    webhookDeliveredAt: time('webhook_delivered_at'),
    /** When the SMTP session brought it. */
    receivedAt: time('received_at').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('inbound_emails_account').on(t.accountId),
    // Lists under a filter, each in order of the id.
    index('inbound_emails_status').on(t.accountId, t.status),
    index('inbound_emails_domain').on(t.accountId, t.domainUuid, t.status),
    index('inbound_emails_route_status').on(t.routeId, t.status).where(sql`route_id is not null`),
    index('inbound_emails_route').on(t.routeId, t.eventSeq).where(sql`route_id is not null`),
    // How many there are of a domain without a route, and how large they are, without a look at the rows.
    index('inbound_emails_unrouted').on(t.domainId, t.sizeBytes).where(sql`route_id is null`),
  ],
)
