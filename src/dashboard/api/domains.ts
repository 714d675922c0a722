/** @module Queries and changes of domains. */
import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query'
import type { SendResponse } from '#features/sending/accept/model.ts'
import type { DomainWire, PublishedDnsWire, VerificationWire } from '#features/setup/domains/model.ts'
import { ApiError, request, requestData } from './client.ts'
import { useLiveEvents } from './live.tsx'
import { usePage, useRecord } from './read.ts'

/** While records are missing, DNS is checked this often. */
export const CHECK_INTERVAL_MS = 10_000
const PAGE_SIZE = 50

const domainKey = (id: string) => ['domains', 'one', id]
const dnsKey = (id: string) => ['domains', 'dns', id]

const toPath = (id: string, action = ''): string => `/v1/domains/${encodeURIComponent(id)}${action}`

export const useDomains = (page: number) =>
  usePage<DomainWire>(['domains', 'list', page], '/v1/domains', { page, per_page: PAGE_SIZE })

export const useDomain = (id: string) => useRecord<DomainWire>(domainKey(id), toPath(id))

/** The domain for an example: a verified one if there is any. Undefined without a domain. */
export function useExampleDomain(): DomainWire | undefined {
  const { data } = useDomains(1)
  return data?.data.find(({ status }) => status === 'verified') ?? data?.data[0]
}

/** Returns a function that reads a domain again. */
export function useRefreshDomain(id: string): () => Promise<void> {
  const queries = useQueryClient()
  return () => queries.invalidateQueries({ queryKey: domainKey(id) })
}

/** Refreshes domains when an event reports that one of them lost or regained its records. */
export function useDomainEvents(): void {
  const queries = useQueryClient()
  useLiveEvents(({ type }) => {
    if (type.startsWith('domain.')) void queries.invalidateQueries({ queryKey: ['domains'] })
  })
}

/**
 * What DNS has now; read again every 10 seconds while the page is visible, until `isDone`. A 429 is respected.
 * @param isDone whether nothing more is to be waited for
 */
export const useDomainDns = (id: string, isDone: (dns: PublishedDnsWire) => boolean) =>
  useRecord<PublishedDnsWire>(dnsKey(id), toPath(id, '/dns'), {
    staleTime: CHECK_INTERVAL_MS,
    refetchInterval: ({ state }) => {
      if (state.data && isDone(state.data) && state.error === null) return false
      const waitMs = state.error instanceof ApiError ? (state.error.retryAfter ?? 0) * 1000 : 0
      return Math.max(CHECK_INTERVAL_MS, waitMs)
    },
  })

const storeDomain = (queries: QueryClient, domain: DomainWire): void => {
  queries.setQueryData(domainKey(domain.id), domain)
  void queries.invalidateQueries({ queryKey: ['domains', 'list'] })
}

/** Has the service check DNS and store the results, for the domain or for its tracking host. */
export function useVerify(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async ({ hasTracking }: { readonly hasTracking: boolean }): Promise<DomainWire> => {
      const { data } = await request<{ data: VerificationWire }>('POST', toPath(id, '/verify'))
      if (!hasTracking) return data.domain
      return await requestData<DomainWire>('POST', toPath(id, '/verify-tracking'))
    },
    onSuccess: (domain) => storeDomain(queries, domain),
  })
}

export interface CreatedDomain {
  readonly data: DomainWire
  readonly warnings?: readonly string[]
}

const warningsKey = (id: string) => ['domain-warnings', id]

export function useCreateDomain() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (domain: string) => request<CreatedDomain>('POST', '/v1/domains', { body: { domain } }),
    onSuccess: ({ data, warnings }) => {
      storeDomain(queries, data)
      queries.setQueryData(warningsKey(data.id), warnings ?? [])
    },
  })
}

/** What the service remarked on when the domain was registered a moment ago. */
export const useWarnings = (id: string): readonly string[] =>
  useQueryClient().getQueryData<readonly string[]>(warningsKey(id)) ?? []

/** A setting of a domain as `/v1` changes it. */
type DomainSetting =
  | { readonly kind: 'inbound'; readonly isEnabled: boolean }
  | { readonly kind: 'tracking'; readonly host: string | null }

export function useChangeDomain(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (setting: DomainSetting): Promise<DomainWire> => {
      const { data } = await request<{ data: DomainWire }>(...toSettingRequest(id, setting))
      return data
    },
    onSuccess: (domain) => {
      storeDomain(queries, domain)
      void queries.invalidateQueries({ queryKey: dnsKey(id) })
    },
  })
}

function toSettingRequest(id: string, setting: DomainSetting): Parameters<typeof request> {
  if (setting.kind === 'inbound') return ['PATCH', toPath(id), { body: { inbound_enabled: setting.isEnabled } }]
  if (setting.host === null) return ['DELETE', toPath(id, '/tracking-domain')]
  return ['PUT', toPath(id, '/tracking-domain'), { body: { tracking_domain: setting.host } }]
}

export function useDeleteDomain(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => request<void>('DELETE', toPath(id)),
    onSuccess: () => {
      queries.removeQueries({ queryKey: dnsKey(id) })
      void queries.invalidateQueries({ queryKey: ['domains', 'list'] })
    },
  })
}

export const useSendTestEmail = (id: string) =>
  useMutation({
    mutationFn: () => requestData<SendResponse>('POST', toPath(id, '/test-email'), { body: {} }),
  })

export const toZoneFileUrl = (id: string): string => toPath(id, '/zone-file')
