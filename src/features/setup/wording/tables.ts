import { sql } from 'drizzle-orm'
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { accounts } from '#features/core/accounts/tables.ts'
import { bytes, describeTable, time } from '#platform/db/columns.ts'

/** An account's own name, texts and logo for the mails and pages that its readers see. At most one row an account. */
export const wordings = sqliteTable(
  'wordings',
  {
    accountId: integer('account_id')
      .primaryKey()
      .references(() => accounts.id),
    name: text('name'),
    /** JSON: texts by language and name, only those that differ from ours. */
    texts: text('texts').notNull(),
    /** SHA-256 of the logo, in base64url: the last part of its URL. The columns of the logo are all null or all set. */
    logoHash: text('logo_hash'),
    logoType: text('logo_type'),
    logoWidth: integer('logo_width'),
    logoHeight: integer('logo_height'),
    logo: bytes('logo'),
    updatedAt: time('updated_at').notNull(),
  },
  (t) => [index('wordings_logo').on(t.logoHash).where(sql`logo_hash is not null`)],
)
describeTable(wordings, { account: 'account_id' })
