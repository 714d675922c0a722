/**
 * @module Completes every status change of a recipient: updates the email's status and the counters, in the transaction
 * of the change. Used only by the files listed in `status`, and those that insert and delete emails. Also marks emails
 * that a recipient opened, clicked or complained about, with a flag for each and an index over those that have it, so
 * that lists find them.
 */

import type { Database } from 'bun:sqlite'
import { countDaily, type DailyField, domainOfAddress } from '#features/core/events/daily-stats.ts'
import {
  count,
  countCaptured,
  type EventData,
  type EventType,
  type NewEvent,
  record,
} from '#features/core/events/record.ts'
import { countForStream, type StreamCounter } from '#features/setup/streams/reputation.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { deriveEmailStatus, isOpen, type Status, statusCode, statusName, WAITING_CODES } from './status.ts'
import type { emails } from './tables.ts'

export interface EmailRow
  extends Readonly<
    Pick<
      typeof emails.$inferSelect,
      'id' | 'accountId' | 'status' | 'recipientCount' | 'createdAt' | 'streamId' | 'broadcastId'
    >
  > {
  /** 1: captured only; does not affect the account's reputation. */
  readonly sandbox: number
}

export const EMAIL_ROW_COLUMNS = `id, account_id AS accountId, status, recipient_count AS recipientCount, created_at AS createdAt, sandbox,
  stream_id AS streamId, broadcast_id AS broadcastId`

/** SQL: the recipient is new: neither attempted nor held. */
export const IS_NEVER_ATTEMPTED = `recipients.status IN ${WAITING_CODES} AND attempts = 0 AND recipients.last_error IS NULL`

export interface ChangedRecipient {
  readonly address: string
}

export interface TransitionAt {
  readonly recipientId: number
  readonly emailId: number
  readonly now: Millis
}

const sql = prepareStatements((db) => ({
  email: db.prepare<EmailRow, [number]>(`SELECT ${EMAIL_ROW_COLUMNS} FROM emails WHERE id = ?`),
  recipientStatuses: db.prepare<{ status: number }, [number]>('SELECT status FROM recipients WHERE email_id = ?'),
  setEmailStatus: db.prepare(
    'UPDATE emails SET status = ?, updated_at = ?, delivered_at = coalesce(delivered_at, ?) WHERE id = ? AND status = ?',
  ),
  setDelivered: db.prepare('UPDATE emails SET delivered_at = ? WHERE id = ? AND delivered_at IS NULL'),
  engage: db.prepare('UPDATE emails SET engagement = engagement | ?1 WHERE id = ?2 AND engagement & ?1 = 0'),
  any: db.prepare<{ id: number }, []>('SELECT id FROM queue_rules WHERE email_id IS NOT NULL LIMIT 1'),
  delete: db.prepare('DELETE FROM queue_rules WHERE email_id = ?'),
}))

/** The email of a transition. Throws `NotProcessingError` if it does not exist. */
export const requireEmail = (tx: Tx, emailId: number): EmailRow => {
  const email = sql(tx.db).email.get(emailId)
  if (!email) throw new NotProcessingError(`email ${emailId} does not exist`)
  return email
}

export function recordOf(
  tx: Tx,
  { id, accountId }: EmailRow,
  { recipientId, now }: Omit<TransitionAt, 'emailId'>,
  type: EventType,
  data?: EventData,
): void {
  record(tx, { accountId, type, at: now, emailId: id, recipientId, ...(data && { data }) })
}

/** Records that a scheduled email is due, before it leaves that status. */
export function recordDue(tx: Tx, { id, accountId, status }: EmailRow, now: Millis): void {
  if (statusName(status) === 'scheduled') record(tx, { accountId, type: 'queued', at: now, emailId: id })
}

/** The recipient is no longer claimed or does not exist, so another attempt to store the outcome can never succeed. */
export class NotProcessingError extends Error {}

export const toStatusMetric = (status: Status): string => `email:${status}`
/** Counter of the sandbox mail among these. */
export const toSandboxMetric = (status: Status): string => `sandbox-email:${status}`

/** In the hour of its acceptance. List totals are sums of these counters, and `tassis check` recounts them. */
export function countStatus(
  tx: Tx,
  { accountId, createdAt, sandbox }: Pick<EmailRow, 'accountId' | 'createdAt' | 'sandbox'>,
  status: Status,
  delta: number,
): void {
  count(tx, accountId, toStatusMetric(status), createdAt, delta)
  if (sandbox === 1) count(tx, accountId, toSandboxMetric(status), createdAt, delta)
}

/** Adds to a statistic of the email's stream, except for sandbox mail. */
function addStreamStat(tx: Tx, email: EmailRow, figure: StreamCounter, at: Millis, delta = 1): void {
  if (email.sandbox === 0) countForStream(tx, email, figure, at, delta)
}

/** Adds to a statistic of the recipient's domain for the day of `at`, except for sandbox mail. */
function addDailyStat(
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

/** Subtracts a recipient from the statistic `sent`: it was accepted but gets no mail. */
export function uncountSent(tx: Tx, email: EmailRow, recipient: ChangedRecipient): void {
  addStreamStat(tx, email, 'sent', email.createdAt, -1)
  addDailyStat(tx, email, recipient, 'sent', email.createdAt, -1)
}

/** Counter of `delivered` sandbox mail, which reputation statistics exclude. */
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
  if (email.sandbox === 1) countCaptured(tx, email.accountId, 'bounced', at)
  addDailyStat(tx, email, recipient, 'bounced', at)
}

/** The counter of broadcast recipients that were attempted, deferred, held or ended; the others still wait. */
export const begunMetric = (broadcastId: number): string => `broadcast:${broadcastId}:begun`

/** Adds to `begunMetric` if the email belongs to a broadcast. */
export function countBegun(tx: Tx, { accountId, broadcastId }: EmailRow, delta: 1 | -1): void {
  if (broadcastId !== null) count(tx, accountId, begunMetric(broadcastId), 0, delta)
}

/**
 * Sets the email's status from the statuses of its recipients; `changed` is the new status of one recipient.
 * @param deliveredAt when this recipient was delivered; stored if it is the email's first
 */
export function settleEmail(tx: Tx, email: EmailRow, changed: Status, now: Millis, deliveredAt?: Millis): void {
  const next =
    email.recipientCount === 1
      ? changed
      : deriveEmailStatus(
          sql(tx.db)
            .recipientStatuses.all(email.id)
            .map((row) => statusName(row.status)),
        )
  const code = statusCode(next)
  if (code === email.status) {
    if (deliveredAt !== undefined) sql(tx.db).setDelivered.run(deliveredAt, email.id)
    return
  }
  const updated = sql(tx.db).setEmailStatus.run(code, now, deliveredAt ?? null, email.id, email.status)
  if (updated.changes !== 1) throw new Error(`email ${email.id} is not ${statusName(email.status)}`)
  countStatus(tx, email, statusName(email.status), -1)
  countStatus(tx, email, next, 1)
  // An operator's hold is not listed any more, and does not hold the email if it is tried again.
  if (!isOpen(next) && hasEmailHolds(tx.db)) sql(tx.db).delete.run(email.id)
}

/** Whether an operator holds any single email, so that claims must look. */
export const hasEmailHolds = (db: Database): boolean => sql(db).any.get() !== null

/** The position is that of the stored bit: only append. */
export const ENGAGEMENTS = ['opened', 'clicked', 'complained'] as const
export type Engagement = (typeof ENGAGEMENTS)[number]

export const engagementBit = (engagement: Engagement): number => 1 << ENGAGEMENTS.indexOf(engagement)

/** SQL: the email has the engagement. As the index of its emails states it. */
export const isEngagedSql = (engagement: Engagement): string => `engagement & ${engagementBit(engagement)} <> 0`

/** SQL: the index of the emails that have the engagement, by account and time. */
export const engagementIndex = (engagement: Engagement): string => `emails_${engagement}`

/** The engagements that an email has. */
export const toEngagements = (bits: number): Engagement[] =>
  ENGAGEMENTS.filter((engagement) => (bits & engagementBit(engagement)) !== 0)

/** Records an event of a reader, and marks its email. */
export function recordEngaged(tx: Tx, event: NewEvent & { readonly type: Engagement; readonly emailId: number }): void {
  record(tx, event)
  sql(tx.db).engage.run(engagementBit(event.type), event.emailId)
}
