/**
 * @module What waits for delivery, why and until when: by destination and account; and the recipients of one of them.
 * Holds, releases, retries, bounces and drops it.
 */

import { Button, Group, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type {
  OperatorFence,
  OperatorQueue,
  OperatorQueueRecipient,
  OperatorQueueRule,
  OperatorQueueSelection,
  RetryOperatorQueueResult,
} from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useData, usePage } from '../../api/data.ts'
import { ConfirmButton, ConfirmDialog, DialogButton } from '../../parts/dialog.tsx'
import { keep } from '../../parts/filters.ts'
import { formatCount } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListFilters, ListScreen, NewRows, useList } from '../../parts/list.tsx'
import { EmptyState, Section } from '../../parts/page.tsx'
import { useSteadyRows } from '../../parts/rows.ts'
import { StatusBadge } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { QUEUE_FILTERS } from '../filters.ts'
import {
  ACTIONS,
  describeResult,
  describeRule,
  describeSelector,
  type QueueAction,
  type QueueResult,
  type QueueSelector,
  toRuleSelector,
} from './format.ts'
import { AccountLink, REFRESHED, refetchInterval, ServerFrame, ServerPage, useOne } from './frame.tsx'

const route = getRouteApi('/server/queue')

const toDestination = ({ domain, is_broadcast: isBroadcast }: Pick<OperatorQueue, 'domain' | 'is_broadcast'>): string =>
  `${domain === 'sandbox' ? 'Sandbox' : domain}${isBroadcast ? ' (broadcasts)' : ''}`

const COLUMNS: readonly Column<OperatorQueue>[] = [
  column('Destination', {}, (row) => (
    <NameLink to="/server/queue" search={{ lane: row.lane, ...keep('account_id', row.account_id ?? undefined) }}>
      <bdi>{toDestination(row)}</bdi>
    </NameLink>
  )),
  column('Account', { phone: 'bare' }, ({ account, account_id: id }) => <AccountLink id={id} name={account} isPlain />),
  column('Why', { width: '40%', phone: 'bare' }, ({ reason }) => <bdi title={reason}>{reason}</bdi>),
  column('Waiting', { width: '6rem', isNumeric: true, phone: 'aside' }, ({ waiting }) => waiting.toLocaleString()),
  column('First due', { width: '8.5rem', isNumeric: true }, ({ first_due_at: at }) => <Time iso={at} />),
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
      nothing={{
        title: 'The queue is empty',
        text: 'Mail that waits appears here, with the reason and the time of the next attempt.',
      }}
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
  column('Recipient', {}, ({ recipient }) => <bdi title={recipient}>{recipient}</bdi>),
  column('Status', { width: '9rem', phone: 'aside' }, ({ status }) => <StatusBadge status={status} />),
  column('Last error', { width: '40%', phone: 'bare' }, ({ last_error: error }) => (
    <bdi title={error ?? undefined}>{error ?? '–'}</bdi>
  )),
  column('Attempts', { width: '6rem', isNumeric: true }, ({ attempts }) => attempts),
  column('Next attempt', { width: '8.5rem', isNumeric: true }, (row) => <NextAttempt {...row} />),
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

const MAX_SHOWN = 20

/** Nothing when there are none. */
function QueueRules() {
  const rules = useOne(read.operator.listQueueRules()).data ?? []
  const [released, setReleased] = useState<OperatorQueueRule>()
  // The dialog outlives the last rule, to say that it ended.
  if (rules.length === 0 && !released) return null
  return (
    <Section title="Holds and redirects" isCard>
      <ul className="plain-list">
        {rules.slice(0, MAX_SHOWN).map((rule) => (
          <li key={rule.id}>
            <Text span inherit style={{ overflowWrap: 'anywhere' }}>
              <bdi>{describeRule(rule)}</bdi> {rule.to === null ? 'is held' : `goes to ${rule.to}`} since{' '}
              <Time iso={rule.created_at} />
              {rule.reason !== '' && (
                <>
                  : <bdi>{rule.reason}</bdi>
                </>
              )}
            </Text>{' '}
            <Button
              variant="default"
              size="compact-xs"
              aria-label={`Release: ${describeRule(rule)}`}
              onClick={() => setReleased(rule)}
            >
              Release
            </Button>
          </li>
        ))}
      </ul>
      {rules.length > MAX_SHOWN && (
        <Text c="dimmed">
          The {MAX_SHOWN} oldest of {rules.length.toLocaleString()}; `tassis queue --json` has all.
        </Text>
      )}
      {released && (
        <QueueDialog action="release" selector={toRuleSelector(released)} onClose={() => setReleased(undefined)} />
      )}
    </Section>
  )
}

/** Nothing when nothing waits. */
function Fence() {
  const fence = useOne(read.operator.getFence()).data
  if (!fence) return null
  const waiting = describeWaiting(fence)
  const shared = { size: 'compact-sm', refreshes: ['operator'], done: (message: string) => message } as const
  return (
    <Section
      title={`Waiting since the ${fence.kind === 'copy' ? 'copy' : 'restore'}`}
      isCard
      description={
        <>
          {waiting}, since <Time iso={fence.restored_at} />: it may have been sent before.
        </>
      }
    >
      <Group gap="xs">
        <ConfirmButton label="Release all" title="Release what waits" isDangerous={false} run={releaseAll} {...shared}>
          {waiting}. It is sent, although some of it may have been sent before the restore.
        </ConfirmButton>
        <ConfirmButton label="Drop all" title="Drop what waits" typed="drop" run={dropAll} {...shared}>
          {waiting}. It is cancelled, with events, and its quota is given back. Requests for confirmation, welcomes and
          imports end, too.
        </ConfirmButton>
      </Group>
    </Section>
  )
}

const describeWaiting = (fence: OperatorFence): string =>
  [
    formatCount(fence.recipients, 'recipient'),
    ...(fence.broadcasts > 0 ? [formatCount(fence.broadcasts, 'broadcast')] : []),
    ...(fence.contact_mails > 0 ? [formatCount(fence.contact_mails, 'mail')] : []),
    ...(fence.imports > 0 ? [formatCount(fence.imports, 'import')] : []),
  ].join(', ')

async function releaseAll(): Promise<string> {
  const { data } = await api.operator.releaseFence({})
  return `Released ${formatCount(data.released, 'recipient')}.`
}

/** Each request drops a limited number. */
async function dropAll(): Promise<string> {
  let dropped = 0
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data } = await api.operator.dropFence({ cursor })
    dropped += data.dropped
    cursor = data.next_cursor
  }
  return `Dropped ${formatCount(dropped, 'recipient')}.`
}

/** Changes all that matches: each request changes a limited number. */
async function changeAll(
  change: (cursor: string | undefined) => Promise<{ readonly data: RetryOperatorQueueResult }>,
): Promise<QueueResult> {
  const sum = { changed: 0, in_delivery: 0, held: 0 }
  const suspended = new Set<string>()
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const { data } = await change(cursor)
    sum.changed += data.changed
    sum.in_delivery += data.in_delivery
    sum.held += data.held
    for (const name of data.suspended) suspended.add(name)
    cursor = data.next_cursor
  }
  return { ...sum, suspended: [...suspended] }
}

const NONE: QueueResult = { changed: 0, in_delivery: 0, held: 0, suspended: [] }
const toHeld = ({ waiting, in_delivery }: OperatorQueueSelection) => ({ ...NONE, changed: waiting, in_delivery })

/** Each resolves with how much mail was changed, or is held; that of a release with how many rules ended. */
const RUN: Readonly<Record<QueueAction, (selector: QueueSelector, reason: string) => Promise<QueueResult>>> = {
  hold: async (selector, reason) => toHeld((await api.operator.holdQueue({ ...selector, reason })).data),
  release: async (selector) => ({ ...NONE, changed: (await api.operator.releaseQueue(selector)).data.length }),
  retry: (selector) => changeAll((cursor) => api.operator.retryQueue({ ...selector, cursor })),
  bounce: (selector, reason) => changeAll((cursor) => api.operator.bounceQueue({ ...selector, reason, cursor })),
  drop: (selector) => changeAll((cursor) => api.operator.dropQueue({ ...selector, cursor })),
}

const ALL_ACTIONS: readonly QueueAction[] = ['hold', 'release', 'retry', 'bounce', 'drop']

export const QueueActions = ({ selector }: { readonly selector: QueueSelector }) => (
  <Group gap="xs" role="group" aria-label={`What to do with ${describeSelector(selector)}`}>
    {ALL_ACTIONS.map((name) => (
      <DialogButton key={name} label={ACTIONS[name].button} variant="default" size="compact-sm">
        {(close) => <QueueDialog action={name} selector={selector} onClose={close} />}
      </DialogButton>
    ))}
  </Group>
)

interface QueueDialogProps {
  readonly action: QueueAction
  readonly selector: QueueSelector
  onClose(): void
}

function QueueDialog({ action, selector, onClose }: QueueDialogProps) {
  const { title, button, effect, readers, isDangerous = false } = ACTIONS[action]
  const selection = useData(read.operator.getQueueSelection(selector), { gcTime: 0 })
  return (
    <ConfirmDialog
      title={title}
      confirm={button}
      isDangerous={isDangerous}
      error={selection.error}
      fields={
        readers === undefined
          ? []
          : [
              {
                name: 'reason',
                label: 'Reason',
                kind: 'lines',
                hint: `One sentence; ${readers} read it.`,
                isRequired: action === 'bounce',
              },
            ]
      }
      isIncomplete={selection.data === undefined}
      {...(isDangerous && { typed: selector.domain ?? action })}
      refreshes={['operator']}
      run={({ reason = '' }: { readonly reason?: string }) => RUN[action](selector, reason)}
      done={(result) => describeResult(action, result)}
      onClose={onClose}
    >
      <Text style={{ overflowWrap: 'anywhere' }}>
        This is <bdi>{describeSelector(selector)}</bdi>. {effect}
      </Text>
      <Text role="status" fw={600}>
        {selection.data === undefined
          ? 'What matches is being counted.'
          : `${formatCount(selection.data.waiting, 'recipient')} match; ${selection.data.in_delivery.toLocaleString()} more in delivery are left alone.`}
      </Text>
    </ConfirmDialog>
  )
}
