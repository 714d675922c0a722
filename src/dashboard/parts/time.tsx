/** @module Times in the reader's zone; the tooltip has UTC. */

const SHORT = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' })
const WITH_YEAR = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })

/** @param iso RFC 3339 time; null: a dash */
export function Time({ iso, isExact = false }: { readonly iso: string | null; readonly isExact?: boolean }) {
  if (iso === null) return <>–</>
  return (
    <time dateTime={iso} title={`${iso.slice(0, 19).replace('T', ' ')} UTC`}>
      {formatTime(iso, isExact)}
    </time>
  )
}

export function formatTime(iso: string, isExact = false): string {
  const at = new Date(iso)
  const now = new Date()
  if (at.toDateString() === now.toDateString()) return CLOCK.format(at)
  if (isExact || at.getFullYear() !== now.getFullYear()) return WITH_YEAR.format(at)
  return SHORT.format(at)
}
