import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, flag, time, uuid } from '#platform/db/columns.ts'

/** The public form of a contact list. */
export const signupForms = sqliteTable(
  'signup_forms',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    /** A list has at most one form. */
    listId: integer('list_id').notNull().unique(),
    /** Last part of its URL. */
    slug: text('slug').notNull().unique(),
    title: text('title').notNull(),
    description: text('description'),
    /** Sender of confirmations, in header form; null: no-reply at the first verified domain. */
    fromAddress: text('from_address'),
    redirectUrl: text('redirect_url'),
    successMessage: text('success_message'),
    /** JSON: [{name, label, type, required}]. */
    customFields: text('custom_fields').notNull(),
    /** JSON objects of what differs from the defaults. */
    theme: text('theme').notNull(),
    messages: text('messages').notNull(),
    isActive: flag('is_active').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [index('signup_forms_account').on(t.accountId)],
)
describeTable(signupForms, { account: 'account_id' })
