/** @module The account that a notice about its domains addresses. */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'

export interface MailedAccount {
  readonly name: string
  readonly email: string
}

const sql = prepareStatements((db) => ({
  account: db.prepare<MailedAccount, [number]>(
    'SELECT name, email FROM accounts WHERE id = ? AND deleted_at IS NULL AND disabled_at IS NULL',
  ),
}))

/** Null for an account that is closed or deleted. */
export const findMailedAccount = (db: Database, accountId: number): MailedAccount | null =>
  sql(db).account.get(accountId)
