/** @module Queries and changes of domains. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { SendResponse } from '#features/sending/accept/model.ts'
import type { DomainWire, PublishedDnsWire, VerificationWire } from '#features/setup/domains/model.ts'
import { ApiError, request, requestData } from './client.ts'
import { usePage, useRecord, useStore } from './data.ts'
import { useLiveEvents } from './live.tsx'

/** While records are missing, DNS is checked this often. */
export const CHECK_INTERVAL_MS = 10_000

const domainKey = (id: string) => ['domains', 'one', id]
export const DOMAINS_KEY = ['domains', 'list']
export const dnsKey = (id: string) => ['domains', 'dns', id]

export const toDomainPath = (id: string, action = ''): string => `/v1/domains/${encodeURIComponent(id)}${action}`

export const useDomains = (page: number) => usePage<DomainWire>(DOMAINS_KEY, '/v1/domains', { page })

export const useDomain = (id: string) => useRecord<DomainWire>(domainKey(id), toDomainPath(id))

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
  useRecord<PublishedDnsWire>(dnsKey(id), toDomainPath(id, '/dns'), {
    staleTime: CHECK_INTERVAL_MS,
    refetchInterval: ({ state }) => {
      if (state.data && isDone(state.data) && state.error === null) return false
      const waitMs = state.error instanceof ApiError ? (state.error.retryAfter ?? 0) * 1000 : 0
      return Math.max(CHECK_INTERVAL_MS, waitMs)
    },
  })

/** Has the service check DNS and store the results, for the domain or for its tracking host. */
export const useVerify = (id: string) =>
  useStore(
    async ({ hasTracking }: { readonly hasTracking: boolean }): Promise<DomainWire> => {
      const { domain } = await requestData<VerificationWire>('POST', toDomainPath(id, '/verify'))
      return hasTracking ? requestData<DomainWire>('POST', toDomainPath(id, '/verify-tracking')) : domain
    },
    () => domainKey(id),
    DOMAINS_KEY,
  )

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
      queries.setQueryData(domainKey(data.id), data)
      queries.setQueryData(warningsKey(data.id), warnings ?? [])
      void queries.invalidateQueries({ queryKey: DOMAINS_KEY })
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

export const useChangeDomain = (id: string) =>
  useStore(
    (setting: DomainSetting) => requestData<DomainWire>(...toSettingRequest(id, setting)),
    () => domainKey(id),
    DOMAINS_KEY,
    dnsKey(id),
  )

function toSettingRequest(id: string, setting: DomainSetting): Parameters<typeof request> {
  if (setting.kind === 'inbound') return ['PATCH', toDomainPath(id), { body: { inbound_enabled: setting.isEnabled } }]
  if (setting.host === null) return ['DELETE', toDomainPath(id, '/tracking-domain')]
  return ['PUT', toDomainPath(id, '/tracking-domain'), { body: { tracking_domain: setting.host } }]
}

export const useSendTestEmail = (id: string) =>
  useMutation({
    mutationFn: () => requestData<SendResponse>('POST', toDomainPath(id, '/test-email'), { body: {} }),
  })

export const toZoneFileUrl = (id: string): string => toDomainPath(id, '/zone-file')
