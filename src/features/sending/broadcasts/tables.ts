import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { flag, time, uuid } from '#platform/db/columns.ts'

/** One message to a contact list. What all its emails share stands here once: sources, data, sender. */
export const broadcasts = sqliteTable(
  'broadcasts',
  {
    /** Never given twice: emails name it. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    /** Null while its recipients are being fixed: nobody knows of it yet. */
    operationId: integer('operation_id').unique(),
    newsletterId: integer('newsletter_id'),
    listId: integer('list_id').notNull(),
    streamId: integer('stream_id').notNull(),
    /** Row id of the template that the sources are from, and its version then. */
    templateId: integer('template_id'),
    templateVersion: integer('template_version'),
    from: text('from_address').notNull(),
    /** Source of the subject. */
    subject: text('subject').notNull(),
    /** References into the content store: sources of the bodies. */
    htmlRef: integer('html_ref'),
    textRef: integer('text_ref'),
    /** Octets of the sources of the bodies. */
    sizeBytes: integer('size_bytes').notNull(),
    /** JSON object: what every recipient's render gets. */
    templateData: text('template_data').notNull(),
    /** JSON of what few have: reply_to, headers, tags. */
    extra: text('extra'),
    /** Index into BROADCAST_STATES. */
    state: integer('state').notNull(),
    /** Whether it is only captured: decided when it begins, as the quota is. */
    sandbox: flag('sandbox').notNull(),
    /** Recipients that were fixed. */
    total: integer('total').notNull(),
    /** Of those: handed to delivery, and left out because they unsubscribed, were suppressed or removed since, or were taken back. */
    handedOver: integer('handed_over').notNull(),
    leftOut: integer('left_out').notNull(),
    /** Month whose quota its recipients were counted in; null: they counted in none. */
    quotaMonth: integer('quota_month'),
    /** When it begins. */
    dueAt: time('due_at').notNull(),
    /** Why it does not go on, in one sentence. */
    error: text('error'),
    /** JSON: who began it, for the audit log. */
    actor: text('actor').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('broadcasts_account').on(t.accountId),
    index('broadcasts_open').on(t.state, t.dueAt).where(sql`state <= 5`),
  ],
)

/** A contact that a broadcast is yet to be handed to delivery for, as it was when the recipients were fixed. The row goes with that. */
export const broadcastRecipients = sqliteTable(
  'broadcast_recipients',
  {
    broadcastId: integer('broadcast_id').notNull(),
    contactId: integer('contact_id').notNull(),
    contactUuid: uuid('contact_uuid').notNull(),
    email: text('email').notNull(),
    /** JSON object; null: empty. */
    metadata: text('metadata'),
  },
  (t) => [primaryKey({ columns: [t.broadcastId, t.contactId] })],
)
