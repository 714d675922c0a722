/** @module Queries and changes of captured mail. */
import { type QueryClient, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { CapturedDetail, CapturedRow, LinkCheck } from '#features/sending/capture/model.ts'
import { get, type PageOf, type QueryValues, request } from './client.ts'
import { useLiveEvents } from './live.tsx'
import { usePage, useRecord } from './read.ts'
import { useRefreshSoon } from './refresh-soon.ts'

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

interface Shown {
  readonly key: string
  readonly page: PageOf<CapturedRow>
}

/**
 * The list of captured mail, which never jumps: new emails are counted until `showNew`.
 * @param values parameters of `GET /v1/captured-emails`
 */
export function useInbox(values: QueryValues) {
  const queries = useQueryClient()
  const key = JSON.stringify(values)
  const query = usePage<CapturedRow>([...LIST_KEY, key], '/v1/captured-emails', { ...values, per_page: PAGE_SIZE })
  const [shown, setShown] = useState<Shown>()
  const latest = query.isPlaceholderData ? undefined : query.data
  const current = shown?.key === key ? shown : undefined
  if (latest && (!current || current.page.data.length === 0) && current?.page !== latest)
    setShown({ key, page: latest })
  const refreshSoon = useRefreshSoon(() => {
    void queries.invalidateQueries({ queryKey: LIST_KEY })
    void queries.invalidateQueries({ queryKey: UNREAD_KEY })
  }, REFRESH_INTERVAL_MS)
  useLiveEvents(({ event_type: type }) => {
    // Only these may come with a captured email.
    if (type === 'sent' || type === 'delivered') refreshSoon()
  })
  const show = (page: PageOf<CapturedRow> | undefined) => page && setShown({ key, page })
  const rows = current?.page.data ?? latest?.data ?? query.data?.data
  const newest = rows?.[0]?.received_at ?? ''
  const newCount =
    current && latest
      ? latest.data.filter(({ id, received_at: at }) => at >= newest && !current.page.data.some((row) => row.id === id))
          .length
      : 0
  const latestById = new Map(latest?.data.map((row) => [row.id, row]))
  return {
    query,
    rows: rows?.map((row) => {
      const newest = latestById.get(row.id)
      if (newest) return newest
      // An email that was read leaves the list of unread ones only when that is shown again.
      const opened = queries.getQueryData<CapturedDetail>(detailKey(row.id))
      return opened ? { ...row, read: opened.read } : row
    }),
    pagination: (latest ?? query.data)?.pagination,
    newCount,
    /** Whether there may be more new emails than were counted. */
    hasMoreNew: newCount > 0 && newCount === latest?.data.length,
    showNew: () => show(latest),
    /** Removes an email that was deleted from the rows. */
    drop: (id: string) => current && show({ ...current.page, data: current.page.data.filter((row) => row.id !== id) }),
    /** Shows the list as it is now, after all was deleted. */
    reset: () => setShown(undefined),
  }
}

/** Marks an email as read or unread. */
export function useMarkRead() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async ({ id, isRead }: { readonly id: string; readonly isRead: boolean }) =>
      (await request<{ data: CapturedRow }>('PATCH', toPath(id), { body: { read: isRead } })).data,
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
    mutationFn: async () => (await request<{ data: LinkCheck }>('POST', toPath(id, '/check-links'))).data,
  })

export const toAttachmentUrl = (id: string, number: number): string => toPath(id, `/attachments/${number}`)
