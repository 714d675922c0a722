import { integer, sqliteTable } from 'drizzle-orm/sqlite-core'

/** Accounts with mail that was held because they may not send. The row goes when they may again and all of it is released. */
export const heldAccounts = sqliteTable('held_accounts', {
  accountId: integer('account_id').primaryKey(),
})
