/** @module The deliveries of a webhook with their filters. */
import { Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { Webhook, WebhookDeliverySummary } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { type PageOf, readAgain } from '../../api/data.ts'
import { formatDuration } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { DELIVERY_FILTERS } from '../filters.ts'
import { DeliveryStatus, toRefreshMs } from './marks.tsx'

/** Reads the webhook again when its deliveries changed, because its state follows from them. */
function useRefreshedWebhook(id: string, page: PageOf<WebhookDeliverySummary> | undefined): void {
  const queries = useQueryClient()
  const seen = useRef<string>(undefined)
  const latest = page && JSON.stringify(page.data.map((row) => [row.id, row.status, row.attempts]))
  useEffect(() => {
    if (latest === undefined) return
    const isFirst = seen.current === undefined
    seen.current = latest
    if (!isFirst) readAgain(queries, ['webhooks', 'get', id])
  }, [id, latest, queries])
}

export function Deliveries({ webhook }: { readonly webhook: Webhook }) {
  const list = useList({
    read: (query) => read.webhooks.listDeliveries(webhook.id, query),
    filters: DELIVERY_FILTERS,
    isSteady: true,
    // After one of its events there is probably a new delivery.
    isConcerned: ({ event_type: type }) => webhook.events.includes(type),
    refetchInterval: toRefreshMs,
  })
  useRefreshedWebhook(webhook.id, list.query.data)
  return (
    <section aria-label="Deliveries">
      <ListView
        list={list}
        columns={COLUMNS}
        noun="delivery"
        empty={
          <EmptyState
            title="No delivery yet"
            text="Each event that is posted appears here, with the response of your server. Send a test event to see one."
          />
        }
        advice="Old deliveries are deleted."
      />
    </section>
  )
}

const COLUMNS: readonly Column<WebhookDeliverySummary>[] = [
  column('Event', { width: '20%' }, ({ id, webhook_id, event }) => (
    <NameLink to="/webhooks/$id/deliveries/$deliveryId" params={{ id: webhook_id, deliveryId: id }} name={event} />
  )),
  column('Status', { width: '9.5rem', phone: 'aside' }, (delivery) => <DeliveryStatus delivery={delivery} />),
  column('Response', { phone: 'bare' }, (delivery) => <Response delivery={delivery} />),
  column('Duration', { width: '5.5rem', isNumeric: true, phone: 'none' }, ({ duration_ms: ms }) => formatDuration(ms)),
  column('Attempts', { width: '5.5rem', isNumeric: true, phone: 'none' }, ({ attempts }) => attempts),
  column('Time', { width: '10.5rem', phone: 'bare' }, ({ attempted_at, created_at }) => (
    <Time iso={attempted_at ?? created_at} hasSeconds />
  )),
]

/** The code, and the beginning of what came with it. */
function Response({ delivery }: { readonly delivery: WebhookDeliverySummary }) {
  const { status_code: code, response, error } = delivery
  const text = code === null ? error : response
  return (
    <span title={[error, response].filter(Boolean).join('\n')}>
      {code ?? (text ? '' : '–')}{' '}
      {text && (
        <Text span inherit c="dimmed">
          <bdi>{text}</bdi>
        </Text>
      )}
    </span>
  )
}
