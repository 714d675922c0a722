/** @module The list of captured mail, live, and its changes. */
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { CapturedEmail, CapturedEmailSummary } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { type PageOf, readAgain } from '../../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../../api/live.tsx'
import { type List, useList } from '../../parts/list.tsx'
import { CAPTURED_FILTERS } from '../filters.ts'

const REFRESH_INTERVAL_MS = 1000
/** All lists, and the number of unread emails. */
const LISTS = ['capturedEmails', 'list'] as const

export const useUnreadCount = () =>
  useQuery(read.capturedEmails.list({ unread: 'true', per_page: 1 })).data?.pagination.total

export function useInbox(): List<CapturedEmailSummary> {
  const queries = useQueryClient()
  const list = useList({
    read: read.capturedEmails.list,
    filters: CAPTURED_FILTERS,
    isSteady: true,
    path: '/sandbox',
  })
  const refreshSoon = useRefreshSoon(() => readAgain(queries, LISTS), REFRESH_INTERVAL_MS)
  useLiveEvents(({ event_type: type }) => {
    // Only these may come with a captured email.
    if (type === 'sent' || type === 'delivered') refreshSoon()
  })
  // An email that was read leaves the list of unread ones only when that is shown again.
  const toShown = (row: CapturedEmailSummary): CapturedEmailSummary => {
    const opened = queries.getQueryData<Detail>(read.capturedEmails.get(row.id).queryKey)
    return opened ? { ...row, read: opened.data.read } : row
  }
  return { ...list, page: list.page && { ...list.page, data: list.page.data.map(toShown) } }
}

interface Detail {
  readonly data: CapturedEmail
}

export function useMarkRead(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (isRead: boolean) => api.capturedEmails.update(id, { read: isRead }),
    onSuccess: ({ data }) => {
      storeRow(queries, data)
      // A list that was being read when the email was marked may still have it as it was.
      readAgain(queries, LISTS)
    },
  })
}

function storeRow(queries: QueryClient, row: CapturedEmailSummary): void {
  queries.setQueryData<Detail>(
    read.capturedEmails.get(row.id).queryKey,
    (before) => before && { data: { ...before.data, read: row.read } },
  )
  queries.setQueriesData<PageOf<CapturedEmailSummary>>(
    { queryKey: LISTS },
    (page) => page && { ...page, data: page.data.map((other) => (other.id === row.id ? row : other)) },
  )
}

export function useDeleteCaptured(id: string | undefined) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async () =>
      void (await (id === undefined ? api.capturedEmails.deleteAll() : api.capturedEmails.delete(id))),
    onSuccess: () => {
      // Otherwise the old rows would be shown until the list was read again.
      if (id === undefined)
        queries.setQueriesData<PageOf<CapturedEmailSummary>>(
          { queryKey: LISTS },
          (page) => page && { ...page, data: [] },
        )
      readAgain(queries, LISTS)
    },
  })
}
