import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, flag, time, uuid } from '#platform/db/columns.ts'

/** One message to a contact list. Stores once what all its emails share: sources, data, sender. */
export const broadcasts = sqliteTable(
  'broadcasts',
  {
    /** Never reused, because emails refer to it. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: ofAccount(),
    /** Null while the recipient snapshot is being taken; until then the broadcast is invisible. */
    operationId: integer('operation_id').unique(),
    newsletterId: integer('newsletter_id'),
    listId: integer('list_id').notNull(),
    streamId: integer('stream_id').notNull(),
    /** Row id and version of the template that supplied the sources. */
    templateId: integer('template_id'),
    templateVersion: integer('template_version'),
    from: text('from_address').notNull(),
    /** Source of the subject. */
    subject: text('subject').notNull(),
    /** References into the content store: the sources of the bodies. */
    htmlRef: integer('html_ref'),
    textRef: integer('text_ref'),
    /** Octets of the body sources. */
    sizeBytes: integer('size_bytes').notNull(),
    /** JSON object: data for the rendering of every recipient. */
    templateData: text('template_data').notNull(),
    /** JSON of rarely set fields: reply_to, headers, tags. */
    extra: text('extra'),
    /** Index into BROADCAST_STATES. */
    state: integer('state').notNull(),
    /** Whether its emails are only captured; decided when the broadcast is accepted, like the quota. */
    sandbox: flag('sandbox').notNull(),
    /** Recipients in the snapshot. */
    total: integer('total').notNull(),
    /**
     * Recipients of the snapshot that were enqueued, and recipients that were skipped because they unsubscribed, were
     * suppressed, removed or withdrawn.
     */
    handedOver: integer('handed_over').notNull(),
    leftOut: integer('left_out').notNull(),
    /** Month whose quota counts its recipients; null when none does. */
    quotaMonth: integer('quota_month'),
    /** When it starts. */
    dueAt: time('due_at').notNull(),
    /** Why it is delayed or ended, in one sentence. */
    error: text('error'),
    /** JSON of the actor who started it, for the audit log. */
    actor: text('actor').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [
    index('broadcasts_account').on(t.accountId),
    index('broadcasts_open').on(t.state, t.dueAt).where(sql`state <= 5`),
  ],
)
describeTable(broadcasts, { account: 'account_id', content: ['html_ref', 'text_ref'], group: 'logs' })

/** A contact in the snapshot that is not enqueued yet. Enqueuing deletes the row. */
export const broadcastRecipients = sqliteTable(
  'broadcast_recipients',
  {
    broadcastId: integer('broadcast_id').notNull(),
    contactId: integer('contact_id').notNull(),
    contactUuid: uuid('contact_uuid').notNull(),
    email: text('email').notNull(),
    /** JSON object; null when empty. */
    metadata: text('metadata'),
  },
  (t) => [primaryKey({ columns: [t.broadcastId, t.contactId] })],
)
describeTable(broadcastRecipients, { account: ['broadcast_id', 'broadcasts'], group: 'logs' })
