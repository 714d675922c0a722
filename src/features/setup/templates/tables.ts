import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core'
import { ofAccount } from '#features/core/accounts/tables.ts'
import { describeTable, time, uuid } from '#platform/db/columns.ts'

/** A template. A deleted template keeps its row without bodies, because emails refer to it; its alias is free again. */
export const templates = sqliteTable(
  'templates',
  {
    /** Never reused: emails refer to it after its deletion. */
    id: integer('id').primaryKey({ autoIncrement: true }),
    uuid: uuid('uuid').notNull().unique(),
    accountId: ofAccount(),
    alias: text('alias').notNull(),
    /** Canonical BCP 47 tag; null: the template for all languages that have none of their own. */
    locale: text('locale'),
    name: text('name').notNull(),
    /** Sources, in Jinja's syntax. */
    subject: text('subject').notNull(),
    htmlBody: text('html_body'),
    textBody: text('text_body'),
    /** JSON object with values for previews and test emails; null: none. */
    testData: text('test_data'),
    /** Number that the template had at the provider from which it was imported; null: it was made here. */
    foreignId: integer('foreign_id'),
    /** 1 at first; incremented with each change of subject or bodies. */
    version: integer('version').notNull(),
    createdAt: time('created_at').notNull(),
    updatedAt: time('updated_at').notNull(),
    deletedAt: time('deleted_at'),
  },
  (t) => [
    uniqueIndex('templates_alias')
      .on(t.accountId, t.alias, sql`CASE WHEN locale IS NULL THEN '' ELSE locale END`)
      .where(sql`deleted_at is null`),
    uniqueIndex('templates_foreign')
      .on(t.accountId, t.foreignId)
      .where(sql`foreign_id is not null and deleted_at is null`),
    index('templates_account').on(t.accountId),
  ],
)
describeTable(templates, { account: 'account_id' })

/** A version of a template as it was saved; the newest is that of the template. Deleted with it. */
export const templateVersions = sqliteTable(
  'template_versions',
  {
    templateId: integer('template_id')
      .notNull()
      .references(() => templates.id),
    version: integer('version').notNull(),
    subject: text('subject').notNull(),
    htmlBody: text('html_body'),
    textBody: text('text_body'),
    /** Who saved it, as in the audit log. */
    actorType: text('actor_type').notNull(),
    actorId: text('actor_id').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.templateId, t.version] })],
)
describeTable(templateVersions, { account: ['template_id', 'templates'] })
