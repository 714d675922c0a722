/** @module Compares the accepted emails of each account with its emails by status. Reads only. */
import type { Database } from 'bun:sqlite'
import { COMMON_HORIZON } from '#features/core/events/counter-rules.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { isOpen, STATUSES, type Status } from '#features/sending/queue/status.ts'
import { describeRows, type Violation } from '#platform/db/consistency.ts'

/** The balance of one account, in emails. */
export interface Balance {
  readonly account_id: number
  readonly account: string
  /** Counted from acceptance events. */
  readonly accepted: number
  readonly sent: number
  readonly bounced: number
  readonly failed: number
  readonly rejected: number
  readonly cancelled: number
  readonly uncertain: number
  /** Queued, scheduled or processing. */
  readonly open: number
}

/** The balance of each account since the earliest time for which both its emails and its events are stored. */
export function readBalances(db: Database): Balance[] {
  const accepted = new Map(
    db
      .query<{ account: number; n: number }, []>(
        // DISTINCT, because a scheduled email has two of these events: one at acceptance, one when it is queued.
        `SELECT events.account_id AS account, count(DISTINCT email_id) AS n FROM events LEFT JOIN emails ON emails.id = email_id
         WHERE type IN (${toEventCode('queued')}, ${toEventCode('scheduled')}) AND recipient_id IS NULL
           AND at >= ${COMMON_HORIZON} AND coalesce(created_at, at) >= ${COMMON_HORIZON} GROUP BY events.account_id`,
      )
      .all()
      .map(({ account, n }) => [account, n]),
  )
  const rows = db
    .query<{ account: number; status: number; n: number }, []>(
      `SELECT account_id AS account, status, count(*) AS n FROM emails WHERE created_at >= ${COMMON_HORIZON} GROUP BY account_id, status`,
    )
    .all()
  const accounts = db.query<{ id: number; name: string }, []>('SELECT id, name FROM accounts ORDER BY id').all()
  return accounts.map(({ id, name }) => {
    const own = rows.filter((row) => row.account === id)
    const count = (isCounted: (status: Status) => boolean) =>
      own.reduce((sum, { status: code, n }) => {
        const status = STATUSES[code]
        return status !== undefined && isCounted(status) ? sum + n : sum
      }, 0)
    return {
      account_id: id,
      account: name,
      accepted: accepted.get(id) ?? 0,
      sent: count((status) => status === 'sent'),
      bounced: count((status) => status === 'bounced'),
      failed: count((status) => status === 'failed'),
      rejected: count((status) => status === 'rejected'),
      cancelled: count((status) => status === 'cancelled'),
      uncertain: count((status) => status === 'uncertain'),
      open: count(isOpen),
    }
  })
}

/** Checks that accepted = sent + bounced + failed + rejected + cancelled + uncertain + open. */
export const checkBalances = (all: readonly Balance[]): Violation => ({
  rule: 'accepted = sent + bounced + failed + rejected + cancelled + uncertain + open, in every account',
  differences: describeRows(
    all.filter((balance) => balance.accepted !== sumOutcomes(balance)),
    (balance) => `account ${balance.account_id}: ${balance.accepted} accepted, ${sumOutcomes(balance)} accounted for`,
  ),
})

const sumOutcomes = (b: Balance): number =>
  b.sent + b.bounced + b.failed + b.rejected + b.cancelled + b.uncertain + b.open
