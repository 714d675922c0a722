/**
 * @module Reads the complaint rate of an account and the newest complaints. Rates come from counters, never from the
 * rows. Read-only.
 */
import type { Database } from 'bun:sqlite'
import { hourOf } from '#features/core/events/record.ts'
import { SANDBOX_DELIVERED_METRIC } from '#features/sending/queue/settle.ts'
import { newestFirst, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import type { FeedbackType } from '#protocols/arf/parse.ts'
import { toComplaintMetric } from './apply.ts'
import type { complaints } from './tables.ts'

export interface ComplaintRate {
  /** Delivered recipients, without sandbox mail. */
  readonly delivered: number
  readonly complaints: number
  /** Complaints per delivered recipient, from 0 and possibly above 1; null: nothing was delivered. */
  readonly rate: number | null
}

/** Types that count towards the rate: all but `not-spam`. */
const COUNTED_TYPES: readonly FeedbackType[] = ['abuse', 'fraud', 'virus', 'other']
const DELIVERED_METRIC = 'event:delivered'

const SELECT = `SELECT complaints.id, complaints.account_id AS accountId, emails.uuid AS emailUuid, address, feedback_type AS feedbackType,
  feedback_loop AS feedbackLoop, reporter, complaints.created_at AS createdAt
  FROM complaints LEFT JOIN emails ON emails.id = complaints.email_id LEFT JOIN recipients ON recipients.id = complaints.recipient_id`

const sql = prepareStatements((db) => ({
  sum: db.prepare<{ value: number }, [number, string, number, number]>(
    'SELECT coalesce(sum(value), 0) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour BETWEEN ? AND ?',
  ),
  list: newestFirst<StoredComplaint, []>(db, SELECT, 'complaints WHERE TRUE', 'complaints.id'),
  listOf: newestFirst<StoredComplaint, [number]>(db, SELECT, 'complaints WHERE account_id = ?', 'complaints.id'),
}))

/**
 * The rate of an account from the hour of `from` to the hour of `to`, both included. A complaint counts in the hour in
 * which it arrived, not in the hour of its email.
 */
export function readComplaintRate(
  db: Database,
  accountId: number,
  { from, to }: { readonly from: Millis; readonly to: Millis },
): ComplaintRate {
  const sumMetric = (metric: string): number => sql(db).sum.get(accountId, metric, hourOf(from), hourOf(to))?.value ?? 0
  const delivered = sumMetric(DELIVERED_METRIC) - sumMetric(SANDBOX_DELIVERED_METRIC)
  const complaints = COUNTED_TYPES.reduce((sum, type) => sum + sumMetric(toComplaintMetric(type)), 0)
  return { delivered, complaints, rate: delivered === 0 ? null : complaints / delivered }
}

export interface StoredComplaint
  extends Readonly<Omit<typeof complaints.$inferSelect, 'emailId' | 'recipientId' | 'rawRef'>> {
  /** Null: the email was deleted. */
  readonly emailUuid: UuidBytes | null
  /** Address of the complainant; null: the report did not name it, or the recipient was deleted. */
  readonly address: string | null
}

/** A page of the complaints, `not-spam` included, newest first, of all accounts unless one is passed. */
export function listComplaints(db: Database, accountId: number | undefined, window: RowWindow) {
  const { rows: complaints, total } = accountId === undefined ? sql(db).list(window) : sql(db).listOf(window, accountId)
  return { complaints, total }
}
