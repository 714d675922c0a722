/** @module What waits for delivery, why and until when: for `tassis queue` and the operator's routes. Reads only. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { type LaneState, NOT_DUE_REASON } from '#features/sending/delivery/scheduler.ts'
import { accountOfLane } from '#features/sending/queue/lanes.ts'
import { readOpenLanes } from '#features/sending/queue/queue.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import type { Millis } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { formatRelativeTime, truncate } from '../cli/output.ts'
import type { RunningDelivery } from '../create.ts'

export interface WaitingRecipient {
  readonly email_id: string
  readonly account: string
  readonly lane: string
  readonly recipient: string
  readonly status: Status
  readonly attempts: number
  readonly next_at: string
  readonly last_error: string | null
}

interface RecipientRow {
  uuid: Uint8Array
  account: string
  lane: string
  recipient: string
  status: number
  attempts: number
  nextAt: number
  lastError: string | null
}

const sql = prepareStatements((db) => ({
  // Reads one lane, so that the queue's index returns the earliest recipients without a sort.
  ofLane: db.prepare<RecipientRow, [string, number]>(
    `SELECT emails.uuid, accounts.name AS account, lane, address AS recipient, recipients.status, attempts, next_at AS nextAt, last_error AS lastError
     FROM recipients JOIN emails ON emails.id = email_id JOIN accounts ON accounts.id = account_id
     WHERE lane = ? AND next_at IS NOT NULL ORDER BY next_at LIMIT ?`,
  ),
  account: db.prepare<{ uuid: Uint8Array; name: string }, [number]>('SELECT uuid, name FROM accounts WHERE id = ?'),
  webhooks: db.prepare<{ waiting: number; offByFailures: number }, []>(
    `SELECT (SELECT COUNT(*) FROM webhook_deliveries WHERE next_at IS NOT NULL) AS waiting,
     (SELECT COUNT(*) FROM webhooks WHERE off_by_failures = 1 AND deleted_at IS NULL) AS offByFailures`,
  ),
}))

export const MAX_ERROR_LENGTH = 120

/**
 * Every lane with open mail, the earliest first. Reads the whole index of open mail.
 * @param delivery undefined when this process delivers no mail
 */
export function readLanes(app: App, delivery: RunningDelivery | undefined): LaneState[] {
  const now = app.clock.now()
  const states =
    delivery?.scheduler.states() ??
    readOpenLanes(app.db).map(({ lane, firstAt, waiting }) => ({
      lane,
      waiting,
      firstDue: firstAt,
      reason: firstAt > now ? NOT_DUE_REASON : 'no service is running',
    }))
  return states.toSorted((a, b) => a.firstDue - b.firstDue)
}

/**
 * Why the mail of a lane waits. If the lane is not due yet, the reason is that of its earliest recipient.
 */
export function describeWait({ db }: Pick<App, 'db'>, { lane, reason }: LaneState, now: Millis): string {
  if (reason !== NOT_DUE_REASON) return reason
  const [first] = sql(db).ofLane.all(lane, 1)
  if (!first) return NOT_DUE_REASON
  if (statusName(first.status) === 'scheduled') return 'scheduled'
  const next = `next attempt ${formatRelativeTime(first.nextAt, now)}`
  return first.lastError === null ? next : `deferred: ${truncate(first.lastError, MAX_ERROR_LENGTH)}, ${next}`
}

/** The account of a lane; undefined if it is deleted. */
export const findLaneAccount = (db: Database, lane: string): { uuid: Uint8Array; name: string } | undefined =>
  sql(db).account.get(accountOfLane(lane)) ?? undefined

/** The earliest recipients of a lane. */
export const listLaneRecipients = (db: Database, lane: string, limit: number): WaitingRecipient[] =>
  sql(db)
    .ofLane.all(lane, limit)
    .map((row) => ({
      email_id: formatUuid(row.uuid),
      account: row.account,
      lane: row.lane,
      recipient: row.recipient,
      status: statusName(row.status),
      attempts: row.attempts,
      next_at: isoTime(row.nextAt),
      last_error: row.lastError,
    }))

/** Webhook deliveries that wait for an attempt, and webhooks deactivated by failures. */
export function countWebhooks(db: Database): { waiting: number; off_by_failures: number } {
  const row = sql(db).webhooks.get()
  return { waiting: row?.waiting ?? 0, off_by_failures: row?.offByFailures ?? 0 }
}
