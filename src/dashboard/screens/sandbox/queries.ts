/** @module The list of captured mail, live, and its changes. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { CapturedEmail, CapturedEmailSummary } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { readAgain, useChange } from '../../api/data.ts'
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
    const opened = queries.getQueryData<{ readonly data: CapturedEmail }>(read.capturedEmails.get(row.id).queryKey)
    return opened ? { ...row, read: opened.data.read } : row
  }
  return { ...list, page: list.page && { ...list.page, data: list.page.data.map(toShown) } }
}

export function useMarkRead(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (isRead: boolean) => await api.capturedEmails.update(id, { read: isRead }),
    onSuccess: ({ data: { read: isRead } }) => {
      // The response is a summary, without the parts of the message.
      queries.setQueryData<{ readonly data: CapturedEmail }>(
        read.capturedEmails.get(id).queryKey,
        (before) => before && { data: { ...before.data, read: isRead } },
      )
      // A list that was being read when the email was marked may still have it as it was.
      readAgain(queries, LISTS)
    },
  })
}

export const useDeleteCaptured = (id: string | undefined) =>
  useChange<void>(() => (id === undefined ? api.capturedEmails.deleteAll() : api.capturedEmails.delete(id)), LISTS)
