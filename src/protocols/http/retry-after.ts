/** @module The header field Retry-After (RFC 9110 §10.2.3). Pure. */

/**
 * Milliseconds to wait by the value of the field, seconds or a date; undefined without a valid one.
 * @param now wall clock in ms since the epoch
 */
export function parseRetryAfter(field: string | null | undefined, now: number): number | undefined {
  const value = field?.trim() ?? ''
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000
  const at = value === '' ? Number.NaN : Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(at - now, 0)
}
