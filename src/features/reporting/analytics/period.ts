/** @module Parses the period of a query: `period`, or `from` and `to`, in UTC. */
import { type Static, Type } from '@sinclair/typebox'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { Text } from '#platform/http/schemas.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'

const PERIODS = { '7d': 7, '30d': 30, '90d': 90 } as const
type PeriodName = keyof typeof PERIODS
const PERIOD_NAMES = Object.keys(PERIODS) as PeriodName[]
const DEFAULT_PERIOD: PeriodName = '30d'

export const MAX_PERIOD_DAYS = 366

/** Whole days, both ends included. */
export interface Period {
  /** Days since the epoch, UTC. */
  readonly fromDay: number
  readonly toDay: number
  /** `custom`: set by `from` and `to`. */
  readonly name: PeriodName | 'custom'
}

/** Query fields of a period; spread into a query schema. */
export const PERIOD_FIELDS = {
  period: Type.Optional(
    Text(
      `${PERIOD_NAMES.join(', ')}: the days up to today (UTC). Default: ${DEFAULT_PERIOD}; ignored when from and to are set.`,
    ),
  ),
  from: Type.Optional(Text('First day, YYYY-MM-DD in UTC. Requires to.')),
  to: Type.Optional(Text(`Last day, YYYY-MM-DD in UTC. The period has at most ${MAX_PERIOD_DAYS} days.`)),
}

export const PeriodQuery = Type.Object(PERIOD_FIELDS)
type PeriodQuery = Static<typeof PeriodQuery>

/** The period in responses. */
export const PeriodRecord = Type.Object(
  {
    from: Text('First day, YYYY-MM-DD.'),
    to: Text('Last day, YYYY-MM-DD.'),
    period: Text(`${PERIOD_NAMES.join(', ')}, or custom when from and to were set.`),
  },
  { description: 'Period of the stats.' },
)
export type PeriodRecord = Static<typeof PeriodRecord>

/** A 400 for an invalid parameter. */
export const createParameterError = (field: string, message: string): AppError =>
  new AppError(400, 'invalid_parameter', message, { details: [{ field, message }] })

/** The `length` days that end today. */
export const createLastDays = (now: Millis, length: number): Period => ({
  fromDay: dayOf(now) - length + 1,
  toDay: dayOf(now),
  name: 'custom',
})

/** Parses the period of a query. Throws 400. */
export function parsePeriod({ period, from, to }: PeriodQuery, now: Millis): Period {
  if (from !== undefined || to !== undefined) return parseRange(from, to)
  const name = period ?? DEFAULT_PERIOD
  if (!isPeriodName(name))
    throw createParameterError(
      'period',
      `period must be one of ${PERIOD_NAMES.join(', ')}; for other days set from and to as YYYY-MM-DD.`,
    )
  return { ...createLastDays(now, PERIODS[name]), name }
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

export const toPeriodWire = ({ fromDay, toDay, name }: Period): PeriodRecord => ({
  from: formatDay(fromDay),
  to: formatDay(toDay),
  period: name,
})
