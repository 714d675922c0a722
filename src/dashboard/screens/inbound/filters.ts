/** @module The filters of received mail: in the URL, and as `/v1` takes them. */
import { readKnown, readTexts, type Search } from '../../parts/search.ts'

/** States of a delivery to the webhook of a route, by which its list can be filtered. */
export const DELIVERY_STATES = ['pending', 'delivered', 'undeliverable'] as const

export const INBOUND_TABS = ['html', 'text', 'headers', 'source'] as const
export type InboundTab = (typeof INBOUND_TABS)[number]

/** All optional. `domain` and `route` are ids. */
export interface InboundFilters {
  readonly from?: string
  readonly status?: (typeof INBOUND_STATUS_FILTERS)[number]
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

const MAX_ADDRESS_LENGTH = 320

export const parseInboundFilters = (search: Search) =>
  readTexts(
    search,
    INBOUND_FILTER_NAMES,
    (name, text) => (name === 'status' ? readKnown<string>(INBOUND_STATUS_FILTERS, text) !== undefined : true),
    MAX_ADDRESS_LENGTH,
  ) as InboundFilters

export const toInboundQuery = ({ from, status, domain, route }: InboundFilters) => ({
  from,
  status,
  domain_id: domain,
  route_id: route,
})
