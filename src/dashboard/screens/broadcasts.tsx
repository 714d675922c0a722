/**
 * @module The broadcasts of the account, with their progress, and the drafts; and one of them: how far it is, what came of
 * it, and pausing, resuming and cancelling it.
 */
import { Progress, Stack, Text } from '@mantine/core'
import { getRouteApi, linkOptions, useSearch } from '@tanstack/react-router'
import type { ComponentProps, ReactNode } from 'react'
import type { Broadcast, BroadcastSummary, NewsletterSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData, usePage } from '../api/data.ts'
import { useLiveState, useReadAgainAfter } from '../api/live.tsx'
import { RunButton } from '../parts/buttons.tsx'
import { CopyText } from '../parts/copy.tsx'
import { ConfirmButton } from '../parts/dialog.tsx'
import { type Figure, Figures } from '../parts/figures.tsx'
import { FormError } from '../parts/form.tsx'
import { formatCount, toTitle } from '../parts/format.ts'
import { InlineLink, NameLink, TextLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, ListView, useList } from '../parts/list.tsx'
import { EmptyState, Facts, Page, QueryView, RecordPage, Section } from '../parts/page.tsx'
import { Notice, StateLabel } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import {
  describeProgress,
  isDelayed,
  isOver,
  POLL_MS,
  SLOW_POLL_MS,
  toBroadcastState,
  toPercent,
  toResults,
  toShare,
} from './broadcasts/states.ts'

/** Drafts shown above the broadcasts. */
const SHOWN_DRAFTS = 5

export default function BroadcastsScreen() {
  const { show } = useSearch({ from: '/broadcasts' })
  const create = <ActionLink needs="developer" to="/broadcasts/new" label="Create a broadcast" />
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
  column('Subject', {}, ({ id, subject }) => (
    <NameLink to="/broadcasts/drafts/$id" params={{ id }} name={subject} title={subject} />
  )),
  column('Sender', { width: '30%', phone: 'bare' }, ({ from_address: from }) => <bdi title={from}>{from}</bdi>),
  column('Changed', { width: '9rem', phone: 'aside' }, ({ updated_at: at }) => <Time iso={at} />),
]

const DRAFT_TABLE = { label: 'Drafts, newest first', columns: DRAFT_COLUMNS }

const BROADCAST_COLUMNS: readonly Column<BroadcastSummary>[] = [
  column('Subject', {}, ({ id, subject }) => (
    <NameLink to="/broadcasts/$id" params={{ id }} name={subject || '(no subject)'} title={subject} />
  )),
  column('List', { width: '18%', phone: 'bare' }, ({ list_name: name }) => <bdi title={name}>{name}</bdi>),
  column('Status', { width: '10rem', phone: 'bare' }, (row) => <BroadcastStateLabel broadcast={row} />),
  column('Recipients', { width: '9rem', isNumeric: true }, (row) =>
    isOver(row.state) ? row.total_recipients.toLocaleString() : describeProgress(row),
  ),
  column('Begins', { width: '9rem', phone: 'aside' }, ({ begins_at: at }) => <Time iso={at} />),
]

const route = getRouteApi('/broadcasts/$id')

const REFRESH_INTERVAL_MS = 2000
export function BroadcastScreen() {
  const { id } = route.useParams()
  const query = useData(read.broadcasts.get(id), {
    refetchInterval: ({ state }) => {
      const shown = state.data?.data
      const hasOpenMail = shown && (shown.emails['queued'] ?? 0) + (shown.emails['processing'] ?? 0) > 0
      return shown && (!isOver(shown.state) || hasOpenMail) ? POLL_MS : SLOW_POLL_MS
    },
  })
  useReadAgainAfter(
    query,
    ({ email_id: email }) => email !== null && query.data !== undefined && !isOver(query.data.state),
    REFRESH_INTERVAL_MS,
  )
  return (
    <RecordPage
      title={query.data ? toTitle(query.data.subject) : 'Broadcast'}
      list={{ to: '/broadcasts' }}
      listName="All broadcasts"
      query={query}
      status={
        <span role="status" data-state={query.data?.state}>
          {query.data && <BroadcastStateLabel broadcast={query.data} />}
        </span>
      }
      description={query.data && <Summary broadcast={query.data} />}
      action={query.data && <Actions broadcast={query.data} />}
    >
      {(broadcast) => <BroadcastView broadcast={broadcast} />}
    </RecordPage>
  )
}

const Summary = ({ broadcast }: { readonly broadcast: Broadcast }) => (
  <>
    To {formatCount(broadcast.total_recipients, 'recipient')} of <ListLink {...broadcast} /> ·{' '}
    <Time iso={broadcast.begins_at} isRelative />
  </>
)

const BroadcastView = ({ broadcast }: { readonly broadcast: Broadcast }) => (
  <Stack gap="lg">
    {!isOver(broadcast.state) && (
      <Stack gap="xs">
        <Progress.Root size="md">
          <Progress.Section value={toPercent(broadcast)} aria-label="Recipients accepted for sending or skipped" />
        </Progress.Root>
        <Text c="dimmed">
          {describeProgress(broadcast)} recipients accepted for sending{broadcast.skipped > 0 && ' or skipped'}
        </Text>
      </Stack>
    )}
    {broadcast.message !== null && (
      <Notice tone={toBroadcastState(broadcast.state).tone === 'bad' ? 'bad' : 'warning'}>
        <span dir="auto">{broadcast.message}</span>
      </Notice>
    )}
    {broadcast.sandbox && (
      <Notice tone="warning">Its emails are captured and not sent: the domain of the sender is not verified.</Notice>
    )}
    <Results broadcast={broadcast} />
    <Section title="Details">
      <Facts
        facts={[
          ['Sender', broadcast.from_address],
          ['Accepted', <Time key="accepted" iso={broadcast.created_at} />],
          ['Last progress', <Time key="updated" iso={broadcast.updated_at} />],
          ['Id', <CopyText key="id" value={broadcast.id} what="id" />],
        ]}
      />
    </Section>
  </Stack>
)

const ListLink = ({ list_id: id, list_name: name, list_deleted: isDeleted }: Broadcast) =>
  isDeleted ? (
    <>
      <bdi>{name}</bdi> (deleted)
    </>
  ) : (
    <InlineLink to="/audience/lists/$id" params={{ id }} name={<bdi>{name}</bdi>} />
  )

function Actions({ broadcast }: { readonly broadcast: Broadcast }) {
  const { verbs } = toBroadcastState(broadcast.state)
  if (verbs.length === 0) return null
  return (
    <>
      {(['pause', 'resume'] as const).map(
        (verb) =>
          verbs.includes(verb) && (
            <RunButton
              key={verb}
              label={verb === 'pause' ? 'Pause' : 'Resume'}
              variant="default"
              needs="developer"
              refreshes={['broadcasts', 'newsletters']}
              run={() => api.operations[verb](broadcast.id)}
            />
          ),
      )}
      <ConfirmButton
        label="Cancel"
        needs="developer"
        title="Cancel this broadcast?"
        confirm="Cancel the broadcast"
        refreshes={['broadcasts', 'newsletters']}
        run={() => api.operations.cancel(broadcast.id)}
      >
        Emails that were not attempted yet are not sent. If nothing was sent, it becomes a draft again.
      </ConfirmButton>
    </>
  )
}

function Results({ broadcast }: { readonly broadcast: Broadcast }) {
  const delivered = broadcast.emails['sent'] ?? 0
  return (
    <Section
      title="Results"
      action={<TextLink to="/emails" search={{ operation_id: broadcast.id }} name="All emails of this broadcast" />}
    >
      <Figures
        figures={toResults(broadcast).map(({ label, count, status }) => ({
          ...toFigure(label, count, broadcast.total_recipients),
          ...(status !== undefined &&
            count > 0 && { target: linkOptions({ to: '/emails', search: { operation_id: broadcast.id, status } }) }),
        }))}
      />
      {delivered > 0 && !broadcast.sandbox && <Engagement broadcast={broadcast} delivered={delivered} />}
    </Section>
  )
}

/** @param whole what its share is of */
const toFigure = (label: string, value: number, whole: number): Figure => ({
  label,
  value,
  note: toShare(value, whole),
})

function Engagement({ broadcast, delivered }: { readonly broadcast: Broadcast; readonly delivered: number }) {
  const isPolling = useLiveState() === 'polling'
  // Counting takes seconds for a large broadcast, so it is not repeated often.
  const query = useData(read.broadcasts.getEngagement(broadcast.id), {
    staleTime: SLOW_POLL_MS,
    refetchInterval: isPolling ? false : SLOW_POLL_MS,
    retry: false,
  })
  if (!query.data)
    return query.error ? (
      <FormError error={query.error} />
    ) : (
      <Text size="sm" role="status">
        Opens and clicks are being counted.
      </Text>
    )
  const { opened, clicked, complained, unsubscribed } = query.data
  return (
    <Stack gap="xs">
      <Figures
        figures={[
          toFigure('Opened', opened, delivered),
          toFigure('Clicked', clicked, delivered),
          toFigure('Unsubscribed', unsubscribed, delivered),
          toFigure('Spam complaints', complained, delivered),
        ]}
      />
      <Text size="xs" c="dimmed">
        Shares of the delivered emails; those above are of all recipients. Many programs hide opens.
      </Text>
    </Stack>
  )
}

const DELAYED = { word: 'Delayed', tone: 'warning' } as const

const BroadcastStateLabel = ({ broadcast }: { readonly broadcast: BroadcastSummary }) => (
  <StateLabel state={isDelayed(broadcast) ? DELAYED : toBroadcastState(broadcast.state)} />
)
