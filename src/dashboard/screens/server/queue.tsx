/**
 * @module What waits for delivery, why and until when: by destination and account; and the recipients of one of them.
 * Holds, releases, retries, bounces and drops it.
 */

import { Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorQueue, OperatorQueueRecipient } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListFilters, ListScreen, NewRows, useList } from '../../parts/list.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { useSteadyRows } from '../../parts/rows.ts'
import { keep } from '../../parts/search.ts'
import { StatusBadge } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { QUEUE_FILTERS } from '../filters.ts'
import { AccountLink } from './account-link.tsx'
import { Fence } from './fence.tsx'
import { ServerFrame, ServerPage } from './frame.tsx'
import { REFRESHED, refetchInterval } from './queries.ts'
import { QueueActions } from './queue-actions.tsx'
import { QueueRules } from './queue-rules.tsx'

const route = getRouteApi('/server/queue')

const toDestination = ({ domain, is_broadcast: isBroadcast }: Pick<OperatorQueue, 'domain' | 'is_broadcast'>): string =>
  `${domain === 'sandbox' ? 'Sandbox' : domain}${isBroadcast ? ' (broadcasts)' : ''}`

const COLUMNS: readonly Column<OperatorQueue>[] = [
  {
    header: 'Destination',
    cell: (row) => (
      <NameLink to="/server/queue" search={{ lane: row.lane, ...keep('account_id', row.account_id ?? undefined) }}>
        <bdi>{toDestination(row)}</bdi>
      </NameLink>
    ),
  },
  {
    header: 'Account',
    phone: 'bare',
    cell: ({ account, account_id: id }) => <AccountLink id={id} name={account} isPlain />,
  },
  { header: 'Why', width: '40%', phone: 'bare', cell: ({ reason }) => <bdi title={reason}>{reason}</bdi> },
  { header: 'Waiting', width: '6rem', isNumeric: true, cell: ({ waiting }) => waiting.toLocaleString() },
  { header: 'First due', width: '8.5rem', isNumeric: true, cell: ({ first_due_at: at }) => <Time iso={at} /> },
]

export default function QueueScreen() {
  const { lane, account_id: account } = route.useSearch()
  return lane === undefined ? <Lanes /> : <Lane lane={lane} accountId={account} />
}

function Lanes() {
  const list = useList({
    read: read.operator.getQueue,
    filters: QUEUE_FILTERS,
    toKey: ({ lane }) => lane,
    ...REFRESHED,
  })
  return (
    <ListScreen
      frame={ServerFrame}
      title="Queue"
      list={list}
      columns={COLUMNS}
      isWide
      noun="destination"
      empty={
        <EmptyState
          title="The queue is empty"
          text="Mail that waits appears here, with the reason and the time of the next attempt."
        />
      }
      above={
        <Stack gap="xs">
          <Fence />
          <QueueRules />
          {list.isEmpty && <ListFilters list={list} />}
          {list.isFiltered ? (
            <QueueActions selector={list.values} />
          ) : (
            <Text c="dimmed">To hold, retry or end mail, search for its domain or open a destination.</Text>
          )}
        </Stack>
      }
    />
  )
}

const RECIPIENT_COLUMNS: readonly Column<OperatorQueueRecipient>[] = [
  { header: 'Recipient', cell: ({ recipient }) => <bdi title={recipient}>{recipient}</bdi> },
  { header: 'Status', width: '9rem', phone: 'aside', cell: ({ status }) => <StatusBadge status={status} /> },
  {
    header: 'Last error',
    width: '40%',
    phone: 'bare',
    cell: ({ last_error: error }) => <bdi title={error ?? undefined}>{error ?? '–'}</bdi>,
  },
  { header: 'Attempts', width: '6rem', isNumeric: true, cell: ({ attempts }) => attempts },
  { header: 'Next attempt', width: '8.5rem', isNumeric: true, cell: (row) => <NextAttempt {...row} /> },
]

const toRecipientKey = (row: OperatorQueueRecipient): string => `${row.email_id} ${row.recipient}`

function NextAttempt({ next_at: at, waits_for: waitsFor }: Pick<OperatorQueueRecipient, 'next_at' | 'waits_for'>) {
  if (waitsFor === null) return <Time iso={at} />
  return waitsFor === 'hold' ? 'Held' : 'Waits as restored'
}

function Lane({ lane, accountId }: { readonly lane: string; readonly accountId: string | undefined }) {
  const query = usePage(read.operator.listQueueRecipients({ lane }), { refetchInterval })
  const steady = useSteadyRows(query, lane, toRecipientKey)
  const account = query.data?.data[0]?.account
  const domain = lane.slice(lane.lastIndexOf(':') + 1)
  return (
    <ServerPage
      title={toDestination({ domain, is_broadcast: lane.startsWith('bulk:') })}
      back={{ label: 'Queue', target: { to: '/server/queue' } }}
      query={query}
      {...(account !== undefined && {
        description: (
          <>
            Mail of <bdi>{account}</bdi> that waits for delivery.
          </>
        ),
      })}
      above={accountId !== undefined && <QueueActions selector={{ domain, account_id: accountId }} />}
    >
      {({ data }) =>
        data.length === 0 ? (
          <EmptyState title="Nothing waits here any more" text="The mail was delivered, or given up, since then." />
        ) : (
          <>
            <NewRows list={steady} />
            <DataTable
              label="Recipients, the earliest first"
              columns={RECIPIENT_COLUMNS}
              rows={steady.page?.data ?? data}
              isWide
              toKey={toRecipientKey}
            />
            {data.length >= 50 && <Text c="dimmed">The 50 whose next attempt is due first.</Text>}
          </>
        )
      }
    </ServerPage>
  )
}
