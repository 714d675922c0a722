import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { bytes, flag, time } from '#platform/db/columns.ts'

/** An email that a contact is yet to get: a confirmation or a welcome. The row goes in the transaction that accepts the email. */
export const contactMails = sqliteTable(
  'contact_mails',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    contactId: integer('contact_id').notNull(),
    /** Index into SUBSCRIPTION_MAIL_KINDS. */
    kind: integer('kind').notNull(),
    /** Mailbox to send from, where a form has one; null: that of the list, else no-reply at the first verified domain. */
    fromAddress: text('from_address'),
    dueAt: time('due_at').notNull(),
    attempts: integer('attempts').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('contact_mails_contact').on(t.contactId, t.kind),
    index('contact_mails_due').on(t.dueAt),
    // What an account has due of one kind: each of these waits by itself.
    index('contact_mails_account').on(t.accountId, t.kind, t.dueAt),
  ],
)

/** Confirmations that a contact was asked for before the last, which is in the contact: only of those that were asked more than once, and for half a year. */
export const confirmationAsks = sqliteTable(
  'confirmation_asks',
  {
    id: integer('id').primaryKey(),
    contactId: integer('contact_id').notNull(),
    askedAt: time('asked_at').notNull(),
  },
  (t) => [index('confirmation_asks_contact').on(t.contactId), index('confirmation_asks_age').on(t.askedAt)],
)

/**
 * Addresses that somebody entered into forms while they were not on the list: what was answered before, and how much mail that made for one mailbox.
 * Digests in place of addresses, since whoever has them asked for nothing; for 30 days.
 */
export const formAsks = sqliteTable(
  'form_asks',
  {
    id: integer('id').primaryKey(),
    /** Keyed digest of account and `toMailboxKey`. Null: it made no email. */
    mailbox: bytes('mailbox'),
    /** Keyed digest of `toMailboxKey` alone, by which mail is counted over all accounts. Null: it made no email. */
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

/** A CSV file of contacts that is being imported. Row and file go when the import is over. */
export const contactImports = sqliteTable(
  'contact_imports',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    accountId: integer('account_id').notNull(),
    listId: integer('list_id').notNull(),
    operationId: integer('operation_id').notNull().unique(),
    /** Name of the file below the data directory's `imports`. */
    file: text('file').notNull(),
    sizeBytes: integer('size_bytes').notNull(),
    /** Whether its contacts have confirmed already, so that a list with double opt-in asks nobody. */
    confirmed: flag('confirmed').notNull(),
    /** Octets and lines that are done: where a restart goes on. */
    doneBytes: integer('done_bytes').notNull(),
    doneLines: integer('done_lines').notNull(),
    inserted: integer('inserted').notNull(),
    /** On the list already. */
    duplicates: integer('duplicates').notNull(),
    invalid: integer('invalid').notNull(),
    /** JSON of the first that went wrong: [{line, error}]. */
    errors: text('errors').notNull(),
    /** JSON: who began it, for the audit log. */
    actor: text('actor').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('contact_imports_list').on(t.listId)],
)
