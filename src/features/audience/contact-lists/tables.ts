import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { bytes, describeTable, flag, time } from '#platform/db/columns.ts'

/**
 * Addresses submitted to forms while they were not on the list: repeats get the same response, and mail to one mailbox
 * is limited. Digests in place of addresses, since their owners may not have asked for anything; kept for 30 days.
 */
export const formAsks = sqliteTable(
  'form_asks',
  {
    id: integer('id').primaryKey(),
    /** Keyed digest of account and `toMailboxKey`. Null: no email was sent. */
    mailbox: bytes('mailbox'),
    /** Keyed digest of `toMailboxKey` alone, to count mail over all accounts. Null: no email was sent. */
    sharedMailbox: bytes('shared_mailbox'),
    /** Keyed digest of list and address. */
    contact: bytes('contact').notNull(),
    askedAt: time('asked_at').notNull(),
  },
  (t) => [
    index('form_asks_mailbox').on(t.mailbox, t.askedAt).where(sql`mailbox is not null`),
    index('form_asks_shared_mailbox').on(t.sharedMailbox, t.askedAt).where(sql`shared_mailbox is not null`),
    index('form_asks_contact').on(t.contact, t.askedAt),
    index('form_asks_age').on(t.askedAt),
  ],
)
describeTable(formAsks, {
  account: { except: 'keyed digests of addresses' },
  kept: { since: 'asked_at', days: 30 },
  group: 'contacts',
})

/** A CSV file of contacts that is being imported. Row and file are deleted when the import ends. */
export const contactImports = sqliteTable(
  'contact_imports',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    listId: integer('list_id').notNull(),
    operationId: integer('operation_id').notNull().unique(),
    /** Name of the file in the data directory's `imports`. */
    file: text('file').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    /**
     * Whether its contacts have already confirmed, so that a list with double opt-in sends no confirmation requests.
     */
    confirmed: flag('confirmed').notNull(),
    /** Octets and lines that are done: where a restart continues. */
    doneBytes: integer('done_bytes').notNull(),
    doneLines: integer('done_lines').notNull(),
    inserted: integer('inserted').notNull(),
    /** On the list already. */
    duplicates: integer('duplicates').notNull(),
    invalid: integer('invalid').notNull(),
    /** JSON of the first invalid lines: [{line, error}]. */
    errors: text('errors').notNull(),
  },
  (t) => [index('contact_imports_list').on(t.listId)],
)
describeTable(contactImports, { account: 'account_id', group: 'contacts' })
