/** @module The newest events. Events since then are offered as "12 new", so the list does not jump. */
import { Button, Group, Stack, Text, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { Event } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useReadAgainAfter } from '../../api/live.tsx'
import { toEventData } from '../../parts/format.ts'
import { ROW_MARK } from '../../parts/keyboard.tsx'
import { TextLink } from '../../parts/links.tsx'
import { EmptyState, QueryView } from '../../parts/page.tsx'
import { useSteadyRows } from '../../parts/rows.ts'
import { StatusBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { findEventScreen } from './format.ts'

const MAX_SHOWN = 20

/** Every `delivered` comes with a `sent`, which would tell the same twice. */
const isShown = ({ type }: Event): boolean => type !== 'sent'

export function RecentEvents() {
  const query = useQuery({
    ...read.events.list({ order: 'newest', limit: 2 * MAX_SHOWN }),
    select: ({ data }) => ({ data: data.filter(isShown).slice(0, MAX_SHOWN) }),
  })
  const { page, newCount, show } = useSteadyRows(query, 'events', ({ seq }: Event) => String(seq))
  useReadAgainAfter(query, isShown)
  const known = page?.data ?? []
  return (
    <Stack component="section" gap="sm" aria-labelledby="events">
      <Group justify="space-between">
        <Title order={2} size="h4" id="events">
          Newest events
        </Title>
        <span role="status">
          {newCount > 0 && (
            <Button size="xs" variant="default" onClick={show}>
              {newCount} new
            </Button>
          )}
        </span>
      </Group>
      <QueryView query={query}>
        {() =>
          known.length === 0 ? (
            <EmptyState
              title="No events yet"
              text="Each acceptance, delivery, bounce, open and click of your mail will appear here."
            />
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
          <TextLink {...to} inherit>
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
