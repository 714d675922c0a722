/** @module What the Overview reads from `/v1`. Live events refresh it, at most once in five seconds. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { TassisError } from '#client/client.ts'
import { read } from '../../api/client.ts'
import { readAgain } from '../../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../../api/live.tsx'
import { hasDelivered } from './steps.ts'

const REFRESH_MS = 5000
const MAX_ROWS = 100
/** The most dead letters that one page has. */
const MAX_DEAD_LETTERS = 200

export const useOverviewQueries = () => ({
  account: useQuery(read.account.get()),
  domains: useQuery(read.domains.list({ per_page: MAX_ROWS })),
  /** 403 for roles that may not see keys. */
  keys: useQuery(read.apiKeys.list()),
  /** Emails of status `sent`, until one of them was delivered: what it takes to know whether any was. */
  sent: useQuery({
    ...read.emails.list({ status: 'sent', per_page: MAX_ROWS }),
    enabled: ({ state }) => !state.data || !hasDelivered(state.data.data),
  }),
  webhooks: useQuery(read.webhooks.list({ per_page: MAX_ROWS })),
  deadLetters: useQuery(read.deadLetters.list({ count: MAX_DEAD_LETTERS })),
})

export const isForbidden = (error: unknown): boolean => error instanceof TassisError && error.status === 403

/** Reads everything again after events, once for all that happen within the interval. */
export function useRefreshByEvents(): void {
  const queries = useQueryClient()
  const refreshSoon = useRefreshSoon(
    () => readAgain(queries, 'account', 'domains', 'apiKeys', 'emails', 'webhooks', 'deadLetters', 'analytics'),
    REFRESH_MS,
  )
  useLiveEvents(refreshSoon)
}
