/**
 * @module Limits the unread mail of mailboxes, because remote clients send it and nothing deletes unread mail to save
 * space. While a mailbox is full, RCPT is rejected temporarily, so that the sender retries. Mail that was already
 * accepted is still delivered.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { GiB } from '#platform/units.ts'
import type { Mailbox } from './mailboxes.ts'

/** High, because all messages stay unread when consumers only list them. */
export const MAX_UNREAD_PER_MAILBOX = 50_000
export const MAX_UNREAD_BYTES_PER_MAILBOX = 1 * GiB
/** Limits of all mailboxes of an account together. */
const MAX_UNREAD_PER_ACCOUNT = 500_000
export const MAX_UNREAD_BYTES_PER_ACCOUNT = 5 * GiB

const sql = prepareStatements((db) => ({
  // The index contains all columns that are read.
  ofAccount: db.prepare<{ count: number; bytes: number }, [number]>(
    `SELECT total(unread_count) AS count, total(unread_bytes) AS bytes FROM agent_mailboxes INDEXED BY agent_mailboxes_unread
     WHERE account_id = ? AND deleted_at IS NULL AND unread_count > 0`,
  ),
}))

/** Whether a mailbox, or its account, has reached its limit of unread mail. */
export function isMailboxFull(db: Database, mailbox: Mailbox): boolean {
  const { accountId, unreadCount, unreadBytes } = mailbox
  if (unreadCount >= MAX_UNREAD_PER_MAILBOX || unreadBytes >= MAX_UNREAD_BYTES_PER_MAILBOX) return true
  const { count, bytes } = sql(db).ofAccount.get(accountId) ?? { count: 0, bytes: 0 }
  return count >= MAX_UNREAD_PER_ACCOUNT || bytes >= MAX_UNREAD_BYTES_PER_ACCOUNT
}
