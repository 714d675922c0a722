/** @module The deliveries of a webhook: rows stay where they are while their states change; new ones are counted. */
import { keepPreviousData, type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { DeliveryRecord } from '#features/webhooks/webhooks/history/model.ts'
import type { PageOf } from '../../api/client.ts'
import { useLiveEvents } from '../../api/live.tsx'
import { readAgain, useRefreshSoon } from '../../api/refresh-soon.ts'
import { deliveriesKey, isDue, readDeliveries, webhookKey } from '../../api/webhooks.ts'
import { type LiveRows, useLiveRows } from '../../parts/live-rows.ts'
import type { DeliveryFilters } from './filters.ts'

const DUE_REFRESH_MS = 2000
const REFRESH_MS = 15_000

export interface LiveDeliveries extends LiveRows<DeliveryRecord> {
  readonly query: UseQueryResult<PageOf<DeliveryRecord>>
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
  const refreshSoon = useRefreshSoon(() => readAgain(query))
  useLiveEvents(({ event_type: type }) => {
    if (events.includes(type)) refreshSoon()
  })
  useRefreshedWebhook(id, query.data)
  return { ...useLiveRows(query, key, ({ created_at: at }) => at), query }
}

/** Reads the webhook again when its deliveries changed, because its state follows from them. */
function useRefreshedWebhook(id: string, page: PageOf<DeliveryRecord> | undefined): void {
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
