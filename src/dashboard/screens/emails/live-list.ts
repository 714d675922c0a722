/**
 * @module A list that never jumps: the rows shown stay where they are while their states are updated, and new rows are
 * counted until the reader asks for them.
 */
import { keepPreviousData, type UseQueryResult, useQuery } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import type { FeedEvent } from '#features/core/events/model.ts'
import type { EmailRow } from '#features/sending/emails/model.ts'
import { get, type PageOf, type QueryValues } from '../../api/client.ts'
import { useLiveEvents } from '../../api/live.tsx'

/** The first request after an event; a burst causes one request in each longer interval. */
const FIRST_REFRESH_MS = 400
const REFRESH_INTERVAL_MS = 5000

/** Calls `refresh` soon after the returned function was called, rarely during a burst, and only while the page is visible. */
export function useRefreshSoon(refresh: () => unknown, intervalMs = REFRESH_INTERVAL_MS): () => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const refreshedAt = useRef(Number.NEGATIVE_INFINITY)
  const latest = useRef(refresh)
  latest.current = refresh
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(() => {
    if (timer.current !== undefined) return
    const waitMs = Math.max(FIRST_REFRESH_MS, refreshedAt.current + intervalMs - performance.now())
    timer.current = setTimeout(() => {
      timer.current = undefined
      refreshedAt.current = performance.now()
      if (document.visibilityState === 'visible') latest.current()
    }, waitMs)
  }, [intervalMs])
}

interface Shown {
  readonly key: string
  readonly page: PageOf<EmailRow>
  /** Whether it was read since the screen was opened, so that it is replaced no more. */
  readonly isFresh: boolean
}

export interface LiveList {
  readonly query: UseQueryResult<PageOf<EmailRow>>
  /** The rows to show, with their newest states; undefined while there are none yet. */
  readonly page: PageOf<EmailRow> | undefined
  readonly newCount: number
  /** Whether there may be more new rows than were counted. */
  readonly hasMoreNew: boolean
  showNew(): void
}

/** @param values parameters of `GET /v1/emails` */
export function useLiveList(values: QueryValues): LiveList {
  const key = JSON.stringify(values)
  const query = useQuery({
    queryKey: ['emails', key],
    queryFn: ({ signal }) => get<PageOf<EmailRow>>('/v1/emails', values, signal),
    placeholderData: keepPreviousData,
  })
  const [shown, setShown] = useState<Shown>()
  const latest = query.isPlaceholderData ? undefined : query.data
  const current = shown?.key === key ? shown : undefined
  const isFresh = query.isFetchedAfterMount
  const isReplaced = !current?.isFresh || current.page.data.length === 0
  if (latest && isReplaced && (current?.page !== latest || current.isFresh !== isFresh))
    setShown({ key, page: latest, isFresh })
  const refreshSoon = useRefreshSoon(() => query.refetch())
  const [statuses, setStatuses] = useState<ReadonlyMap<string, string>>(new Map())
  useLiveEvents((event) => {
    if (event.email_id === null) return
    const row = current?.page.data.find(({ id }) => id === event.email_id)
    const status = row && toRowStatus(row, event)
    if (row && status) setStatuses((before) => new Map(before).set(row.id, status))
    refreshSoon()
  })
  useEffect(() => {
    // What was read is newer than the events before it.
    if (query.dataUpdatedAt > 0) setStatuses(new Map())
  }, [query.dataUpdatedAt])
  const onVisible = useRef(refreshSoon)
  onVisible.current = refreshSoon
  useEffect(() => {
    const listener = () => document.visibilityState === 'visible' && onVisible.current()
    document.addEventListener('visibilitychange', listener)
    return () => document.removeEventListener('visibilitychange', listener)
  }, [])
  if (!current || !latest)
    return { query, page: current?.page ?? query.data, newCount: 0, hasMoreNew: false, showNew: () => undefined }
  const rowsById = new Map(latest.data.map((row) => [row.id, row]))
  const rows = current.page.data.map((row) => {
    const newest = rowsById.get(row.id) ?? row
    return { ...newest, status: statuses.get(row.id) ?? newest.status }
  })
  const newest = current.page.data[0]?.created_at ?? ''
  const newRows = latest.data.filter(
    ({ id, created_at: at }) => at >= newest && !current.page.data.some((row) => row.id === id),
  )
  return {
    query,
    page: { data: rows, pagination: latest.pagination },
    newCount: newRows.length,
    hasMoreNew: newRows.length > 0 && newRows.length === latest.data.length,
    showNew: () => setShown({ key, page: latest, isFresh: true }),
  }
}

const STATUS_AFTER: Readonly<Record<string, string>> = {
  queued: 'queued',
  scheduled: 'scheduled',
  cancelled: 'cancelled',
  sent: 'sent',
  delivered: 'sent',
  deferred: 'queued',
  bounced: 'bounced',
  failed: 'failed',
  rejected: 'rejected',
  uncertain: 'uncertain',
}

/** The status of an email after an event; undefined when it depends on other recipients. */
function toRowStatus(row: EmailRow, { event_type: type }: FeedEvent): string | undefined {
  return countRecipients(row) === 1 ? STATUS_AFTER[type] : undefined
}

/** `to` joins the addresses; their names are not in it. */
export const countRecipients = ({ to, cc, bcc }: Pick<EmailRow, 'to' | 'cc' | 'bcc'>): number =>
  (to === '' ? 0 : to.split(', ').length) + cc.length + bcc.length
