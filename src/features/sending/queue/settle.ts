/**
 * @module Ends every status change of a recipient: updates its email's status and the counters of both, in the
 * transaction of the change. Only for the files that `status` lists, and those that insert and remove emails.
 */

import { countDaily, type DailyField, domainOfAddress } from '#features/core/events/daily-stats.ts'
import { count } from '#features/core/events/record.ts'
import { countForStream, type StreamCounter } from '#features/setup/streams/reputation.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { deriveEmailStatus, type Status, statusCode, statusName, WAITING_CODES } from './status.ts'

/** What identifies the email of a move. */
export interface EmailRow {
  readonly id: number
  readonly accountId: number
  readonly status: number
  readonly recipientCount: number
  readonly createdAt: Millis
  /** 1: it is captured, and says nothing of the account's reputation. */
  readonly sandbox: number
  readonly streamId: number
  /** Null: it is of no broadcast. */
  readonly broadcastId: number | null
}

/** What is selected from `emails` for an `EmailRow`. */
export const EMAIL_ROW_COLUMNS = `id, account_id AS accountId, status, recipient_count AS recipientCount, created_at AS createdAt, sandbox,
  stream_id AS streamId, broadcast_id AS broadcastId`

/** Rows of `recipients` that nothing has happened to yet: neither an attempt nor a hold. */
export const IS_NEVER_ATTEMPTED = `recipients.status IN ${WAITING_CODES} AND attempts = 0 AND recipients.last_error IS NULL`

/** A recipient whose move succeeded. */
export interface ChangedRecipient {
  readonly address: string
}

const sql = prepareStatements((db) => ({
  email: db.prepare<EmailRow, [number]>(`SELECT ${EMAIL_ROW_COLUMNS} FROM emails WHERE id = ?`),
  recipientStatuses: db.prepare<{ status: number }, [number]>('SELECT status FROM recipients WHERE email_id = ?'),
  setEmailStatus: db.prepare('UPDATE emails SET status = ?, updated_at = ? WHERE id = ? AND status = ?'),
  setDelivered: db.prepare('UPDATE emails SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL'),
}))

/** The email of a move. Throws `NotProcessingError` when it is gone. */
export const requireEmail = (tx: Tx, emailId: number): EmailRow => {
  const email = sql(tx.db).email.get(emailId)
  if (!email) throw new NotProcessingError(`email ${emailId} does not exist`)
  return email
}

/** An outcome for a recipient that is no longer claimed, or gone: writing it again can never succeed. */
export class NotProcessingError extends Error {}

/** Counts an email under a status in the hour it was accepted: the totals of lists, and the books that `tassis check` audits. */
export const countStatus = (
  tx: Tx,
  email: Pick<EmailRow, 'accountId' | 'createdAt'>,
  status: Status,
  delta: number,
): void => count(tx, email.accountId, `email:${status}`, email.createdAt, delta)

/** Adds to a figure of the email's stream, unless the email is only captured. */
export function addStreamStat(tx: Tx, email: EmailRow, figure: StreamCounter, at: Millis, delta = 1): void {
  if (email.sandbox === 0) countForStream(tx, email, figure, at, delta)
}

/** Adds to a figure of the day of `at` and the recipient's domain, unless the email is only captured. */
export function addDailyStat(
  tx: Tx,
  email: EmailRow,
  { address }: ChangedRecipient,
  field: DailyField,
  at: Millis,
  delta = 1,
): void {
  if (email.sandbox === 0)
    countDaily(tx, { accountId: email.accountId, domain: domainOfAddress(address), at }, field, delta)
}

/** A recipient whose mail was accepted gets none of it after all. */
export function uncountSent(tx: Tx, email: EmailRow, recipient: ChangedRecipient): void {
  addStreamStat(tx, email, 'sent', email.createdAt, -1)
  addDailyStat(tx, email, recipient, 'sent', email.createdAt, -1)
}

/** Counter of those `delivered` that were only captured: figures of reputation leave them out. */
export const SANDBOX_DELIVERED_METRIC = 'sandbox:delivered'

export function countDelivered(
  tx: Tx,
  email: EmailRow,
  recipient: ChangedRecipient,
  at: Millis,
  delta: 1 | -1 = 1,
): void {
  addStreamStat(tx, email, 'delivered', at, delta)
  addDailyStat(tx, email, recipient, 'delivered', at, delta)
}

export function countBounced(tx: Tx, email: EmailRow, recipient: ChangedRecipient, at: Millis, isHard: boolean): void {
  if (isHard) addStreamStat(tx, email, 'bounced', at)
  addDailyStat(tx, email, recipient, 'bounced', at)
}

/**
 * Total of the recipients of a broadcast that delivery has begun with: tried, held back by their receiver, or over. How many of those handed over still
 * wait is the difference.
 */
export const begunMetric = (broadcastId: number): string => `broadcast:${broadcastId}:begun`

/** Adds to `begunMetric` when the email is of a broadcast. */
export function countBegun(tx: Tx, { accountId, broadcastId }: EmailRow, delta: 1 | -1): void {
  if (broadcastId !== null) count(tx, accountId, begunMetric(broadcastId), 0, delta)
}

/** Moves the email to what its recipients say, of which `changed` is what one of them became. */
export function settleEmail(tx: Tx, email: EmailRow, changed: Status, now: Millis): void {
  const next =
    email.recipientCount === 1
      ? changed
      : deriveEmailStatus(
          sql(tx.db)
            .recipientStatuses.all(email.id)
            .map((row) => statusName(row.status)),
        )
  const code = statusCode(next)
  if (code === email.status) return
  const updated = sql(tx.db).setEmailStatus.run(code, now, email.id, email.status)
  if (updated.changes !== 1) throw new Error(`email ${email.id} is not ${statusName(email.status)}`)
  countStatus(tx, email, statusName(email.status), -1)
  countStatus(tx, email, next, 1)
}

/** Notes when the first recipient of an email had it. */
export const recordFirstDelivery = (tx: Tx, emailId: number, at: Millis): void => {
  sql(tx.db).setDelivered.run(at, emailId)
}
