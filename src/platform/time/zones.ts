/**
 * @module Days in a time zone, as the IANA database has them: with daylight saving time, a day has 23 or 25 hours. Days
 * begin on full hours of UTC, because stats are counted by such hours: in a zone of half or quarter hours, at the first
 * one after midnight.
 */
import { attempt } from '#platform/errors.ts'
import { hours, type Millis } from '../units.ts'

export const UTC = 'UTC'

const HOUR_MS = hours(1)
const HOURS_PER_DAY = 24
/** Zones are at most 14 hours ahead of UTC. */
const MAX_HOURS_AHEAD = 15
/** A day has at least one hour less than 24, or is skipped. */
const MIN_DAY_HOURS = 22
const MAX_NAME_LENGTH = 64

function createFormat(zone: string): Intl.DateTimeFormat | undefined {
  // Intl also takes offsets, which name no zone.
  if (zone.length > MAX_NAME_LENGTH || !/^[A-Za-z]/.test(zone)) return undefined
  return attempt(
    () => new Intl.DateTimeFormat('sv-SE', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' }),
  )
}

export const isTimeZone = (zone: string): boolean => createFormat(zone) !== undefined

/** Returns the function that returns the day of a time, in days since the epoch. Throws for an unknown zone. */
export function createDayOf(zone: string): (at: Millis) => number {
  if (zone === UTC) return (at) => Math.floor(at / (HOURS_PER_DAY * HOUR_MS))
  const format = createFormat(zone)
  if (!format) throw new Error(`unknown time zone ${zone}`)
  return (at) => Date.parse(`${format.format(at)}T00:00:00Z`) / (HOURS_PER_DAY * HOUR_MS)
}

/** The hours since the epoch at which the days of a range begin, and at which the last one ends. */
export function listDayStarts(zone: string, fromDay: number, toDay: number): number[] {
  const dayOf = createDayOf(zone)
  const starts: number[] = []
  for (let day = fromDay; day <= toDay + 1; day++) {
    const previous = starts.at(-1)
    let hour = previous === undefined ? day * HOURS_PER_DAY - MAX_HOURS_AHEAD : previous + MIN_DAY_HOURS
    while (dayOf(hour * HOUR_MS) < day) hour++
    // A skipped day begins where the one before ends.
    while (previous !== undefined && hour > previous && dayOf((hour - 1) * HOUR_MS) >= day) hour--
    starts.push(hour)
  }
  return starts
}
