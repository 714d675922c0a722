/** @module Queries and changes of captured mail. */
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type { CapturedDetail, CapturedRow, LinkCheck } from '#features/sending/capture/model.ts'
import { useLiveRows } from '../parts/rows.ts'
import { get, type PageOf, type QueryValues, request, requestData } from './client.ts'
import { usePage, useRecord } from './data.ts'
import { useLiveEvents, useRefreshSoon } from './live.tsx'

const PAGE_SIZE = 50
const REFRESH_INTERVAL_MS = 1000
const LIST_KEY = ['captured', 'list']
const UNREAD_KEY = ['captured', 'unread']

const toPath = (id: string, action = ''): string => `/v1/captured-emails/${encodeURIComponent(id)}${action}`
const detailKey = (id: string) => ['captured', 'one', id]

export const useCaptured = (id: string) => useRecord<CapturedDetail>(detailKey(id), toPath(id), { staleTime: 300_000 })

/** The message as it would have been sent. */
export const useCapturedSource = (id: string) =>
  useQuery({
    queryKey: ['captured', 'source', id],
    queryFn: async ({ signal }) =>
      (await get<{ data: { raw: string } }>(`/v1/emails/${encodeURIComponent(id)}/captured`, {}, signal)).data.raw,
    staleTime: 300_000,
  })

export const useUnreadCount = () =>
  useQuery({
    queryKey: UNREAD_KEY,
    queryFn: async ({ signal }) =>
      (await get<PageOf<CapturedRow>>('/v1/captured-emails', { unread: true, per_page: 1 }, signal)).pagination.total,
  })

/**
 * The list of captured mail, live.
 * @param values parameters of `GET /v1/captured-emails`
 */
export function useInbox(values: QueryValues) {
  const queries = useQueryClient()
  const key = JSON.stringify(values)
  const query = usePage<CapturedRow>([...LIST_KEY, key], '/v1/captured-emails', { ...values, per_page: PAGE_SIZE })
  const list = useLiveRows(query, key, ({ received_at: at }) => at)
  const refreshSoon = useRefreshSoon(() => {
    void queries.invalidateQueries({ queryKey: LIST_KEY })
    void queries.invalidateQueries({ queryKey: UNREAD_KEY })
  }, REFRESH_INTERVAL_MS)
  useLiveEvents(({ event_type: type }) => {
    // Only these may come with a captured email.
    if (type === 'sent' || type === 'delivered') refreshSoon()
  })
  // An email that was read leaves the list of unread ones only when that is shown again.
  const rows = list.page?.data.map((row) => {
    const opened = queries.getQueryData<CapturedDetail>(detailKey(row.id))
    return opened ? { ...row, read: opened.read } : row
  })
  return { ...list, query, rows }
}

/** Marks an email as read or unread. */
export function useMarkRead() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: ({ id, isRead }: { readonly id: string; readonly isRead: boolean }) =>
      requestData<CapturedRow>('PATCH', toPath(id), { body: { read: isRead } }),
    onSuccess: (row) => {
      storeRow(queries, row)
      // A list that was being read when the email was marked may still have it as it was.
      void queries.invalidateQueries({ queryKey: LIST_KEY })
      void queries.invalidateQueries({ queryKey: UNREAD_KEY })
    },
  })
}

function storeRow(queries: QueryClient, row: CapturedRow): void {
  queries.setQueryData<CapturedDetail>(detailKey(row.id), (before) => before && { ...before, read: row.read })
  queries.setQueriesData<PageOf<CapturedRow>>(
    { queryKey: LIST_KEY },
    (page) => page && { ...page, data: page.data.map((other) => (other.id === row.id ? row : other)) },
  )
}

/** Deletes one captured email, or all. */
export function useDeleteCaptured() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: ({ id }: { readonly id: string | undefined }) =>
      request<{ data: { deleted: number } } | undefined>(
        'DELETE',
        id === undefined ? '/v1/captured-emails' : toPath(id),
      ),
    onSuccess: (_, { id }) => {
      // Otherwise the old rows would be shown until the list was read again.
      if (id === undefined)
        queries.setQueriesData<PageOf<CapturedRow>>({ queryKey: LIST_KEY }, (page) => page && { ...page, data: [] })
      void queries.invalidateQueries({ queryKey: LIST_KEY })
      void queries.invalidateQueries({ queryKey: UNREAD_KEY })
    },
  })
}

export const useCheckLinks = (id: string) =>
  useMutation({
    mutationFn: () => requestData<LinkCheck>('POST', toPath(id, '/check-links')),
  })

export const toAttachmentUrl = (id: string, number: number): string => toPath(id, `/attachments/${number}`)
