/**
 * @module The reputation of a stream by itself: what became of its mail, in counters by hour, so that one stream's bounces and complaints do not hide
 * behind another's mail. Counts what it is told and sums it up; sandbox mail says nothing of a reputation and is not told.
 */
import type { Database } from 'bun:sqlite'
import { count, hourOf } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { days } from '#platform/units.ts'

/**
 * sent: recipients that mail was accepted for, in the hour of the acceptance; those who were suppressed or cancelled are taken out again.
 * delivered: recipients whose receiver took it, in the hour that it did; taken out again when it reports later that it could not deliver.
 * bounced: recipients refused for good, in the hour of the refusal. complained: complaints, in the hour they came in.
 */
export const STREAM_COUNTERS = ['sent', 'delivered', 'bounced', 'complained'] as const
export type StreamCounter = (typeof STREAM_COUNTERS)[number]

/** Beginning of the names of all counters of streams. */
export const STREAM_METRIC_PREFIX = 'stream:'

const toStreamMetric = (streamId: number, counter: StreamCounter): string =>
  `${STREAM_METRIC_PREFIX}${streamId}:${counter}`

/** Counter of a figure over all streams of an account, the deleted ones too: what an account is judged by. */
export const toAccountMetric = (counter: StreamCounter): string => `account:${counter}`

/** Adds to a figure of a stream, and of its account, in the hour of `at`. Not for sandbox mail. */
export function countForStream(
  tx: Tx,
  stream: { readonly accountId: number; readonly streamId: number },
  counter: StreamCounter,
  at: Millis,
  delta: number,
): void {
  count(tx, stream.accountId, toStreamMetric(stream.streamId, counter), at, delta)
  count(tx, stream.accountId, toAccountMetric(counter), at, delta)
}

const sql = prepareStatements((db) => ({
  sum: db.prepare<{ value: number }, [number, string, number]>(
    'SELECT coalesce(sum(value), 0) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour > ?',
  ),
}))

export interface Reputation extends Readonly<Record<StreamCounter, number>> {
  /** Bounced of those who were delivered to or bounced, 0..1; null when there are none. */
  readonly bounceRate: number | null
  /** Complaints of those who were delivered to, 0..1; null when there are none. */
  readonly complaintRate: number | null
}

/** Days that the figures are summed over. */
export const REPUTATION_DAYS = 30

/** The figures of a stream over the last 30 days, by full hours: a complaint counts when it came in, not when its mail was sent. */
export function readReputation(db: Database, stream: { accountId: number; id: number }, now: Millis): Reputation {
  const before = hourOf(now - days(REPUTATION_DAYS))
  const sum = (counter: StreamCounter): number =>
    sql(db).sum.get(stream.accountId, toStreamMetric(stream.id, counter), before)?.value ?? 0
  const delivered = sum('delivered')
  const bounced = sum('bounced')
  const complained = sum('complained')
  return {
    sent: sum('sent'),
    delivered,
    bounced,
    complained,
    bounceRate: toRate(bounced, delivered + bounced),
    complaintRate: toRate(complained, delivered),
  }
}

/** Complaints about mail from before the period may outnumber what was delivered in it, so a rate ends at 1. */
const toRate = (part: number, whole: number): number | null => (whole <= 0 ? null : Math.min(part / whole, 1))
