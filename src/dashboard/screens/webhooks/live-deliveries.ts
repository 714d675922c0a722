/** @module The deliveries of a webhook: rows stay where they are while their states change; new ones are counted. */
import { keepPreviousData, type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type { DeliveryRecord } from '#features/webhooks/webhooks/model.ts'
import { useLiveEvents } from '../../api/live.tsx'
import { type DeliveryPage, deliveriesKey, isDue, readDeliveries, webhookKey } from '../../api/webhooks.ts'
import { useRefreshSoon } from '../emails/live-list.ts'
import type { DeliveryFilters } from './filters.ts'
import { mergeRows } from './state.ts'

const DUE_REFRESH_MS = 2000
const REFRESH_MS = 15_000

interface Shown {
  readonly key: string
  readonly rows: readonly DeliveryRecord[]
}

export interface LiveDeliveries {
  readonly query: UseQueryResult<DeliveryPage>
  /** Undefined while there are none yet. */
  readonly rows: readonly DeliveryRecord[] | undefined
  readonly newCount: number
  showNew(): void
}

/** @param events the events of the webhook: after one of them there is probably a new delivery */
export function useLiveDeliveries(
  id: string,
  filters: DeliveryFilters,
  page: number,
  events: readonly string[],
): LiveDeliveries {
  const key = JSON.stringify([filters, page])
  const query = useQuery({
    queryKey: [...deliveriesKey(id), key],
    queryFn: ({ signal }) => readDeliveries(id, { ...filters, page }, signal),
    placeholderData: keepPreviousData,
    // A delivery causes no event of its own.
    refetchInterval: ({ state: { data } }) => (data?.data.some(isDue) ? DUE_REFRESH_MS : REFRESH_MS),
  })
  const refreshSoon = useRefreshSoon(() => query.refetch())
  useLiveEvents(({ event_type: type }) => {
    if (events.includes(type)) refreshSoon()
  })
  useRefreshedWebhook(id, query.data)
  const [shown, setShown] = useState<Shown>()
  const latest = query.isPlaceholderData ? undefined : query.data?.data
  const current = shown?.key === key ? shown.rows : undefined
  if (latest && (!current || current.length === 0) && current !== latest) setShown({ key, rows: latest })
  if (!latest || !current) return { query, rows: latest ?? query.data?.data, newCount: 0, showNew: () => undefined }
  return { query, ...mergeRows(current, latest), showNew: () => setShown({ key, rows: latest }) }
}

/** Reads the webhook again when its deliveries changed, because its state follows from them. */
function useRefreshedWebhook(id: string, page: DeliveryPage | undefined): void {
  const queries = useQueryClient()
  const seen = useRef<string>(undefined)
  const latest = page && JSON.stringify(page.data.map((row) => [row.id, row.status, row.attempts]))
  useEffect(() => {
    if (latest === undefined) return
    const isFirst = seen.current === undefined
    seen.current = latest
    if (!isFirst) void queries.invalidateQueries({ queryKey: webhookKey(id) })
  }, [id, latest, queries])
}
