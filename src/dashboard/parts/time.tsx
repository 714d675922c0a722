/** @module Times, all in one form and in the zone that the reader chose; the tooltip has UTC. */
import { formatRelative, formatTime } from './format.ts'
import { useZone } from './zone.ts'

interface TimeProps {
  /** RFC 3339; null: a dash. */
  readonly iso: string | null
  /** Whether seconds matter, as in a log. */
  readonly hasSeconds?: boolean
  /** Words around it, which come and go with it. */
  readonly before?: string
  readonly after?: string
  /** Whether it also says how long ago that was, or in how long it will be. */
  readonly isRelative?: boolean
}

export function Time({ iso, before, after, hasSeconds = false, isRelative = false }: TimeProps) {
  useZone()
  if (iso === null) return <>–</>
  const relative = formatRelative(iso)
  return (
    <>
      {before}
      <time dateTime={iso} title={`${relative}\n${iso.slice(0, 19).replace('T', ' ')} UTC`}>
        {formatTime(iso, hasSeconds)}
        {isRelative && <span className="time-relative"> · {relative}</span>}
      </time>
      {after}
    </>
  )
}
