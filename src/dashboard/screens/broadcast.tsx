/** @module One broadcast: how far it is, what came of it, and pausing, resuming and cancelling it. */
import { Progress, Stack, Text } from '@mantine/core'
import { getRouteApi, linkOptions } from '@tanstack/react-router'
import type { Broadcast, BroadcastSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useLiveState, useReadAgainAfter } from '../api/live.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { CopyText } from '../parts/copy.tsx'
import { ConfirmButton } from '../parts/dialog.tsx'
import { type Figure, Figures } from '../parts/figures.tsx'
import { FormError } from '../parts/form-error.tsx'
import { formatCount, toTitle } from '../parts/format.ts'
import { InlineLink, TextLink } from '../parts/links.tsx'
import { Notice } from '../parts/notice.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import { StateLabel } from '../parts/status.tsx'
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

const route = getRouteApi('/broadcasts/$id')

const REFRESH_INTERVAL_MS = 2000
export default function BroadcastScreen() {
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
    <InlineLink to="/audience/lists/$id" params={{ id }}>
      <bdi>{name}</bdi>
    </InlineLink>
  )

function Actions({ broadcast }: { readonly broadcast: Broadcast }) {
  const control = useChange(
    (verb: 'pause' | 'resume') => api.operations[verb](broadcast.id),
    'broadcasts',
    'newsletters',
  )
  const { verbs } = toBroadcastState(broadcast.state)
  if (verbs.length === 0) return null
  return (
    <>
      <FormError error={control.error} />
      {(['pause', 'resume'] as const).map(
        (verb) =>
          verbs.includes(verb) && (
            <ActionButton
              key={verb}
              variant="default"
              needs="developer"
              loading={control.isPending}
              onClick={() => control.mutate(verb)}
            >
              {verb === 'pause' ? 'Pause' : 'Resume'}
            </ActionButton>
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
      action={
        <TextLink to="/emails" search={{ operation_id: broadcast.id }}>
          All emails of this broadcast
        </TextLink>
      }
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

export const BroadcastStateLabel = ({ broadcast }: { readonly broadcast: BroadcastSummary }) => (
  <StateLabel state={isDelayed(broadcast) ? DELAYED : toBroadcastState(broadcast.state)} />
)
