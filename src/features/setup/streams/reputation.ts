/**
 * @module Counts the outcomes of each stream's mail, by hour, so that bounces and complaints of one stream do not hide
 * behind another's mail. Callers must not count sandbox mail.
 */
import type { Database } from 'bun:sqlite'
import { count, hourOf, sumCounter } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/open.ts'
import { days, type Millis } from '#platform/units.ts'

/**
 * sent: recipients whose mail was accepted, in the hour of acceptance, without suppressed and cancelled ones.
 * delivered: recipients whose server accepted the mail, in that hour; subtracted again when the server later reports a
 * failure.
 * bounced: recipients that were rejected permanently, in that hour.
 * complained: complaints, in the hour of their receipt.
 */
export const STREAM_COUNTERS = ['sent', 'delivered', 'bounced', 'complained'] as const
export type StreamCounter = (typeof STREAM_COUNTERS)[number]

export const STREAM_METRIC_PREFIX = 'stream:'

export const toStreamMetric = (streamId: number, counter: StreamCounter): string =>
  `${STREAM_METRIC_PREFIX}${streamId}:${counter}`

/** Counter over all streams of an account, deleted ones included, by which the account is monitored. */
export const toAccountMetric = (counter: StreamCounter): string => `account:${counter}`

/** Adds to a counter of a stream and of its account, in the hour of `at`. Never call it for sandbox mail. */
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

export interface Reputation extends Readonly<Record<StreamCounter, number>> {
  /** bounced / (delivered + bounced), 0 to 1; null when both are 0. */
  readonly bounceRate: number | null
  /** complained / delivered, 0 to 1; null when nothing was delivered. */
  readonly complaintRate: number | null
}

/** Days over which the counters are summed. */
export const REPUTATION_DAYS = 30

/**
 * The reputation of a stream over the last 30 days, by full hours: a complaint counts at its receipt, not when its mail
 * was sent.
 */
export function readReputation(db: Database, stream: { accountId: number; id: number }, now: Millis): Reputation {
  const firstHour = hourOf(now - days(REPUTATION_DAYS)) + 1
  const sum = (counter: StreamCounter): number =>
    sumCounter(db, stream.accountId, toStreamMetric(stream.id, counter), firstHour)
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

/** At most 1, because complaints about mail from before the period may outnumber its deliveries. */
const toRate = (part: number, whole: number): number | null => (whole <= 0 ? null : Math.min(part / whole, 1))
