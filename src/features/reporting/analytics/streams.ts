/**
 * @module Reads stats of one stream by hour and by day from the hourly counters of streams, which exist for the
 * reputation of streams: a time series costs no further write. Never reads an email or an event.
 */
import type { Database } from 'bun:sqlite'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { COUNTER_RETENTION_DAYS } from '#features/core/events/purge.ts'
import { type StreamCounter, toStreamMetric } from '#features/setup/streams/reputation.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { createParameterError, formatDay, type Period } from './period.ts'

const COUNTERS = {
  sent: 'sent',
  delivered: 'delivered',
  bounced: 'bounced',
  complaints: 'complained',
} as const satisfies Readonly<Record<string, StreamCounter>>

/** The metrics that are counted by stream. */
export const STREAM_METRICS = Object.keys(COUNTERS) as readonly (keyof typeof COUNTERS)[]
export type StreamMetric = (typeof STREAM_METRICS)[number]

export const isStreamMetric = (metric: string): metric is StreamMetric => Object.hasOwn(COUNTERS, metric)

const sql = prepareStatements((db) => ({
  hours: db.prepare<{ key: number; value: number }, [number, string, number, number]>(
    'SELECT hour AS key, value FROM counters WHERE account_id = ? AND metric = ? AND hour BETWEEN ? AND ?',
  ),
  days: db.prepare<{ key: number; value: number }, [number, string, number, number]>(
    'SELECT hour / 24 AS key, sum(value) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour BETWEEN ? AND ? GROUP BY 1',
  ),
}))

export type StreamStats = Partial<Record<StreamMetric, number>>

/** Row id of a stream. Throws 400 when the account has none with this slug. */
export function requireStream(db: Database, accountId: number, slug: string): number {
  const id = findStreamId(db, accountId, slug)
  if (id === undefined)
    throw createParameterError(
      'stream',
      `There is no stream ${JSON.stringify(slug.slice(0, 63))} on this account; GET /v1/streams lists them.`,
    )
  return id
}

/** Throws 400 when the days of a period are older than the counters. */
export function requireCountedDays({ fromDay }: Period, now: Millis): void {
  const oldestDay = dayOf(now) - COUNTER_RETENTION_DAYS + 1
  if (fromDay < oldestDay)
    throw createParameterError(
      'from',
      `Stats of streams are stored for ${COUNTER_RETENTION_DAYS} days; from must not be before ${formatDay(oldestDay)}.`,
    )
}

interface StreamRange {
  readonly accountId: number
  readonly streamId: number
  readonly unit: 'hours' | 'days'
  /** Hours or days since the epoch, both included. */
  readonly from: number
  readonly to: number
}

/** The requested stats of each hour or day, in order; zeros without activity. A year of days: some 10 ms. */
export function readStreamStats(db: Database, range: StreamRange, metrics: readonly StreamMetric[]): StreamStats[] {
  const { accountId, streamId, unit, from, to } = range
  const found = Array.from({ length: Math.max(0, to - from + 1) }, () =>
    Object.fromEntries(metrics.map((metric) => [metric, 0])),
  ) as Record<StreamMetric, number>[]
  const [fromHour, toHour] = unit === 'hours' ? [from, to] : [from * 24, to * 24 + 23]
  for (const metric of metrics) {
    const counter = toStreamMetric(streamId, COUNTERS[metric])
    for (const { key, value } of sql(db)[unit].all(accountId, counter, fromHour, toHour)) {
      const stats = found[key - from]
      if (stats) stats[metric] += value
    }
  }
  return found
}
