import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { flag, time, uuid } from '#platform/db/columns.ts'

/** A contact list. A deleted one keeps its row, because suppressions and emails name it; its contacts go slice by slice. */
export const contactLists = sqliteTable(
  'contact_lists',
  {
    /** Never given twice: unsubscribe tokens name it for good. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: integer('account_id')
      .notNull()
      .references(() => accounts.id),
    name: text('name').notNull(),
    description: text('description'),
    doubleOptIn: flag('double_opt_in').notNull(),
    welcomeEnabled: flag('welcome_enabled').notNull(),
    welcomeDelaySeconds: integer('welcome_delay_seconds').notNull(),
    welcomeFrom: text('welcome_from'),
    welcomeSubject: text('welcome_subject'),
    welcomeHtml: text('welcome_html'),
    welcomeText: text('welcome_text'),
    /** Row id; wins over the bodies. */
    welcomeTemplateId: integer('welcome_template_id'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    /** Null: it exists. */
    deletedAt: time('deleted_at'),
    /** When the last contact of a deleted one was removed. */
    emptiedAt: time('emptied_at'),
  },
  (t) => [
    uniqueIndex('contact_lists_name').on(t.accountId, t.name).where(sql`deleted_at is null`),
    index('contact_lists_account').on(t.accountId),
    index('contact_lists_deleted').on(t.id).where(sql`deleted_at is not null and emptied_at is null`),
  ],
)

/** An address on a list. Its id grows with time: a broadcast takes those up to the newest at its beginning. */
export const contacts = sqliteTable(
  'contacts',
  {
    /** Never given twice: confirmation links name it. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull(),
    accountId: integer('account_id').notNull(),
    listId: integer('list_id').notNull(),
    /** As `toSuppressionKey` gives it: lower case, domain in A-labels. */
    addressKey: text('address_key').notNull(),
    /** As it was given, where that differs from the key. */
    email: text('email'),
    /** JSON object; null: empty. */
    metadata: text('metadata'),
    /** Index into CONTACT_STATUSES. */
    status: integer('status').notNull(),
    /** When it was put on the list, or came back to it. */
    subscribedAt: time('subscribed_at').notNull(),
    unsubscribedAt: time('unsubscribed_at'),
    welcomeSentAt: time('welcome_sent_at'),
    /** When a confirmation was last asked for; only a link from then confirms. Null: none is awaited. */
    confirmingSince: time('confirming_since'),
    /** When it last confirmed; that of its creation: it was added as active. Null: it never was active, so that nothing but a confirmation makes it so. */
    confirmedAt: time('confirmed_at'),
    /**
     * When it confirmed although its address had unsubscribed from all lists: it gets the mail of this list all the same, until it is stopped again. Null:
     * what its address says of all lists goes for it too.
     */
    optedInAt: time('opted_in_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    // Of an address in all lists of its account: what a bounce, a complaint or an unsubscription changes.
    uniqueIndex('contacts_address').on(t.accountId, t.addressKey, t.listId),
    // The list, newest first; of all and of one status.
    index('contacts_list').on(t.listId),
    index('contacts_status').on(t.listId, t.status),
  ],
)
