/** @module The broadcasts of the account, with their progress, and the drafts. */
import { Progress, Stack, Text } from '@mantine/core'
import { useSearch } from '@tanstack/react-router'
import type { BroadcastSummary, NewsletterSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { NameLink, TextLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, ListView, useList } from '../parts/list.tsx'
import { EmptyState, Page, QueryView, Section } from '../parts/page.tsx'
import { type Column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { isMoving, POLL_MS, SLOW_POLL_MS, useDrafts } from './broadcasts/queries.ts'
import { BroadcastStateLabel } from './broadcasts/state-label.tsx'
import { describeProgress, toPercent } from './broadcasts/states.ts'

/** Drafts shown above the broadcasts. */
const SHOWN_DRAFTS = 5

export default function BroadcastsScreen() {
  const { show } = useSearch({ from: '/broadcasts' })
  const create = (
    <ActionLink needs="developer" to="/broadcasts/new">
      New broadcast
    </ActionLink>
  )
  return show === 'drafts' ? <AllDrafts create={create} /> : <Overview create={create} />
}

interface PartProps {
  readonly create: React.ReactNode
}

const AllDrafts = ({ create }: PartProps) => (
  <ListScreen
    {...DRAFT_TABLE}
    title="Drafts"
    list={useList({ read: (query) => read.newsletters.list({ ...query, status: 'draft' }) })}
    noun="draft"
    action={create}
    above={<TextLink to="/broadcasts">All broadcasts</TextLink>}
    empty={<Text>There is no draft.</Text>}
  />
)

function Overview({ create }: PartProps) {
  const list = useList({
    read: read.broadcasts.list,
    isSteady: true,
    refetchInterval: ({ state: { data } }) => (data?.data.some(isMoving) ? POLL_MS : SLOW_POLL_MS),
  })
  const drafts = useDrafts(SHOWN_DRAFTS)
  const isEmpty = list.isEmpty && drafts.data?.pagination.total === 0
  return (
    <Page title="Broadcasts" action={isEmpty ? undefined : create}>
      {isEmpty ? (
        <EmptyState
          title="Your broadcasts will appear here"
          text="A broadcast is one message to all subscribed contacts of a list, written for each of them: with their name, and with a link to leave the list. You see how far it is, pause it, and read what came of it."
        >
          {create}
        </EmptyState>
      ) : (
        <Stack gap="xl">
          {list.isFirstPage && (
            <QueryView query={drafts}>
              {({ data, pagination }) =>
                data.length > 0 && (
                  <Section title="Drafts">
                    <DataTable {...DRAFT_TABLE} rows={data} toKey={({ id }) => id} />
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
              label="Broadcasts, newest first"
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
  { header: 'Sender', width: '30%', cell: ({ from_address: from }) => <bdi>{from}</bdi> },
  { header: 'Changed', width: '18%', cell: ({ updated_at: at }) => <Time iso={at} /> },
]

const DRAFT_TABLE = { label: 'Drafts, newest first', columns: DRAFT_COLUMNS }

const BROADCAST_COLUMNS: readonly Column<BroadcastSummary>[] = [
  {
    header: 'Subject',
    cell: ({ id, subject }) => (
      <NameLink to="/broadcasts/$id" params={{ id }} name={subject || '(no subject)'} title={subject} />
    ),
  },
  { header: 'List', width: '18%', cell: ({ list_name: name }) => <bdi>{name}</bdi> },
  {
    header: 'State',
    width: '17%',
    cell: (row) => <BroadcastStateLabel broadcast={row} />,
  },
  {
    header: 'Progress',
    width: '18%',
    cell: (broadcast) => (
      <>
        <Text size="sm">{describeProgress(broadcast)}</Text>
        <Progress.Root size="sm">
          <Progress.Section value={toPercent(broadcast)} aria-label="Recipients accepted for sending or skipped" />
        </Progress.Root>
      </>
    ),
  },
  { header: 'Begins', width: '16%', cell: ({ begins_at: at }) => <Time iso={at} /> },
]
