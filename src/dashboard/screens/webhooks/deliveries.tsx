/** @module The deliveries of a webhook with their filters. */
import { Button, Code, Group, NativeSelect, Stack, Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import type { Webhook, WebhookDeliverySummary } from '#client/api.ts'
import { type PageOf, readAgain } from '../../api/data.ts'
import { useReadAgainAfter } from '../../api/live.tsx'
import { bindText } from '../../parts/form.tsx'
import { formatDuration, toOptions } from '../../parts/format.ts'
import { SEARCH_MARK } from '../../parts/keyboard.tsx'
import { SmallLink } from '../../parts/links.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { useLiveRows } from '../../parts/rows.ts'
import { type Column, DataTable, LiveView, Pages } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import {
  DELIVERY_EVENTS,
  DELIVERY_STATES,
  DELIVERY_STATUSES,
  type DeliveryFilters,
  parseDeliveryFilters,
} from './filters.ts'
import { DeliveryStatus } from './marks.tsx'
import { useDeliveries } from './queries.ts'

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

interface DeliveriesProps {
  readonly webhook: Webhook
  readonly filters: DeliveryFilters
  readonly page: number
}

export function Deliveries({ webhook, filters, page }: DeliveriesProps) {
  const query = useDeliveries(webhook.id, { ...filters, page })
  // After one of its events there is probably a new delivery.
  useReadAgainAfter(query, ({ event_type: type }) => webhook.events.includes(type))
  useRefreshedWebhook(webhook.id, query.data)
  const list = useLiveRows(query, JSON.stringify([filters, page]), ({ created_at: at }) => at)
  const navigate = useNavigate()
  const path = `/webhooks/${webhook.id}`
  const setFilters = (next: DeliveryFilters) => void navigate({ to: path, search: next as never })
  const hasFilters = filters.status !== undefined || filters.event !== undefined
  return (
    <Stack gap="xs" component="section" aria-label="Deliveries">
      <FilterBar filters={filters} onChange={setFilters} />
      <LiveView
        query={query}
        list={list}
        isNewest={page === 1}
        empty={<Nothing hasFilters={hasFilters || page > 1} onClear={() => setFilters({})} />}
      >
        {({ data, pagination }) => (
          <>
            <DataTable label="Deliveries, newest first" columns={COLUMNS} rows={data} toKey={({ id }) => id} />
            <Pages path={path} page={page} totalPages={pagination.total_pages} />
          </>
        )}
      </LiveView>
    </Stack>
  )
}

function FilterBar({
  filters,
  onChange,
}: {
  readonly filters: DeliveryFilters
  onChange(next: DeliveryFilters): void
}) {
  const { status = '', event = '' } = filters
  return (
    <Group gap="xs" align="flex-end">
      <NativeSelect
        {...SEARCH_MARK}
        label="State"
        {...bindText(status, (value) => onChange(parseDeliveryFilters({ status: value, event })))}
        data={toOptions(DELIVERY_STATUSES, (name) => DELIVERY_STATES[name].word, 'Any')}
      />
      <NativeSelect
        label="Event"
        {...bindText(event, (value) => onChange(parseDeliveryFilters({ status, event: value })))}
        data={toOptions(DELIVERY_EVENTS, (name) => name, 'Any')}
      />
      {(status || event) && (
        <Button variant="subtle" onClick={() => onChange({})}>
          Remove the filters
        </Button>
      )}
    </Group>
  )
}

const Nothing = ({ hasFilters, onClear }: { readonly hasFilters: boolean; onClear(): void }) =>
  hasFilters ? (
    <EmptyState title="No delivery matches">
      <Text>Deliveries are kept for a while after they have ended; the server's operator sets how long.</Text>
      <Button variant="default" onClick={onClear}>
        Show all deliveries
      </Button>
    </EmptyState>
  ) : (
    <EmptyState title="No delivery yet">
      <Text maw={640}>
        Each event that is posted to this webhook appears here, with the response of your server. A test event is the
        first one.
      </Text>
    </EmptyState>
  )

const COLUMNS: readonly Column<WebhookDeliverySummary>[] = [
  {
    header: 'Event',
    width: '22%',
    cell: ({ id, webhook_id, event }) => <SmallLink to={`/webhooks/${webhook_id}/deliveries/${id}`}>{event}</SmallLink>,
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
