/**
 * @module Cancels the waiting mail of an account that is being deleted; attempts in progress end normally. Records no
 * events, because the account's events are deleted too. Refunds the quota, because it may be that of a parent account.
 */
import type { Database } from 'bun:sqlite'
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { requireEmail, settleEmail } from './settle.ts'
import { OPEN_CODES, statusCode, WAITING_CODES } from './status.ts'

const IS_WAITING = `recipients.status IN ${WAITING_CODES}`
/** Emails per transaction; this takes some 5 ms. */
const BATCH_SIZE = 100

const sql = prepareStatements((db) => ({
  waiting: db.prepare<{ id: number; quotaMonth: number | null }, [number, number]>(
    `SELECT id, quota_month AS quotaMonth FROM emails WHERE account_id = ? AND status IN ${OPEN_CODES}
     AND EXISTS (SELECT 1 FROM recipients WHERE email_id = emails.id AND ${IS_WAITING}) LIMIT ?`,
  ),
  end: db.prepare(
    `UPDATE recipients SET status = ${statusCode('cancelled')}, lane = NULL, next_at = NULL WHERE email_id = ? AND ${IS_WAITING}`,
  ),
  open: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM emails WHERE account_id = ? AND status IN ${OPEN_CODES} LIMIT 1`,
  ),
}))

/** Cancels a batch of waiting mail; returns the number of emails, 0 when none is left. */
export function cancelWaitingMail(tx: Tx, accountId: number, now: Millis): number {
  const emails = sql(tx.db).waiting.all(accountId, BATCH_SIZE)
  for (const { id, quotaMonth } of emails) {
    const cancelled = sql(tx.db).end.run(id).changes
    if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, cancelled)
    settleEmail(tx, requireEmail(tx, id), 'cancelled', now)
  }
  return emails.length
}

/** Whether the account has open mail. Once `cancelWaitingMail` has returned 0, all open mail is in delivery. */
export const hasMailInFlight = (db: Database, accountId: number): boolean => sql(db).open.get(accountId) !== null
