/** @module The list of agent mailboxes. */
import { NativeSelect, Text, TextInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { MailboxRecord } from '#features/receiving/agent-mailboxes/model.ts'
import type { DomainWire } from '#features/setup/domains/model.ts'
import { request } from '../api/client.ts'
import { PAGE_SIZE, useAllDomains } from '../api/inbound.ts'
import { readAgain, useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { usePage } from '../api/read.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton, DialogFrame, findFieldError } from '../parts/form.tsx'
import { formatBytes } from '../parts/format.ts'
import { InlineLink, SmallLink } from '../parts/links.tsx'
import { EmptyState, Page, QueryView } from '../parts/page.tsx'
import { type Column, DataTable, Pages } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { InboundNavigation } from './inbound/marks.tsx'

const route = getRouteApi('/inbound/mailboxes')

const COLUMNS: readonly Column<MailboxRecord>[] = [
  {
    header: 'Address',
    cell: ({ id, address, display_name: name }) => (
      <>
        <SmallLink to={`/inbound/mailboxes/${id}`}>{address}</SmallLink>
        {name !== null && (
          <Text size="sm" c="dimmed" lineClamp={2}>
            <bdi>{name}</bdi>
          </Text>
        )}
      </>
    ),
  },
  {
    header: 'Messages',
    width: '9rem',
    cell: ({ message_count: messages, thread_count: threads }) =>
      `${messages.toLocaleString()} in ${threads.toLocaleString()} ${threads === 1 ? 'thread' : 'threads'}`,
  },
  {
    header: 'Unread',
    width: '8rem',
    cell: ({ unread_count: count, unread_bytes: bytes }) =>
      count === 0 ? '0' : `${count.toLocaleString()} (${formatBytes(bytes)})`,
  },
  { header: 'Created', width: '6.5rem', cell: ({ created_at: at }) => <Time iso={at} /> },
]

const createCommand = () => `curl ${location.origin}/v1/agent-mailboxes \\
  -H 'Authorization: Bearer YOUR_API_KEY' \\
  -H 'Content-Type: application/json' \\
  -d '{"local_part": "agent"}'`

const isReceiving = ({ status, inbound_enabled: isEnabled }: DomainWire): boolean => status === 'verified' && isEnabled

export default function MailboxesScreen() {
  const { page = 1 } = route.useSearch()
  const [isOpen, setIsOpen] = useState(false)
  const query = usePage<MailboxRecord>(['mailboxes', 'list', page], '/v1/agent-mailboxes', {
    page,
    per_page: PAGE_SIZE,
  })
  const refreshSoon = useRefreshSoon(() => readAgain(query))
  useLiveEvents(({ event_type: type }) => {
    if (type === 'mailbox.message.received') refreshSoon()
  })
  const { data: domains } = useAllDomains()
  const reason = useAllowed('developer')
  const first = domains?.find(({ status }) => status === 'verified') ?? domains?.[0]
  const canReceive = domains === undefined || domains.some(isReceiving)
  const add = (
    <ActionButton
      reason={reason ?? (canReceive ? undefined : 'No verified domain of this account receives mail.')}
      onClick={() => setIsOpen(true)}
    >
      Create a mailbox
    </ActionButton>
  )
  const isEmpty = query.data?.pagination.total === 0
  return (
    <Page title="Mailboxes" action={isEmpty ? undefined : add}>
      <InboundNavigation />
      <QueryView query={query}>
        {({ data, pagination }) =>
          pagination.total === 0 ? (
            <EmptyState title="Your mailboxes will appear here" {...(canReceive && { command: createCommand() })}>
              <Text maw={640}>
                A mailbox is an address that a program reads: it takes each message, and replies in the same thread.
                Here you see its threads, and can reply yourself.
              </Text>
              {add}
              {!canReceive && (
                <Text>
                  A mailbox belongs to a verified domain with “Receive mail” on:{' '}
                  {first ? (
                    <InlineLink to={`/domains/${first.id}`}>settings of {first.domain}</InlineLink>
                  ) : (
                    <InlineLink to="/domains/new">add a domain</InlineLink>
                  )}
                  . The server must listen for mail (TASSIS_INBOUND_ADDR).
                </Text>
              )}
            </EmptyState>
          ) : (
            <>
              <DataTable label="Mailboxes, newest first" columns={COLUMNS} rows={data} toKey={({ id }) => id} />
              {data.length === 0 && <Text>There are no mailboxes on this page.</Text>}
              <Pages path="/inbound/mailboxes" page={page} totalPages={pagination.total_pages} />
            </>
          )
        }
      </QueryView>
      {isOpen && <NewMailbox domains={(domains ?? []).filter(isReceiving)} onClose={() => setIsOpen(false)} />}
    </Page>
  )
}

interface NewMailboxProps {
  readonly domains: readonly DomainWire[]
  onClose(): void
}

function NewMailbox({ domains, onClose }: NewMailboxProps) {
  const [localPart, setLocalPart] = useState('')
  const [name, setName] = useState('')
  const [domain, setDomain] = useState(domains[0]?.id ?? '')
  const queries = useQueryClient()
  const navigate = useNavigate()
  const create = useMutation({
    mutationFn: () =>
      request<{ data: MailboxRecord }>('POST', '/v1/agent-mailboxes', {
        body: {
          domain_id: domain,
          ...(localPart.trim() !== '' && { local_part: localPart.trim() }),
          ...(name.trim() !== '' && { display_name: name.trim() }),
        },
      }),
    onSuccess: async ({ data }) => {
      await navigate({ to: `/inbound/mailboxes/${data.id}` as never })
      await queries.invalidateQueries({ queryKey: ['mailboxes', 'list'] })
    },
  })
  const errors = ['local_part', 'domain_id', 'display_name'].map((field) => findFieldError(create.error, field))
  return (
    <DialogFrame
      title="Create a mailbox"
      confirm="Create"
      work={{
        isPending: create.isPending,
        error: errors.some((message) => message !== undefined) ? undefined : create.error,
      }}
      isIncomplete={domain === ''}
      onConfirm={() => create.mutate()}
      onClose={onClose}
    >
      <TextInput
        label="Part before the @"
        description="Empty: a random one, such as calm-otter-0482."
        value={localPart}
        onChange={(event) => setLocalPart(event.currentTarget.value)}
        error={errors[0]}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        data-autofocus
      />
      <NativeSelect
        label="Domain"
        data={domains.map(({ id, domain: label }) => ({ value: id, label }))}
        value={domain}
        onChange={(event) => setDomain(event.currentTarget.value)}
        error={errors[1]}
      />
      <TextInput
        label="Name"
        description="In From of its replies; may be empty."
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={errors[2]}
        autoComplete="off"
      />
    </DialogFrame>
  )
}
