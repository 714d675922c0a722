import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, flag, time, uuid } from '#platform/db/columns.ts'

/**
 * A contact list. A deleted list keeps its row, because suppressions and emails refer to it; its contacts are deleted
 * in batches.
 */
export const contactLists = sqliteTable(
  'contact_lists',
  {
    /** Never reused: unsubscribe tokens refer to it permanently. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    name: text('name').notNull(),
    description: text('description'),
    doubleOptIn: flag('double_opt_in').notNull(),
    welcomeEnabled: flag('welcome_enabled').notNull(),
    /** Delay after a contact became active. */
    welcomeDelaySeconds: integer('welcome_delay_seconds').notNull(),
    /** Mailbox in header form; null: no-reply at the first verified domain. */
    welcomeFrom: text('welcome_from'),
    welcomeSubject: text('welcome_subject'),
    welcomeHtml: text('welcome_html'),
    welcomeText: text('welcome_text'),
    /** Row id; takes precedence over the bodies. */
    welcomeTemplateId: integer('welcome_template_id'),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    deletedAt: time('deleted_at'),
    /** When the last contact of a deleted list was deleted. */
    emptiedAt: time('emptied_at'),
  },
  (t) => [
    uniqueIndex('contact_lists_name').on(t.accountId, t.name).where(sql`deleted_at is null`),
    index('contact_lists_account').on(t.accountId),
    index('contact_lists_deleted').on(t.id).where(sql`deleted_at is not null and emptied_at is null`),
  ],
)
describeTable(contactLists, { account: 'account_id', group: 'contacts' })

/** An address on a list. Ids grow with time: a broadcast goes to contacts up to the newest id at its start. */
export const contacts = sqliteTable(
  'contacts',
  {
    /** Never reused: confirmation links refer to it. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull(),
    accountId: integer('account_id').notNull(),
    listId: integer('list_id').notNull(),
    /** As `toSuppressionKey` returns it: lower case, domain in A-labels. */
    addressKey: text('address_key').notNull(),
    /** As it was submitted, if that differs from the key. */
    email: text('email'),
    /** JSON object; null: empty. */
    metadata: text('metadata'),
    /** Index into CONTACT_STATUSES. */
    status: integer('status').notNull(),
    subscribedAt: time('subscribed_at').notNull(),
    unsubscribedAt: time('unsubscribed_at'),
    welcomeSentAt: time('welcome_sent_at'),
    /** Time of the last confirmation request, the only one whose link confirms. Null: none is open. */
    confirmingSince: time('confirming_since'),
    /** JSON: when it got earlier confirmation requests that it has not answered, of the last half year; null: never. */
    earlierRequests: text('earlier_requests'),
    /**
     * When the contact last confirmed, or its creation time if it was added as active. Null: never active; only a
     * confirmation can activate it.
     */
    confirmedAt: time('confirmed_at'),
    /**
     * When the contact confirmed its subscription after its address had left all lists: it gets mail of this list until
     * it is stopped again. Null: an unsubscription from all lists applies to this contact too.
     */
    optedInAt: time('opted_in_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    // For bounces, complaints and unsubscriptions, which change the contacts of an address in all lists of an account.
    uniqueIndex('contacts_address').on(t.accountId, t.addressKey, t.listId),
    // Used for pages of a list, newest first, unfiltered or by status.
    index('contacts_list').on(t.listId),
    index('contacts_status').on(t.listId, t.status),
    // For searches by the beginning of an address.
    index('contacts_search').on(t.listId, t.status, t.addressKey),
  ],
)
describeTable(contacts, { account: 'account_id', group: 'contacts' })
