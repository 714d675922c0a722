/** @module The newest events. Events since then are offered as "12 new", so the list does not jump. */
import { Button, Group, Stack, Text, Title } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Event } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useLiveEvents } from '../../api/live.tsx'
import { toEventData } from '../../parts/format.ts'
import { ROW_MARK } from '../../parts/keyboard.tsx'
import { TextLink } from '../../parts/links.tsx'
import { EmptyState, QueryView } from '../../parts/page.tsx'
import { StatusBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { findEventScreen } from './format.ts'

const MAX_SHOWN = 20
const NEWEST = read.events.list({ order: 'newest', limit: 2 * MAX_SHOWN })

/** Every `delivered` comes with a `sent`, which would tell the same twice. */
const isShown = ({ type }: Event): boolean => type !== 'sent'

export function RecentEvents() {
  const queries = useQueryClient()
  const [added, setAdded] = useState<readonly Event[]>([])
  const newest = useQuery({
    ...NEWEST,
    // Only a click brings new rows.
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  })
  useLiveEvents((event) => isShown(event) && setAdded((before) => [event, ...before]))
  const known = newest.data?.data.filter(isShown).slice(0, MAX_SHOWN) ?? []
  const fresh = added.filter(({ seq }) => known.every((event) => event.seq !== seq))
  const show = () => {
    queries.setQueryData(NEWEST.queryKey, { ...newest.data, data: [...fresh, ...known] })
    setAdded([])
  }
  return (
    <Stack component="section" gap="sm" aria-labelledby="events">
      <Group justify="space-between">
        <Title order={2} size="h4" id="events">
          Newest events
        </Title>
        <span role="status">
          {fresh.length > 0 && (
            <Button size="xs" variant="default" onClick={show}>
              {fresh.length} new
            </Button>
          )}
        </span>
      </Group>
      <QueryView query={newest}>
        {() =>
          known.length === 0 ? (
            <EmptyState title="No events yet">
              <Text>Each acceptance, delivery, bounce, open and click of your mail will appear here.</Text>
            </EmptyState>
          ) : (
            <Stack component="ul" gap={0} p={0} m={0} style={{ listStyle: 'none' }}>
              {known.map((event) => (
                <EventRow key={event.seq} event={event} />
              ))}
            </Stack>
          )
        }
      </QueryView>
    </Stack>
  )
}

function EventRow({ event }: { readonly event: Event }) {
  const to = findEventScreen(event)
  const badge = <StatusBadge status={toEventData(event)['captured'] ? 'captured' : event.type} />
  return (
    <Group
      component="li"
      {...ROW_MARK}
      gap="xs"
      py={6}
      align="baseline"
      style={{ borderBottom: '1px solid var(--mantine-color-default-border)' }}
    >
      <Text size="sm" component="span" miw="5.5rem">
        <Time iso={event.created_at} />
      </Text>
      <Text size="sm" component="span" miw="8rem">
        {to ? (
          <TextLink to={to} inherit>
            {badge}
          </TextLink>
        ) : (
          badge
        )}
      </Text>
      <Text size="sm" component="span" dir="auto" style={{ overflowWrap: 'anywhere', minWidth: 0 }}>
        {event.recipient}
      </Text>
    </Group>
  )
}
