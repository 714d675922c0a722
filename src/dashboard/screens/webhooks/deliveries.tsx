/** @module The deliveries of a webhook with their filters. */
import { Code, Stack, Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { Webhook, WebhookDeliverySummary } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { type PageOf, readAgain } from '../../api/data.ts'
import { formatDuration } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { EmptyState } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { DELIVERY_FILTERS } from '../filters.ts'
import { DeliveryStatus } from './marks.tsx'
import { toRefreshMs } from './queries.ts'

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
    <Stack gap="xs" component="section" aria-label="Deliveries">
      <ListView
        list={list}
        label="Deliveries, newest first"
        columns={COLUMNS}
        noun="delivery"
        empty={
          <EmptyState
            title="No delivery yet"
            text="Each event that is posted to this webhook appears here, with the response of your server. A test event is the first one."
          />
        }
        advice="Deliveries are kept for a while after they have ended; the server's operator sets how long."
      />
    </Stack>
  )
}

const COLUMNS: readonly Column<WebhookDeliverySummary>[] = [
  {
    header: 'Event',
    width: '22%',
    cell: ({ id, webhook_id, event }) => (
      <NameLink to="/webhooks/$id/deliveries/$deliveryId" params={{ id: webhook_id, deliveryId: id }}>
        {event}
      </NameLink>
    ),
  },
  {
    header: 'State',
    width: '22%',
    cell: (delivery) => (
      <Stack gap={0}>
        <DeliveryStatus delivery={delivery} />
        {delivery.next_attempt_at !== null && delivery.attempts > 0 && (
          <Text size="sm">
            Next attempt <Time iso={delivery.next_attempt_at} />
          </Text>
        )}
      </Stack>
    ),
  },
  { header: 'Response', cell: (delivery) => <Response delivery={delivery} /> },
  { header: 'Attempts', width: '6.5rem', cell: ({ attempts }) => attempts },
  { header: 'Time', width: '18%', cell: ({ attempted_at, created_at }) => <Time iso={attempted_at ?? created_at} /> },
]

function Response({ delivery }: { readonly delivery: WebhookDeliverySummary }) {
  const { status_code: code, duration_ms: ms, response, error } = delivery
  const text = code === null ? error : response
  if (code === null && !text) return <>–</>
  return (
    <Stack gap={0} title={[error, response].filter(Boolean).join('\n')}>
      {code !== null && (
        <Text size="sm">
          <Code>{code}</Code> in {formatDuration(ms)}
        </Text>
      )}
      {text && (
        <Text size="sm" c="dimmed" lineClamp={2}>
          <bdi>{text}</bdi>
        </Text>
      )}
    </Stack>
  )
}
