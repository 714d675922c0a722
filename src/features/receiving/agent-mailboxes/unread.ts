/**
 * @module How much unread mail mailboxes may have. Remote clients send it, and it is never removed by size, so a mailbox with more is full: RCPT is refused
 * for a time, and the sender tries again. What was accepted before is delivered all the same.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { GiB } from '#platform/units.ts'
import type { Mailbox } from './mailboxes.ts'

/** Many: who lists messages and never acknowledges one has all of them unread. */
export const MAX_UNREAD_PER_MAILBOX = 50_000
export const MAX_UNREAD_BYTES_PER_MAILBOX = 1 * GiB
/** Of all its mailboxes. */
const MAX_UNREAD_PER_ACCOUNT = 500_000
export const MAX_UNREAD_BYTES_PER_ACCOUNT = 5 * GiB

const sql = prepareStatements((db) => ({
  // By the index alone.
  ofAccount: db.prepare<{ count: number; bytes: number }, [number]>(
    `SELECT total(unread_count) AS count, total(unread_bytes) AS bytes FROM agent_mailboxes INDEXED BY agent_mailboxes_unread
     WHERE account_id = ? AND deleted_at IS NULL AND unread_count > 0`,
  ),
}))

/** Whether a mailbox, or its account, has as much unread mail as it may have. */
export function isMailboxFull(db: Database, mailbox: Mailbox): boolean {
  const { accountId, unreadCount, unreadBytes } = mailbox
  if (unreadCount >= MAX_UNREAD_PER_MAILBOX || unreadBytes >= MAX_UNREAD_BYTES_PER_MAILBOX) return true
  const { count, bytes } = sql(db).ofAccount.get(accountId) ?? { count: 0, bytes: 0 }
  return count >= MAX_UNREAD_PER_ACCOUNT || bytes >= MAX_UNREAD_BYTES_PER_ACCOUNT
}
