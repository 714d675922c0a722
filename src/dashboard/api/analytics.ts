/** @module Queries of stats and of insight reports. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { DomainRecord, Overview, TimePoint } from '#features/reporting/analytics/model.ts'
import type { PeriodRecord } from '#features/reporting/analytics/period.ts'
import type { InsightRecord } from '#features/reporting/insights/model.ts'
import type { StreamDetail, StreamRecord } from '#features/setup/streams/model.ts'
import { get, type QueryValues, request } from './client.ts'
import { useChange, usePage, useRecord } from './data.ts'

interface PeriodBody<T> {
  readonly data: T
  readonly period: PeriodRecord
}

export const ANALYTICS_KEY = ['analytics']

const useStats = <T>(name: string, query: QueryValues, isEnabled = true) =>
  useQuery({
    queryKey: [...ANALYTICS_KEY, name, query],
    queryFn: ({ signal }) => get<PeriodBody<T>>(`/v1/analytics/${name}`, query, signal),
    placeholderData: keepPreviousData,
    enabled: isEnabled,
  })

export const useTimeseries = (query: QueryValues) => useStats<readonly TimePoint[]>('timeseries', query)
export const useOverview = (query: QueryValues, isEnabled: boolean) => useStats<Overview>('overview', query, isEnabled)
export const useRecipientDomains = (query: QueryValues) => useStats<readonly DomainRecord[]>('domains', query)

const MAX_STREAMS = 100

export const useStreams = () =>
  useQuery({
    queryKey: ['streams'],
    queryFn: ({ signal }) => get<{ data: StreamRecord[] }>('/v1/streams', { per_page: MAX_STREAMS }, signal),
    staleTime: 300_000,
  })

/** A stream with its reputation over the last 30 days. @param id undefined: none */
export const useStream = (id: string | undefined) =>
  useRecord<StreamDetail>([...ANALYTICS_KEY, 'stream', id], `/v1/streams/${encodeURIComponent(id ?? '')}`, {
    enabled: id !== undefined,
  })

const INSIGHTS_KEY = ['insights']
const REPORTS_PER_PAGE = 10

/** @param isAllowed whether the role may see reports */
export const useInsights = (page: number, isAllowed: boolean) =>
  usePage<InsightRecord>(INSIGHTS_KEY, '/v1/insights', { page, per_page: REPORTS_PER_PAGE }, { enabled: isAllowed })

export const useGenerateInsight = () =>
  useChange(() => request<InsightRecord>('POST', '/v1/insights/generate'), INSIGHTS_KEY)

export const useAcknowledgeInsight = (id: string) =>
  useChange(() => request<void>('POST', `/v1/insights/${encodeURIComponent(id)}/acknowledge`), INSIGHTS_KEY)
