/** @module Queries and changes of the operator's screens. */
import { keepPreviousData, type UseQueryResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { DoctorFindings, ServerHealth, SettingRecord } from '#app/status-model.ts'
import type { OperatorAccount } from '#features/core/accounts/model.ts'
import type { ServerDisk } from '#features/lifecycle/retention/disk-model.ts'
import type { OperatorComplaint } from '#features/receiving/complaints/model.ts'
import type { DomainReport, DomainReportDetail } from '#features/receiving/domain-reports/model.ts'
import type { ReceivedEntry, RetryResult, UnparsedMessage } from '#features/receiving/inbound/process/operator-model.ts'
import type { OperatorMailDetail, OperatorMailRecord } from '#features/receiving/postmaster/model.ts'
import type { Finding, OperatorAccountDetail, ResumeResult } from '#features/reporting/abuse/model.ts'
import type { DeliveryAlert, ServerProvider } from '#features/sending/delivery/control/operator-provider-model.ts'
import type {
  QueueChange,
  QueueLane,
  QueueRecipient,
  QueueRuleRecord,
  QueueSelection,
} from '#features/sending/delivery/control/operator-queue-model.ts'
import { ApiError, get, type PageOf, type QueryValues, request, requestData } from './client.ts'
import { useChange, useRecord } from './data.ts'

/** While a view is visible, it is read again this often. */
export const REFRESH_MS = 15_000
const PAGE_SIZE = 50
const KEY = 'server'

/** A refusal stays until something is done about it. */
const toInterval = ({ state }: { readonly state: { readonly error: Error | null } }): number | false =>
  state.error instanceof ApiError && state.error.status === 403 ? false : REFRESH_MS

/** A view of the service, refreshed while it is visible. */
function useView<T>(path: string, query: QueryValues = {}): UseQueryResult<T> {
  return useQuery({
    queryKey: [KEY, path, query],
    queryFn: ({ signal }) => get<T>(`/v1/operator/${path}`, query, signal),
    refetchInterval: toInterval,
    placeholderData: keepPreviousData,
  })
}

/** One thing, of which nothing of another is shown while it is loaded. */
function useOne<T>(path: string, isRefreshed = true): UseQueryResult<T> {
  return useRecord<T>([KEY, path], `/v1/operator/${path}`, { refetchInterval: isRefreshed && toInterval })
}

function usePage<Row>(path: string, page: number | undefined, query: QueryValues = {}) {
  return useView<PageOf<Row>>(path, { ...query, page: page ?? 1, per_page: PAGE_SIZE })
}

export const useHealth = () => useOne<ServerHealth>('health')
export const useDoctor = () => useOne<DoctorFindings>('doctor')
export const useDisk = () => useOne<ServerDisk>('disk')
export const useSettings = () => useOne<readonly SettingRecord[]>('settings')

export const useQueue = (filters: {
  readonly page?: number
  readonly domain?: string
  readonly account?: string
}): UseQueryResult<PageOf<QueueLane>> =>
  usePage('queue', filters.page, { domain: filters.domain, account_id: filters.account })

export const useLane = (lane: string) =>
  useView<{ readonly data: readonly QueueRecipient[] }>('queue/recipients', { lane })

export const useReceived = (page: number | undefined) => usePage<ReceivedEntry>('received', page)

export interface UnparsedPage {
  readonly data: readonly UnparsedMessage[]
  readonly next_after: string | null
}

export const useUnparsed = (after: string | undefined) => useView<UnparsedPage>('received/unparsed', { after })

export const useAccounts = (filters: { readonly page?: number; readonly q?: string; readonly state?: string }) =>
  usePage<OperatorAccount>('accounts', filters.page, { q: filters.q, state: filters.state })

const toAccountPath = (id: string): string => `accounts/${encodeURIComponent(id)}`
export const useAccount = (id: string) => useOne<OperatorAccountDetail>(toAccountPath(id))

interface OfAccount {
  readonly page?: number
  readonly account?: string
}
export const useFindings = ({ page, account }: OfAccount) => usePage<Finding>('findings', page, { account_id: account })
export const useComplaints = ({ page, account }: OfAccount) =>
  usePage<OperatorComplaint>('complaints', page, { account_id: account })

export const useReports = ({ page, domain }: { readonly page?: number; readonly domain?: string }) =>
  usePage<DomainReport>('reports', page, { domain })
export const useReport = (id: string) => useOne<DomainReportDetail>(`reports/${encodeURIComponent(id)}`, false)

export const useOperatorMail = ({ page, kind }: { readonly page?: number; readonly kind?: string }) =>
  usePage<OperatorMailRecord>('mail', page, { kind })
const toMailPath = (id: string): string => `mail/${encodeURIComponent(id)}`
export const useMessage = (id: string) => useOne<OperatorMailDetail>(toMailPath(id), false)

/** What an operator names in the queue: mail that matches every field. */
export interface QueueSelector {
  readonly domain?: string | undefined
  readonly provider?: string | undefined
  readonly account_id?: string | undefined
  readonly email_id?: string | undefined
}

export type QueueAction = 'hold' | 'release' | 'retry' | 'bounce' | 'drop'

export const useQueueRules = () => useOne<readonly QueueRuleRecord[]>('queue/rules')
export const useAlerts = () => useView<PageOf<DeliveryAlert>>('alerts')
export const useProviders = (page: number | undefined) => usePage<ServerProvider>('providers', page)

/** How much mail matches; read once, when a dialog opens. */
export const useSelection = (selector: QueueSelector): UseQueryResult<QueueSelection> =>
  useRecord<QueueSelection>([KEY, 'selection', selector], '/v1/operator/queue/selection', {
    query: { ...selector },
    gcTime: 0,
  })

export type QueueResult = Omit<QueueChange, 'next_cursor'>

/** Changes all that matches: each request changes a limited number. */
async function changeQueue(
  action: 'retry' | 'bounce' | 'drop',
  selector: QueueSelector,
  reason: string,
): Promise<QueueResult> {
  const sum = { changed: 0, in_delivery: 0, held: 0 }
  const suspended = new Set<string>()
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const body = { ...selector, ...(action === 'bounce' && { reason }), ...(cursor !== undefined && { cursor }) }
    const { data } = await request<{ data: QueueChange }>('POST', `/v1/operator/queue/${action}`, { body })
    sum.changed += data.changed
    sum.in_delivery += data.in_delivery
    sum.held += data.held
    for (const name of data.suspended) suspended.add(name)
    cursor = data.next_cursor
  }
  return { ...sum, suspended: [...suspended] }
}

/** Resolves with how much mail was changed, or is held; for a release, with how many rules ended. */
export const useQueueAction = (action: QueueAction, selector: QueueSelector) =>
  useAction(async (reason: string): Promise<QueueResult> => {
    const none = { in_delivery: 0, held: 0, suspended: [] }
    if (action === 'release') {
      const path = '/v1/operator/queue/release'
      const { data } = await request<{ data: readonly unknown[] }>('POST', path, { body: selector })
      return { ...none, changed: data.length }
    }
    if (action !== 'hold') return changeQueue(action, selector, reason)
    const body = { ...selector, reason }
    const { data } = await request<{ data: QueueSelection }>('POST', '/v1/operator/queue/hold', { body })
    return { ...none, changed: data.waiting, in_delivery: data.in_delivery }
  })

export const useResumeProvider = (name: string) =>
  useAction(() => request<unknown>('POST', `/v1/operator/providers/${encodeURIComponent(name)}/resume`))

/** An action; afterwards all views are read again. */
const useAction = <Input, Output>(run: (input: Input) => Promise<Output>) => useChange(run, [KEY])

export const usePauseAccount = (id: string) =>
  useAction((reason: string) =>
    request<unknown>('POST', `/v1/operator/${toAccountPath(id)}/pause`, { body: { reason } }),
  )

export const useResumeAccount = (id: string) =>
  useAction(() => requestData<ResumeResult>('POST', `/v1/operator/${toAccountPath(id)}/resume`))

export const useRetryUnparsed = () =>
  useAction((id: string) =>
    requestData<RetryResult>('POST', `/v1/operator/received/unparsed/${encodeURIComponent(id)}/retry`),
  )

/** Takes a message out of the list, which is then loaded again. */
export function useMailAction(id: string, action: 'retry' | 'delete') {
  const queries = useQueryClient()
  const path = `/v1/operator/${toMailPath(id)}`
  return useMutation({
    mutationFn: () => (action === 'retry' ? request<void>('POST', `${path}/retry`) : request<void>('DELETE', path)),
    onSuccess: () => queries.removeQueries({ queryKey: [KEY, 'mail'] }),
  })
}
