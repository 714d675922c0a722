/**
 * @module Reads stats by hour from the hourly counters of events and of streams, which are counted in the transaction of
 * the change like the daily stats; `consistency.ts` compares both. Never reads an email or an event.
 */
import type { Database } from 'bun:sqlite'
import { toCapturedMetric } from '#features/core/events/captured.ts'
import type { DailyField } from '#features/core/events/daily-stats.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { prepareStatements } from '#platform/db/open.ts'

/** Fields with stats by hour. */
export type HourlyField = Exclude<DailyField, 'openedEmails' | 'clickedEmails'>

/** The counter of a field, and the counter of what must be subtracted. */
interface Source {
  readonly counter: string
  readonly captured?: string
}

/** Counters of streams exclude captured mail, counters of events include it. */
export const HOURLY_SOURCES: Readonly<Record<HourlyField, Source>> = {
  sent: { counter: toAccountMetric('sent') },
  delivered: { counter: toAccountMetric('delivered') },
  bounced: { counter: 'event:bounced', captured: toCapturedMetric('bounced') },
  opens: { counter: 'event:opened', captured: toCapturedMetric('opened') },
  clicks: { counter: 'event:clicked', captured: toCapturedMetric('clicked') },
  complaints: { counter: toAccountMetric('complained') },
  unsubscribes: { counter: 'event:unsubscribed', captured: toCapturedMetric('unsubscribed') },
}

const sql = prepareStatements((db) => ({
  hours: db.prepare<{ hour: number; value: number }, [number, string, number, number]>(
    'SELECT hour, value FROM counters WHERE account_id = ? AND metric = ? AND hour BETWEEN ? AND ?',
  ),
}))

export interface HourStats extends Partial<Record<HourlyField, number>> {
  /** Hours since the epoch. */
  readonly hour: number
}

/** The requested stats of each hour, in order; zeros for hours without activity. Some 2 ms for a week. */
export function readHours(
  db: Database,
  accountId: number,
  { fromHour, toHour }: { readonly fromHour: number; readonly toHour: number },
  fields: readonly HourlyField[],
): HourStats[] {
  const found = Array.from({ length: Math.max(0, toHour - fromHour + 1) }, (_, index) => ({
    hour: fromHour + index,
    ...Object.fromEntries(fields.map((field) => [field, 0])),
  })) as (HourStats & Record<HourlyField, number>)[]
  const add = (field: HourlyField, metric: string, sign: 1 | -1): void => {
    for (const { hour, value } of sql(db).hours.all(accountId, metric, fromHour, toHour)) {
      const stats = found[hour - fromHour]
      if (stats) stats[field] += sign * value
    }
  }
  for (const field of fields) {
    const { counter, captured } = HOURLY_SOURCES[field]
    add(field, counter, 1)
    if (captured !== undefined) add(field, captured, -1)
  }
  return found
}
