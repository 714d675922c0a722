/** @module Formats dates and times. Depends on its arguments only: templates have no "now". */
import { FilterError, MAX_NUMBER_LENGTH } from './filter-arguments.ts'
import type { Formatters } from './formatters.ts'

const MONTHS = 'January February March April May June July August September October November December'.split(' ')
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

/** Numbers below this are seconds since the epoch, up to the year 5138; larger numbers are milliseconds. */
const MAX_EPOCH_SECONDS = 1e11
/** 0001-01-01 and 9999-12-31. */
const FIRST_MS = -62_135_596_800_000
const LAST_MS = 253_402_300_799_999

const ISO =
  /^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)(?:[Tt ](?<hour>\d\d):(?<minute>\d\d)(?::(?<second>\d\d)(?:[.,](?<fraction>\d{1,9}))?)?\s?(?<zone>[Zz]|[+-]\d\d:?\d\d)?)?$/

interface Moment {
  /** Milliseconds since the epoch, UTC. */
  readonly at: number
  /** Offset of the zone in which the value was written. */
  readonly offsetMinutes: number
  /** A date without a time: the same day in every zone. */
  readonly isDay?: boolean
}

/** @param zone IANA name; undefined: the zone of the value itself, UTC for a number */
export function formatDate(
  value: unknown,
  format: string,
  zone: unknown,
  zones: Formatters<Intl.DateTimeFormat>,
): string {
  const moment = parseMoment(value)
  const offsetMinutes = zone === undefined ? moment.offsetMinutes : findOffset(zone, moment.at, zones)
  // A date whose UTC fields hold the local time in the zone.
  const local = new Date(moment.at + (moment.isDay ? 0 : offsetMinutes * 60_000))
  const padTwo = (number: number): string => String(number).padStart(2, '0')
  const hour12 = local.getUTCHours() % 12 || 12
  const yearStart = Date.UTC(local.getUTCFullYear(), 0, 1)
  return format.replace(/%(-?)([\s\S]?)/g, (found, dash: string, letter: string) => {
    const number = (of: number): string => (dash ? String(of) : padTwo(of))
    switch (letter) {
      case 'Y':
        return String(local.getUTCFullYear()).padStart(4, '0')
      case 'y':
        return padTwo(local.getUTCFullYear() % 100)
      case 'm':
        return number(local.getUTCMonth() + 1)
      case 'd':
        return number(local.getUTCDate())
      case 'e':
        return String(local.getUTCDate()).padStart(dash ? 0 : 2, ' ')
      case 'H':
        return number(local.getUTCHours())
      case 'I':
        return number(hour12)
      case 'M':
        return number(local.getUTCMinutes())
      case 'S':
        return number(local.getUTCSeconds())
      case 'p':
        return local.getUTCHours() < 12 ? 'AM' : 'PM'
      case 'B':
        return MONTHS[local.getUTCMonth()] ?? ''
      case 'b':
        return (MONTHS[local.getUTCMonth()] ?? '').slice(0, 3)
      case 'A':
        return WEEKDAYS[local.getUTCDay()] ?? ''
      case 'a':
        return (WEEKDAYS[local.getUTCDay()] ?? '').slice(0, 3)
      case 'j':
        return String(Math.floor((local.getTime() - yearStart) / 86_400_000) + 1).padStart(dash ? 0 : 3, '0')
      case 'z':
        return `${offsetMinutes < 0 ? '-' : '+'}${padTwo(Math.floor(Math.abs(offsetMinutes) / 60))}${padTwo(Math.abs(offsetMinutes) % 60)}`
      case '%':
        return '%'
      default:
        throw new FilterError(`does not know "${found}" in its format`)
    }
  })
}

function parseMoment(value: unknown): Moment {
  const given = typeof value === 'bigint' ? Number(value) : value
  if (typeof given === 'number') {
    const at = Math.trunc(Math.abs(given) < MAX_EPOCH_SECONDS ? given * 1000 : given)
    return requireInRange({ at, offsetMinutes: 0 })
  }
  const isDate = typeof given === 'string' && given.length <= MAX_NUMBER_LENGTH
  const fields = isDate ? ISO.exec(given.trim())?.groups : undefined
  if (!fields) throw new FilterError('needs a date such as 2026-05-31 or 2026-05-31T10:00:00Z, or seconds since 1970')
  const part = (name: string): number => Number(fields[name] ?? 0)
  const local = new Date(0)
  // Date.UTC is not used, because it moves the years up to 99 to another century.
  local.setUTCFullYear(part('year'), part('month') - 1, part('day'))
  const isRealDay = local.getUTCMonth() === part('month') - 1 && local.getUTCDate() === part('day')
  if (!isRealDay || part('hour') > 23 || part('minute') > 59 || part('second') > 59)
    throw new FilterError('needs a date and time that exist')
  local.setUTCHours(
    part('hour'),
    part('minute'),
    part('second'),
    Number((fields['fraction'] ?? '').slice(0, 3).padEnd(3, '0')),
  )
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(fields['zone'] ?? '') ?? []
  const offsetMinutes = (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0))
  const isDay = fields['hour'] === undefined
  return requireInRange({ at: local.getTime() - offsetMinutes * 60_000, offsetMinutes, isDay })
}

function requireInRange(moment: Moment): Moment {
  if (!(moment.at >= FIRST_MS && moment.at <= LAST_MS)) throw new FilterError('needs a date in the years 1 to 9999')
  return moment
}

function findOffset(zone: unknown, at: number, zones: Formatters<Intl.DateTimeFormat>): number {
  if (typeof zone !== 'string' || zone === '' || zone.length > 64)
    throw new FilterError('needs a timezone such as "Europe/Berlin"')
  const formatter = zones.of(zone, () => {
    try {
      return new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' })
    } catch {
      throw new FilterError(`does not know the timezone "${zone}"`)
    }
  })
  const name = formatter.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const [, sign, hours = '0', minutes = '0'] = /^GMT(?:([+-])(\d\d):(\d\d)(?::\d\d)?)?$/.exec(name) ?? []
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes))
}
