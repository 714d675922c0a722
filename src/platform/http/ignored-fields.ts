/**
 * @module The response header `Tassis-Ignored`: names what a request contained without effect, for programs that
 * migrate.
 */

const HEADER = 'tassis-ignored'
const MAX_NAMES = 20
const MAX_NAME_LENGTH = 60
/** Stands for the names after the first ones. */
const MORE = '...'

/** Names ignored fields in the headers of a response, beside those that were named before. */
export function setIgnored(headers: Record<string, string | number>, names: Iterable<string>): void {
  const shown = new Set(String(headers[HEADER] ?? '').split(', '))
  shown.delete('')
  for (const name of names) {
    if (shown.size >= MAX_NAMES) {
      shown.add(MORE)
      break
    }
    // Names come from clients: only printable ASCII, without the comma, which parts them (RFC 9110 §5.6.1).
    shown.add(name.slice(0, MAX_NAME_LENGTH).replace(/[^!-+\--~]/g, '?') || '?')
  }
  if (shown.size > 0) headers[HEADER] = [...shown].join(', ')
}
