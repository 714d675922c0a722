/** @module What the Overview reads from `/v1`. Live events refresh it, at most once in five seconds. */
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { AccountRecord } from '#features/core/accounts/model.ts'
import type { TimePoint } from '#features/reporting/analytics/model.ts'
import type { DeadLetterRecord } from '#features/sending/dead-letters/model.ts'
import type { EmailRow } from '#features/sending/emails/model.ts'
import type { ApiKeyRecord } from '#features/setup/api-keys/model.ts'
import type { DomainWire } from '#features/setup/domains/model.ts'
import type { WebhookRecord } from '#features/webhooks/webhooks/history/model.ts'
import { ApiError, get, type QueryValues } from '../../api/client.ts'
import { useLiveEvents } from '../../api/live.tsx'
import { hasDelivered } from './steps.ts'

const KEY = 'overview'
const REFRESH_MS = 5000
const MAX_ROWS = 100
/** The most dead letters that one page has. */
const MAX_DEAD_LETTERS = 200

function useRead<T>(path: string, query: QueryValues = {}): UseQueryResult<T> {
  return useQuery({
    queryKey: [KEY, path, query],
    queryFn: ({ signal }) => get<T>(path, query, signal),
  })
}

type SentEmails = { readonly data: readonly EmailRow[] }

/** Emails of status `sent`, until one of them was delivered: what it takes to know whether any was. */
const useSent = (): UseQueryResult<SentEmails> =>
  useQuery({
    queryKey: [KEY, 'sent'],
    queryFn: ({ signal }) => get<SentEmails>('/v1/emails', { status: 'sent', per_page: MAX_ROWS }, signal),
    enabled: ({ state }) => !state.data || !hasDelivered(state.data.data),
  })

export interface OverviewQueries {
  readonly account: UseQueryResult<{ readonly data: AccountRecord }>
  readonly domains: UseQueryResult<{ readonly data: readonly DomainWire[] }>
  /** 403 for roles that may not see keys. */
  readonly keys: UseQueryResult<{ readonly data: readonly ApiKeyRecord[] }>
  readonly sent: UseQueryResult<SentEmails>
  readonly webhooks: UseQueryResult<{ readonly data: readonly WebhookRecord[] }>
  readonly deadLetters: UseQueryResult<{ readonly data: readonly DeadLetterRecord[]; readonly total: number }>
}

export const useOverviewQueries = (): OverviewQueries => ({
  account: useRead('/v1/account'),
  domains: useRead('/v1/domains', { per_page: MAX_ROWS }),
  keys: useRead('/v1/api-keys'),
  sent: useSent(),
  webhooks: useRead('/v1/webhooks', { per_page: MAX_ROWS }),
  deadLetters: useRead('/v1/dead-letters', { count: MAX_DEAD_LETTERS }),
})

export const useTimeseries = (query: QueryValues): UseQueryResult<{ readonly data: readonly TimePoint[] }> =>
  useRead('/v1/analytics/timeseries', query)

export const isForbidden = (error: unknown): boolean => error instanceof ApiError && error.status === 403

/** Reads everything again after events, once for all that happen within the interval. */
export function useRefreshByEvents(): void {
  const queries = useQueryClient()
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  useLiveEvents(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      void queries.invalidateQueries({ queryKey: [KEY] })
    }, REFRESH_MS)
  })
}
