import { integer, sqliteTable } from 'drizzle-orm/sqlite-core'

/**
 * Accounts whose mail was held because they may not send. The row is deleted once the account may send again and all
 * its held mail is released.
 */
export const heldAccounts = sqliteTable('held_accounts', {
  accountId: integer('account_id').primaryKey(),
})
