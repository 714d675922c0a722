/** @module The broadcasts of the account, with their progress, and the drafts. */
import { Stack, Text } from '@mantine/core'
import { useSearch } from '@tanstack/react-router'
import type { ComponentProps, ReactNode } from 'react'
import type { BroadcastSummary, NewsletterSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { usePage } from '../api/data.ts'
import { NameLink, TextLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, ListView, useList } from '../parts/list.tsx'
import { EmptyState, Page, QueryView, Section } from '../parts/page.tsx'
import { type Column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { BroadcastStateLabel } from './broadcast.tsx'
import { describeProgress, isOver, POLL_MS, SLOW_POLL_MS } from './broadcasts/states.ts'

/** Drafts shown above the broadcasts. */
const SHOWN_DRAFTS = 5

export default function BroadcastsScreen() {
  const { show } = useSearch({ from: '/broadcasts' })
  const create = (
    <ActionLink needs="developer" to="/broadcasts/new">
      Create a broadcast
    </ActionLink>
  )
  return show === 'drafts' ? <AllDrafts create={create} /> : <Overview create={create} />
}

interface PartProps {
  readonly create: ReactNode
}

const DraftsFrame = (props: Omit<ComponentProps<typeof Page>, 'back'>) => (
  <Page {...props} back={{ label: 'All broadcasts', target: { to: '/broadcasts' } }} />
)

const AllDrafts = ({ create }: PartProps) => (
  <ListScreen
    {...DRAFT_TABLE}
    title="Drafts"
    frame={DraftsFrame}
    list={useList({ read: (query) => read.newsletters.list({ ...query, status: 'draft' }) })}
    noun="draft"
    action={create}
    empty={<Text>There is no draft.</Text>}
  />
)

function Overview({ create }: PartProps) {
  const list = useList({
    read: read.broadcasts.list,
    isSteady: true,
    refetchInterval: ({ state: { data } }) => (data?.data.some((row) => !isOver(row.state)) ? POLL_MS : SLOW_POLL_MS),
  })
  const drafts = usePage(read.newsletters.list({ status: 'draft', per_page: SHOWN_DRAFTS }))
  const isEmpty = list.isEmpty && drafts.data?.pagination.total === 0
  return (
    <Page title="Broadcasts" action={isEmpty ? undefined : create}>
      {isEmpty ? (
        <EmptyState
          title="Your broadcasts will appear here"
          text="A broadcast is one message to all subscribed contacts of a list, with their name and a link to leave. You see its progress and its results, and can pause it."
        >
          {create}
        </EmptyState>
      ) : (
        <Stack gap="lg">
          {list.isFirstPage && (
            <QueryView query={drafts}>
              {({ data, pagination }) =>
                data.length > 0 && (
                  <Section title="Drafts">
                    <DataTable {...DRAFT_TABLE} rows={data} />
                    {pagination.total > data.length && (
                      <TextLink to="/broadcasts" search={{ show: 'drafts' }}>
                        All {pagination.total.toLocaleString()} drafts
                      </TextLink>
                    )}
                  </Section>
                )
              }
            </QueryView>
          )}
          <Section title="Sent and scheduled">
            <ListView
              list={list}
              columns={BROADCAST_COLUMNS}
              noun="broadcast"
              empty={<Text>Nothing was sent yet.</Text>}
            />
          </Section>
        </Stack>
      )}
    </Page>
  )
}

const DRAFT_COLUMNS: readonly Column<NewsletterSummary>[] = [
  {
    header: 'Subject',
    cell: ({ id, subject }) => <NameLink to="/broadcasts/drafts/$id" params={{ id }} name={subject} title={subject} />,
  },
  { header: 'Sender', width: '30%', phone: 'bare', cell: ({ from_address: from }) => <bdi title={from}>{from}</bdi> },
  { header: 'Changed', width: '9rem', phone: 'aside', cell: ({ updated_at: at }) => <Time iso={at} /> },
]

const DRAFT_TABLE = { label: 'Drafts, newest first', columns: DRAFT_COLUMNS }

const BROADCAST_COLUMNS: readonly Column<BroadcastSummary>[] = [
  {
    header: 'Subject',
    cell: ({ id, subject }) => (
      <NameLink to="/broadcasts/$id" params={{ id }} name={subject || '(no subject)'} title={subject} />
    ),
  },
  { header: 'List', width: '18%', phone: 'bare', cell: ({ list_name: name }) => <bdi title={name}>{name}</bdi> },
  { header: 'Status', width: '10rem', phone: 'bare', cell: (row) => <BroadcastStateLabel broadcast={row} /> },
  {
    header: 'Recipients',
    width: '9rem',
    isNumeric: true,
    cell: (row) => (isOver(row.state) ? row.total_recipients.toLocaleString() : describeProgress(row)),
  },
  { header: 'Begins', width: '9rem', phone: 'aside', cell: ({ begins_at: at }) => <Time iso={at} /> },
]
