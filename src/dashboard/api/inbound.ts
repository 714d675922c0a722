/** @module Queries of received mail, its routes, and agent mailboxes. */
import { useQuery } from '@tanstack/react-query'
import type { InboundDetail, InboundRecord } from '#features/receiving/inbound/api/model.ts'
import type { DomainWire } from '#features/setup/domains/model.ts'
import type { RouteDelivery, RouteRecord } from '#features/webhooks/inbound-routes/model.ts'
import { get, type PageOf, type QueryValues } from './client.ts'
import { useAll, usePage, useRecord } from './data.ts'

/** Mail without a route has no event, so the list is also read again after this time. */
const REFRESH_MS = 30_000
const MAX_PER_PAGE = 100

export const inboundPath = (id: string, rest = ''): string => `/v1/inbound/${encodeURIComponent(id)}${rest}`
export const routePath = (id: string, rest = ''): string => `/v1/inbound-routes/${encodeURIComponent(id)}${rest}`
export const mailboxPath = (id: string, rest = ''): string => `/v1/agent-mailboxes/${encodeURIComponent(id)}${rest}`

export const useInbound = (values: QueryValues, isFirstPage: boolean) =>
  usePage<InboundRecord>(['inbound', 'list'], '/v1/inbound', values, {
    refetchInterval: isFirstPage ? REFRESH_MS : false,
  })

export const useInboundEmail = (id: string) => useRecord<InboundDetail>(['inbound', 'one', id], inboundPath(id))

export const useInboundDeliveries = (id: string, isWaiting: (deliveries: readonly RouteDelivery[]) => boolean) =>
  useQuery({
    queryKey: ['inbound', 'deliveries', id],
    queryFn: ({ signal }) =>
      get<PageOf<RouteDelivery>>(inboundPath(id, '/deliveries'), { per_page: MAX_PER_PAGE }, signal),
    // An attempt has no event.
    refetchInterval: ({ state }) => (state.data && isWaiting(state.data.data) ? 5000 : false),
  })

export const useAllDomains = () => useAll<DomainWire>(['domains', 'all'], '/v1/domains', { staleTime: 60_000 })

export const useAllRoutes = () =>
  useAll<RouteRecord>(['inbound-routes', 'all'], '/v1/inbound-routes', { staleTime: 60_000 })
