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
  return format.replace(/%(-?)([\s\S]?)/g, (found, dash: string, letter: string) => {
    const [read, width = 2, fill = '0'] = NUMBERS[letter] ?? []
    const text = read ? String(read(local)).padStart(dash ? 0 : width, fill) : TEXTS[letter]?.(local, offsetMinutes)
    if (text === undefined) throw new FilterError(`does not know "${found}" in its format`)
    return text
  })
}

const padTwo = (number: number): string => String(number).padStart(2, '0')

/** A dash after the percent sign drops what fills the number. */
const NUMBERS: Readonly<Record<string, readonly [read: (local: Date) => number, width?: number, fill?: string]>> = {
  m: [(local) => local.getUTCMonth() + 1],
  d: [(local) => local.getUTCDate()],
  e: [(local) => local.getUTCDate(), 2, ' '],
  H: [(local) => local.getUTCHours()],
  I: [(local) => local.getUTCHours() % 12 || 12],
  M: [(local) => local.getUTCMinutes()],
  S: [(local) => local.getUTCSeconds()],
  j: [(local) => Math.floor((local.getTime() - Date.UTC(local.getUTCFullYear(), 0, 1)) / 86_400_000) + 1, 3],
}

const TEXTS: Readonly<Record<string, (local: Date, offsetMinutes: number) => string>> = {
  Y: (local) => String(local.getUTCFullYear()).padStart(4, '0'),
  y: (local) => padTwo(local.getUTCFullYear() % 100),
  p: (local) => (local.getUTCHours() < 12 ? 'AM' : 'PM'),
  B: (local) => MONTHS[local.getUTCMonth()] ?? '',
  b: (local) => (MONTHS[local.getUTCMonth()] ?? '').slice(0, 3),
  A: (local) => WEEKDAYS[local.getUTCDay()] ?? '',
  a: (local) => (WEEKDAYS[local.getUTCDay()] ?? '').slice(0, 3),
  z: (_, offset) =>
    `${offset < 0 ? '-' : '+'}${padTwo(Math.floor(Math.abs(offset) / 60))}${padTwo(Math.abs(offset) % 60)}`,
  '%': () => '%',
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
