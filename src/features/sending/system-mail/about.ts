/**
 * @module Finds system mail about deleted accounts, which is stored with the mail of the account that sent it. Changes
 * nothing.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'

const sql = prepareStatements((db) => ({
  // Few emails match and no index finds them, so a window of row ids is read at a time.
  about: db.prepare<{ id: number; senderId: number; about: string | null }, [number, number]>(
    `SELECT id, account_id AS senderId, extra ->> '$.about' AS about FROM emails
     WHERE id > ? AND id <= ? AND extra LIKE '%"of_service":true%' ORDER BY id`,
  ),
  // Skips ids that no row has: after a restored backup there are many.
  after: db.prepare<{ id: number }, [number]>('SELECT id FROM emails WHERE id > ? ORDER BY id LIMIT 1'),
  left: db.prepare<{ n: number }, [string]>(
    'SELECT count(*) AS n FROM accounts WHERE id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL',
  ),
}))

/** Row ids per window; this takes some 10 ms. */
const ROW_ID_WINDOW = 10_000

export interface FoundSystemMail {
  readonly emailId: number
  /** The account that sent the mail. */
  readonly accountId: number
}

/**
 * Finds system mail, after a row id, that is about this account and about no other account that still exists.
 * @returns the mail found, and where to continue; `next` is undefined at the end
 */
export function findMailAbout(
  db: Database,
  accountId: number,
  after: number,
): { readonly found: readonly FoundSystemMail[]; readonly next: number | undefined } {
  const upTo = after + ROW_ID_WINDOW
  const found = sql(db)
    .about.all(after, upTo)
    .filter(({ about }) => {
      const accounts = JSON.parse(about ?? '[]') as readonly number[]
      return accounts.includes(accountId) && sql(db).left.get(about ?? '[]')?.n === 0
    })
    .map(({ id, senderId }) => ({ emailId: id, accountId: senderId }))
  const following = sql(db).after.get(upTo)
  return { found, next: following ? following.id - 1 : undefined }
}
