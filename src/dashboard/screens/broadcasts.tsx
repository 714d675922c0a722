/** @module The broadcasts of the account, with their progress, and the drafts. */
import { Progress, Stack, Text } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { BroadcastSummary, NewsletterSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { usePage } from '../api/data.ts'
import { ActionButton } from '../parts/form.tsx'
import { NameLink, SmallLink } from '../parts/links.tsx'
import { EmptyState, Page, QueryView, Section } from '../parts/page.tsx'
import { useLiveRows } from '../parts/rows.ts'
import { type Column, DataTable, PagedTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { isMoving, POLL_MS, SLOW_POLL_MS, useDrafts } from './broadcasts/queries.ts'
import { BroadcastStateLabel } from './broadcasts/state-label.tsx'
import { describeProgress, toPercent } from './broadcasts/states.ts'

/** Drafts shown above the broadcasts. */
const SHOWN_DRAFTS = 5

export default function BroadcastsScreen() {
  const { show, page = 1 } = useSearch({ from: '/broadcasts' })
  const navigate = useNavigate()
  const create = (
    <ActionButton needs="developer" onClick={() => void navigate({ to: '/broadcasts/new' })}>
      New broadcast
    </ActionButton>
  )
  return show === 'drafts' ? <AllDrafts page={page} create={create} /> : <Overview page={page} create={create} />
}

interface PartProps {
  readonly page: number
  readonly create: React.ReactNode
}

const AllDrafts = ({ page, create }: PartProps) => (
  <Page title="Drafts" action={create}>
    <SmallLink to="/broadcasts">All broadcasts</SmallLink>
    <PagedTable {...DRAFT_TABLE} query={useDrafts(page)} path="/broadcasts" page={page} noun="drafts" />
  </Page>
)

function Overview({ page, create }: PartProps) {
  const broadcasts = usePage(read.broadcasts.list({ page, per_page: 25 }), {
    refetchInterval: ({ state: { data } }) => (data?.data.some(isMoving) ? POLL_MS : SLOW_POLL_MS),
  })
  const list = useLiveRows(broadcasts, String(page), ({ created_at: at }) => at)
  const drafts = useDrafts(1, SHOWN_DRAFTS)
  const isEmpty = broadcasts.data?.pagination.total === 0 && drafts.data?.pagination.total === 0
  return (
    <Page title="Broadcasts" action={isEmpty ? undefined : create}>
      {isEmpty ? (
        <EmptyState title="Your broadcasts will appear here">
          <Text maw={640}>
            A broadcast is one message to all subscribed contacts of a list, written for each of them: with their name,
            and with a link to leave the list. You see how far it is, pause it, and read what came of it.
          </Text>
          {create}
        </EmptyState>
      ) : (
        <Stack gap="xl">
          {page === 1 && (
            <QueryView query={drafts}>
              {({ data, pagination }) =>
                data.length > 0 && (
                  <Section title="Drafts">
                    <DataTable {...DRAFT_TABLE} rows={data} toKey={({ id }) => id} />
                    {pagination.total > data.length && (
                      <SmallLink to="/broadcasts" search={{ show: 'drafts' }}>
                        All {pagination.total.toLocaleString()} drafts
                      </SmallLink>
                    )}
                  </Section>
                )
              }
            </QueryView>
          )}
          <Section title="Sent and scheduled">
            <PagedTable
              query={broadcasts}
              list={list}
              label="Broadcasts, newest first"
              columns={BROADCAST_COLUMNS}
              path="/broadcasts"
              page={page}
              noun="broadcasts"
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
    cell: ({ id, subject }) => (
      <NameLink to="/broadcasts/drafts/$id" id={id} name={subject} lineClamp={2} title={subject} />
    ),
  },
  { header: 'Sender', width: '30%', cell: ({ from_address: from }) => <bdi>{from}</bdi> },
  { header: 'Changed', width: '18%', cell: ({ updated_at: at }) => <Time iso={at} /> },
]

const DRAFT_TABLE = { label: 'Drafts, newest first', columns: DRAFT_COLUMNS }

const BROADCAST_COLUMNS: readonly Column<BroadcastSummary>[] = [
  {
    header: 'Subject',
    cell: ({ id, subject }) => (
      <NameLink to="/broadcasts/$id" id={id} name={subject || '(no subject)'} lineClamp={2} title={subject} />
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
