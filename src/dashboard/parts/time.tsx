/** @module Times, all in one form and in the zone that the reader chose; the tooltip has UTC. */
import { getZone, useZone } from './zone.ts'

interface TimeProps {
  /** RFC 3339; null: a dash. */
  readonly iso: string | null
  /** Whether seconds matter, as in a log. */
  readonly hasSeconds?: boolean
  /** Whether it also says how long ago that was, or in how long it will be. */
  readonly isRelative?: boolean
}

export function Time({ iso, hasSeconds = false, isRelative = false }: TimeProps) {
  useZone()
  if (iso === null) return <>–</>
  const relative = formatRelative(iso)
  return (
    <time dateTime={iso} title={`${relative}\n${iso.slice(0, 19).replace('T', ' ')} UTC`}>
      {formatTime(iso, hasSeconds)}
      {isRelative && <span className="time-relative"> · {relative}</span>}
    </time>
  )
}

const HAS_12_HOURS = new Intl.DateTimeFormat(undefined, { hour: 'numeric' }).resolvedOptions().hour12 ?? false

/** `3:04 PM` today, else `28 Nov, 3:04 PM`, with the year if it is another one. */
export function formatTime(iso: string, hasSeconds = false): string {
  const timeZone = getZone()
  const at = new Date(iso)
  const clock = new Intl.DateTimeFormat(HAS_12_HOURS ? 'en-US' : 'en-GB', {
    timeZone,
    hour: HAS_12_HOURS ? 'numeric' : '2-digit',
    minute: '2-digit',
    ...(hasSeconds && { second: '2-digit' }),
  }).format(at)
  return formatDay(at) === formatDay(new Date()) ? clock : `${formatDay(at)}, ${clock}`
}

/** `28 Nov`, with the year if it is another one. */
export function formatDay(at: Date): string {
  const timeZone = getZone()
  const year = new Intl.DateTimeFormat('en-GB', { timeZone, year: 'numeric' })
  const isOther = year.format(at) !== year.format(new Date())
  return new Intl.DateTimeFormat('en-GB', {
    timeZone,
    day: 'numeric',
    month: 'short',
    ...(isOther && { year: 'numeric' }),
  }).format(at)
}

const UNITS = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const

/** `2 hours ago`, `in 3 days`, `just now`. */
export function formatRelative(iso: string): string {
  const seconds = (new Date(iso).getTime() - Date.now()) / 1000
  const [unit, length] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? []
  if (unit === undefined) return seconds > 0 ? 'in a moment' : 'just now'
  return new Intl.RelativeTimeFormat('en').format(Math.trunc(seconds / length), unit)
}
