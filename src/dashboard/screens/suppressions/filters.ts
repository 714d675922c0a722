/** @module The filters of the suppression list in the URL. */

export interface SuppressionFilters {
  readonly email?: string
  readonly reason?: string
}

const MAX_FILTER_LENGTH = 500

/** Reads the filters of a URL; what is not a filter is left out. */
export function parseSuppressionFilters(search: Readonly<Record<string, unknown>>): SuppressionFilters {
  const email = toText(search['email'])
  const reason = toText(search['reason'])
  return { ...(email && { email }), ...(reason && { reason }) }
}

/** The router reads a value such as 42 as a number. */
const toText = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value).trim().slice(0, MAX_FILTER_LENGTH)
    : ''
