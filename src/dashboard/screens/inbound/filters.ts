/** @module The filters of received mail: in the URL, and as `/v1` takes them. */

/** All optional. `domain` and `route` are ids. */
export interface InboundFilters {
  readonly from?: string
  readonly status?: string
  readonly domain?: string
  readonly route?: string
}

export type InboundFilterName = keyof InboundFilters

export const INBOUND_FILTER_NAMES = [
  'from',
  'status',
  'domain',
  'route',
] as const satisfies readonly InboundFilterName[]

export const INBOUND_STATUS_FILTERS = ['received', 'delivered', 'no_route', 'failed'] as const

const MAX_FILTER_LENGTH = 320

/** Reads the filters of a URL; what is not a filter is left out. */
export function parseInboundFilters(search: Readonly<Record<string, unknown>>): InboundFilters {
  return Object.fromEntries(
    INBOUND_FILTER_NAMES.flatMap((name) => {
      const value = search[name]
      // The router reads a value such as 42 as a number.
      const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
      if (typeof text !== 'string' || text.trim() === '') return []
      if (name === 'status' && !INBOUND_STATUS_FILTERS.some((status) => status === text)) return []
      return [[name, text.trim().slice(0, MAX_FILTER_LENGTH)]]
    }),
  )
}

/** The parameters of `GET /v1/inbound`. */
export const toInboundQuery = ({ from, status, domain, route }: InboundFilters) => ({
  from,
  status,
  domain_id: domain,
  route_id: route,
})
