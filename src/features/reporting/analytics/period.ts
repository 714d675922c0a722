/** @module Parses the period of a query: `period`, or `from` and `to`, in days of a time zone. */
import { type Static, Type } from '@sinclair/typebox'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { COUNTER_RETENTION_DAYS } from '#features/core/events/purge.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { extra, Text, Timestamp } from '#platform/http/schemas.ts'
import { createDayOf, isTimeZone, listDayStarts, UTC } from '#platform/time/zones.ts'
import { days, hours, type Millis } from '#platform/units.ts'

const PERIODS = { '7d': 7, '30d': 30, '90d': 90 } as const
type PeriodName = keyof typeof PERIODS
const PERIOD_NAMES = Object.keys(PERIODS) as PeriodName[]
const DEFAULT_PERIOD: PeriodName = '30d'

export const MAX_PERIOD_DAYS = 366

/** Whole days, both ends included. */
export interface Period {
  /** Days since the epoch. */
  readonly fromDay: number
  readonly toDay: number
  /** IANA name of the zone of the days; undefined: UTC. */
  readonly zone?: string
  /** The day on which the account was created. */
  readonly since?: number
  /** `custom`: set by `from` and `to`. */
  readonly name: PeriodName | 'custom'
}

/** Query fields of a period; spread into a query schema. */
export const PERIOD_FIELDS = {
  period: Type.Optional(
    Text(
      `${PERIOD_NAMES.join(', ')}: the days up to today. Default: ${DEFAULT_PERIOD}; ignored when from and to are set.`,
    ),
  ),
  from: Type.Optional(Text('First day, YYYY-MM-DD. Requires to.')),
  to: Type.Optional(Text(`Last day, YYYY-MM-DD. The period has at most ${MAX_PERIOD_DAYS} days.`)),
}

export const TIME_ZONE_FIELD = {
  timezone: Type.Optional(
    Text(
      `Time zone of the days, an IANA name such as Europe/Berlin. Default: that of the account. Days of zones other than UTC are stored for ${COUNTER_RETENTION_DAYS} days.`,
    ),
  ),
}

export const PeriodQuery = Type.Object({ ...PERIOD_FIELDS, ...TIME_ZONE_FIELD })
type PeriodQuery = Static<typeof PeriodQuery>

/** The period in responses. */
export const PeriodRecord = Type.Object(
  {
    from: Text('First day, YYYY-MM-DD.'),
    to: Text('Last day, YYYY-MM-DD.'),
    period: Text(`${PERIOD_NAMES.join(', ')}, or custom when from and to were set.`),
    timezone: extra(Text('Time zone of the days.')),
    starts_at: extra(Timestamp({ description: 'When the first day begins, on a full hour of UTC.' })),
    ends_at: extra(Timestamp({ description: 'When the last day ends.' })),
    account_since: extra(Text('Day on which the account was created, YYYY-MM-DD; nothing was counted before.')),
  },
  { description: 'Period of the stats.' },
)
export type PeriodRecord = Static<typeof PeriodRecord>

/** A 400 for an invalid parameter. */
export const createParameterError = (field: string, message: string): AppError =>
  new AppError(400, 'invalid_parameter', message, { details: [{ field, message }] })

/** Throws 400 when the days of a period are older than the hourly counters. */
export function requireCounted({ fromDay, zone = UTC }: Period, now: Millis, what: string): void {
  const oldestDay = createDayOf(zone)(now) - COUNTER_RETENTION_DAYS + 1
  if (fromDay < oldestDay)
    throw createParameterError(
      'from',
      `${what} are stored for ${COUNTER_RETENTION_DAYS} days; from must not be before ${formatDay(oldestDay)}.`,
    )
}

/** Parses the period of a query, in the zone that it names, or that of the account. Throws 400. */
export function parsePeriod(
  { config, db, clock }: Pick<App, 'config' | 'db' | 'clock'>,
  accountId: number,
  query: PeriodQuery,
): Period {
  const account = getAccount(config, db, accountId)
  const zone = query.timezone ?? account.timezone
  if (!isTimeZone(zone))
    throw createParameterError('timezone', 'timezone must be the IANA name of a time zone, such as Europe/Berlin.')
  const dayOf = createDayOf(zone)
  const now = clock.now()
  const period = { ...parseDays(query, dayOf(now)), zone, since: dayOf(account.createdAt) }
  if (zone !== UTC) requireCounted(period, now, 'Days of other time zones than UTC')
  return period
}

/** The period of the same length before another. Throws 400 if it is not stored. */
export function toPreviousPeriod(period: Period, now: Millis): Period {
  const { fromDay, toDay, zone = UTC } = period
  const previous = { ...period, fromDay: 2 * fromDay - toDay - 1, toDay: fromDay - 1, name: 'custom' as const }
  if (zone !== UTC) requireCounted(previous, now, 'Days of other time zones than UTC')
  return previous
}

/** @param today the last day of a named period */
function parseDays({ period, from, to }: PeriodQuery, today: number): Period {
  if (from !== undefined || to !== undefined) return parseRange(from, to)
  const name = period ?? DEFAULT_PERIOD
  if (!isPeriodName(name))
    throw createParameterError(
      'period',
      `period must be one of ${PERIOD_NAMES.join(', ')}; for other days set from and to as YYYY-MM-DD.`,
    )
  return { fromDay: today - PERIODS[name] + 1, toDay: today, name }
}

const isPeriodName = (text: string): text is PeriodName => Object.hasOwn(PERIODS, text)

function parseRange(from: string | undefined, to: string | undefined): Period {
  if (from === undefined || to === undefined)
    throw createParameterError(
      from === undefined ? 'from' : 'to',
      'Set both from and to as YYYY-MM-DD, or only period.',
    )
  const [fromDay, toDay] = [parseDay('from', from), parseDay('to', to)]
  if (fromDay > toDay) throw createParameterError('from', 'from must not be later than to.')
  if (toDay - fromDay >= MAX_PERIOD_DAYS)
    throw createParameterError('to', `from and to must span at most ${MAX_PERIOD_DAYS} days, both included.`)
  return { fromDay, toDay, name: 'custom' }
}

function parseDay(field: 'from' | 'to', text: string): number {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
  // Date.parse reads 2026-02-30 as a day in March.
  if (Number.isNaN(at) || formatDay(dayOf(at)) !== text)
    throw createParameterError(field, `${field} must be a day as YYYY-MM-DD, such as 2026-01-31.`)
  return dayOf(at)
}

/** YYYY-MM-DD. */
export const formatDay = (day: number): string => isoTime(day * days(1)).slice(0, 10)

/** The hours since the epoch at which a period begins and ends. */
export function toHours({ fromDay, toDay, zone = UTC }: Period): readonly [from: number, end: number] {
  const [from = 0] = listDayStarts(zone, fromDay, fromDay)
  const [, end = 0] = listDayStarts(zone, toDay, toDay)
  return [from, end]
}

/** The last time that RFC 3339 can write. */
const MAX_TIME: Millis = Date.UTC(10_000, 0) - 1

export function toPeriodWire(period: Period): PeriodRecord {
  const { fromDay, toDay, name, zone = UTC, since = fromDay } = period
  const [start, end] = toHours(period)
  return {
    from: formatDay(fromDay),
    to: formatDay(toDay),
    period: name,
    timezone: zone,
    starts_at: isoTime(start * hours(1)),
    ends_at: isoTime(Math.min(end * hours(1), MAX_TIME)),
    account_since: formatDay(since),
  }
}
