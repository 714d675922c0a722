/**
 * @module What waits for delivery, why and until when: by destination and account; and the recipients of one of them.
 * Holds, releases, retries, bounces and drops it.
 */

import { Button, Group, Stack, Text } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { OperatorQueue, OperatorQueueRecipient } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { formatCount } from '../../parts/format.ts'
import { SmallLink } from '../../parts/links.tsx'
import { Done, EmptyState } from '../../parts/page.tsx'
import { StatusBadge } from '../../parts/status.tsx'
import { type Column, SearchForm } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { AccountFilter, AccountLink } from './account-link.tsx'
import { Fence } from './fence.tsx'
import { ServerList, ServerPage, SteadyTable } from './frame.tsx'
import { type QueueSelector, useList } from './queries.ts'
import { QueueActions } from './queue-actions.tsx'
import { QueueRules } from './queue-rules.tsx'

const route = getRouteApi('/server/queue')

const toDestination = ({ domain, is_broadcast: isBroadcast }: Pick<OperatorQueue, 'domain' | 'is_broadcast'>): string =>
  `${domain === 'sandbox' ? 'Sandbox' : domain}${isBroadcast ? ' (broadcasts)' : ''}`

const COLUMNS: readonly Column<OperatorQueue>[] = [
  {
    header: 'Destination',
    cell: (row) => (
      <SmallLink to="/server/queue" search={{ lane: row.lane, ...(row.account_id && { account: row.account_id }) }}>
        <bdi>{toDestination(row)}</bdi>
      </SmallLink>
    ),
  },
  {
    header: 'Account',
    cell: ({ account, account_id: id }) => <AccountLink id={id} name={account} />,
  },
  { header: 'Waiting', width: '12%', cell: ({ waiting }) => waiting.toLocaleString() },
  { header: 'First due', width: '16%', cell: ({ first_due_at: at }) => <Time iso={at} /> },
  { header: 'Why', width: '36%', cell: ({ reason }) => <bdi>{reason}</bdi> },
]

const toSelector = (domain: string | undefined, account: string | undefined): QueueSelector => ({
  ...(domain !== undefined && { domain }),
  ...(account !== undefined && { account_id: account }),
})

export default function QueueScreen() {
  const { lane, account } = route.useSearch()
  return lane === undefined ? <Lanes /> : <Lane lane={lane} accountId={account} />
}

function Lanes() {
  const { lane: _, ...filters } = route.useSearch()
  const navigate = route.useNavigate()
  const query = useList(
    read.operator.getQueue({ page: filters.page, domain: filters.domain, account_id: filters.account }),
  )
  const [message, setMessage] = useState<string>()
  const hasFilters = filters.domain !== undefined || filters.account !== undefined
  return (
    <ServerList
      title="Queue"
      query={query}
      label="What waits for delivery, the earliest first"
      columns={COLUMNS}
      toKey={(row) => row.lane}
      path="/server/queue"
      search={filters}
      empty={
        <EmptyState title={hasFilters ? 'Nothing like this waits' : 'The queue is empty'}>
          <Text maw={640}>
            {hasFilters
              ? 'No mail to this domain, or of this account, waits for delivery.'
              : 'Mail that waits for its delivery appears here, with the reason and the time of the next attempt.'}
          </Text>
        </EmptyState>
      }
      summary={
        <Text size="sm" c="dimmed">
          {formatCount(query.data?.pagination.total ?? 0, 'destination')}; each account has its own.
        </Text>
      }
      filters={
        <Stack gap="xs">
          <Done message={message} />
          <Fence onDone={setMessage} />
          <QueueRules onDone={setMessage} />
          <SearchForm
            label="Domain of the recipients"
            placeholder="example.com"
            value={filters.domain}
            onSearch={(domain) =>
              void navigate({
                search: { ...(filters.account && { account: filters.account }), ...(domain && { domain }) },
              })
            }
          />
          <AccountFilter
            id={filters.account}
            onRemove={() => void navigate({ search: filters.domain ? { domain: filters.domain } : {} })}
          />
          {hasFilters ? (
            <QueueActions selector={toSelector(filters.domain, filters.account)} onDone={setMessage} />
          ) : (
            <Text size="sm" c="dimmed">
              To hold, retry or end mail, search for its domain or open a destination.
            </Text>
          )}
        </Stack>
      }
    />
  )
}

const RECIPIENT_COLUMNS: readonly Column<OperatorQueueRecipient>[] = [
  { header: 'Recipient', cell: ({ recipient }) => <bdi>{recipient}</bdi> },
  { header: 'Status', width: '16%', cell: ({ status }) => <StatusBadge status={status} /> },
  { header: 'Attempts', width: '14%', cell: ({ attempts }) => attempts },
  { header: 'Next attempt', width: '18%', cell: (row) => <NextAttempt {...row} /> },
  { header: 'Last error', width: '30%', cell: ({ last_error: error }) => <bdi>{error ?? '–'}</bdi> },
]

function NextAttempt({ next_at: at, waits_for: waitsFor }: Pick<OperatorQueueRecipient, 'next_at' | 'waits_for'>) {
  if (waitsFor === null) return <Time iso={at} />
  return waitsFor === 'hold' ? 'Held' : 'Waits as restored'
}

function Lane({ lane, accountId }: { readonly lane: string; readonly accountId: string | undefined }) {
  const query = useList(read.operator.listQueueRecipients({ lane }))
  const [message, setMessage] = useState<string>()
  const account = query.data?.data[0]?.account
  const domain = lane.slice(lane.lastIndexOf(':') + 1)
  const title = `Queue: ${toDestination({ domain, is_broadcast: lane.startsWith('bulk:') })}`
  return (
    <ServerPage
      title={title}
      query={query}
      filters={
        <Stack gap="xs">
          <Done message={message} />
          <Group>
            <Button component={Link} to="/server/queue" variant="default" size="xs">
              Back to the queue
            </Button>
            {account !== undefined && (
              <Text size="sm">
                Mail of <bdi>{account}</bdi>
              </Text>
            )}
          </Group>
          {accountId !== undefined && <QueueActions selector={toSelector(domain, accountId)} onDone={setMessage} />}
        </Stack>
      }
    >
      {({ data }) =>
        data.length === 0 ? (
          <EmptyState title="Nothing waits here any more">
            <Text>The mail was delivered, or given up, since then.</Text>
          </EmptyState>
        ) : (
          <>
            <SteadyTable
              label="Recipients, the earliest first"
              columns={RECIPIENT_COLUMNS}
              rows={data}
              toKey={(row) => `${row.email_id} ${row.recipient}`}
              listKey={lane}
              query={query}
            />
            {data.length >= 50 && (
              <Text size="sm" c="dimmed">
                The 50 whose next attempt is due first.
              </Text>
            )}
          </>
        )
      }
    </ServerPage>
  )
}
