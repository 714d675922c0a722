import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** Mail for the operator: to postmaster and abuse, and unrecognised mail to our other addresses. */
export const operatorMail = sqliteTable(
  'operator_mail',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    /** One of OPERATOR_MAIL_KINDS. */
    kind: text('kind').notNull(),
    mailFrom: text('mail_from').notNull(),
    /** JSON array. */
    rcptTo: text('rcpt_to').notNull(),
    fromHeader: text('from_header'),
    subject: text('subject').notNull(),
    reason: text('reason').notNull(),
    sourceIp: text('source_ip').notNull(),
    /** Network of the source: the largest that one customer may have, the last that `networksOf` returns. */
    network: text('network').notNull(),
    rawRef: integer('raw_ref').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    index('operator_mail_time').on(t.createdAt),
    index('operator_mail_kind').on(t.kind),
    index('operator_mail_network').on(t.network, t.createdAt),
  ],
)
describeTable(operatorMail, { account: { except: 'mail to the operator' }, rawMail: ['raw_ref'], group: 'inbound' })
