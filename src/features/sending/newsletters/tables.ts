import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** A message to a contact list, written before it is sent. */
export const newsletters = sqliteTable(
  'newsletters',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    listId: integer('list_id').notNull(),
    subject: text('subject').notNull(),
    from: text('from_address').notNull(),
    htmlBody: text('html_body'),
    textBody: text('text_body'),
    /** Row id. */
    templateId: integer('template_id'),
    /** JSON object. */
    templateData: text('template_data'),
    replyTo: text('reply_to'),
    /** Slug; null: that of all broadcasts. */
    stream: text('stream'),
    /** Index into NEWSLETTER_STATUSES. */
    status: integer('status').notNull(),
    /** Row id of the operation that sends it. */
    operationId: integer('operation_id'),
    scheduledAt: time('scheduled_at'),
    sentAt: time('sent_at'),
    totalRecipients: integer('total_recipients'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('newsletters_account').on(t.accountId),
    // For the list of drafts: other rows, with their long bodies, are not read.
    index('newsletters_status').on(t.accountId, t.status),
    index('newsletters_operation').on(t.operationId),
  ],
)
describeTable(newsletters, { account: 'account_id' })
