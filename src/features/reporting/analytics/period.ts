/** @module The days that a question is about: `period`, or `from` and `to`, in UTC. */
import { type Static, Type } from '@sinclair/typebox'
import { dayOf } from '#features/core/events/daily-stats.ts'
import type { Millis } from '#platform/clock.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { days } from '#platform/units.ts'

/** Days of each period that has a name. */
const PERIODS = { '7d': 7, '30d': 30, '90d': 90 } as const
type PeriodName = keyof typeof PERIODS
const PERIOD_NAMES = Object.keys(PERIODS) as PeriodName[]
const DEFAULT_PERIOD: PeriodName = '30d'

export const MAX_PERIOD_DAYS = 366

/** Whole days, both included. */
export interface Period {
  /** Days since the epoch, UTC. */
  readonly fromDay: number
  readonly toDay: number
  /** `custom`: given by `from` and `to`. */
  readonly name: PeriodName | 'custom'
}

/** The query of a period; spread into a query schema. */
export const PERIOD_FIELDS = {
  period: Type.Optional(
    Type.String({
      description: `${PERIOD_NAMES.join(', ')}: so many days, of which today (UTC) is the last. ${DEFAULT_PERIOD} when left out; not read when from and to are given.`,
    }),
  ),
  from: Type.Optional(Type.String({ description: 'First day, YYYY-MM-DD in UTC. Together with to.' })),
  to: Type.Optional(
    Type.String({ description: `Last day, YYYY-MM-DD in UTC. At most ${MAX_PERIOD_DAYS} days from the first on.` }),
  ),
}

const PeriodQuery = Type.Object(PERIOD_FIELDS)
export type PeriodQuery = Static<typeof PeriodQuery>

/** What answers say of their period. */
export const PeriodRecord = Type.Object(
  {
    from: Type.String({ description: 'First day, YYYY-MM-DD.' }),
    to: Type.String({ description: 'Last day, YYYY-MM-DD.' }),
    period: Type.String({ description: `${PERIOD_NAMES.join(', ')}, or custom when from and to were given.` }),
  },
  { description: 'The days that the answer is about.' },
)
export type PeriodRecord = Static<typeof PeriodRecord>

/** The 400 for a parameter that cannot be read. */
export const createParameterError = (field: string, message: string): AppError =>
  new AppError(400, 'invalid_parameter', message, { details: [{ field, message }] })

/** The last `length` days, of which that of `now` is the last. */
export const createLastDays = (now: Millis, length: number): Period => ({
  fromDay: dayOf(now) - length + 1,
  toDay: dayOf(now),
  name: 'custom',
})

/** Reads the period of a query. Throws 400. */
export function parsePeriod({ period, from, to }: PeriodQuery, now: Millis): Period {
  if (from !== undefined || to !== undefined) return parseRange(from, to)
  const name = period ?? DEFAULT_PERIOD
  if (!isPeriodName(name))
    throw createParameterError(
      'period',
      `period must be one of ${PERIOD_NAMES.join(', ')}; for other days give from and to as YYYY-MM-DD.`,
    )
  return { ...createLastDays(now, PERIODS[name]), name }
}

const isPeriodName = (text: string): text is PeriodName => Object.hasOwn(PERIODS, text)

function parseRange(from: string | undefined, to: string | undefined): Period {
  if (from === undefined || to === undefined)
    throw createParameterError(
      from === undefined ? 'from' : 'to',
      'Give both from and to, as YYYY-MM-DD, or neither of them and a period.',
    )
  const [fromDay, toDay] = [parseDay('from', from), parseDay('to', to)]
  if (fromDay > toDay) throw createParameterError('from', 'from must not be later than to.')
  if (toDay - fromDay >= MAX_PERIOD_DAYS)
    throw createParameterError('to', `from and to are more than ${MAX_PERIOD_DAYS} days, both included; ask for fewer.`)
  return { fromDay, toDay, name: 'custom' }
}

function parseDay(field: 'from' | 'to', text: string): number {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
  // 2026-02-30 is read as a day in March.
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
