/** @module The list of agent mailboxes. */
import { Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { Domain, Mailbox } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { toCurl } from '../parts/commands.ts'
import { FormButton } from '../parts/dialog.tsx'
import { InlineLink, NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { InboundNavigation } from './inbound/marks.tsx'
import { useAllDomains } from './queries.ts'

const COLUMNS: readonly Column<Mailbox>[] = [
  {
    header: 'Address',
    cell: ({ id, address, display_name: name }) => (
      <>
        <NameLink to="/inbound/mailboxes/$id" params={{ id }}>
          {address}
        </NameLink>
        {name !== null && (
          <span className="time-relative">
            {' '}
            <bdi>{name}</bdi>
          </span>
        )}
      </>
    ),
  },
  {
    header: 'Threads',
    width: '7rem',
    isNumeric: true,
    phone: 'none',
    cell: (row) => row.thread_count.toLocaleString(),
  },
  { header: 'Messages', width: '7rem', isNumeric: true, cell: (row) => row.message_count.toLocaleString() },
  { header: 'Unread', width: '7rem', isNumeric: true, cell: (row) => row.unread_count.toLocaleString() },
  { header: 'Created', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
]

const isReceiving = ({ status, inbound_enabled: isEnabled }: Domain): boolean => status === 'verified' && isEnabled

export default function MailboxesScreen() {
  const list = useList({
    read: read.mailboxes.list,
    isConcerned: ({ event_type: type }) => type === 'mailbox.message.received',
  })
  const navigate = useNavigate()
  const { data: domains } = useAllDomains()
  const first = domains?.find(({ status }) => status === 'verified') ?? domains?.[0]
  const canReceive = domains === undefined || domains.some(isReceiving)
  return (
    <ListScreen
      title="Mailboxes"
      list={list}
      columns={COLUMNS}
      noun="mailbox"
      action={
        <FormButton
          label="Create a mailbox"
          needs="developer"
          reason={canReceive ? undefined : 'No verified domain of this account receives mail.'}
          confirm="Create"
          fields={[
            {
              name: 'local_part',
              label: 'Part before the @',
              kind: 'code',
              hint: 'Empty: a random one, such as calm-otter-0482.',
            },
            {
              name: 'domain_id',
              label: 'Domain',
              kind: 'choice',
              options: (domains ?? []).filter(isReceiving).map(({ id, domain: label }) => ({ value: id, label })),
            },
            { name: 'display_name', label: 'Name', hint: 'In From of its replies; may be empty.' },
          ]}
          refreshes={[['mailboxes', 'list']]}
          run={api.mailboxes.create}
          onDone={({ data }) => navigate({ to: '/inbound/mailboxes/$id', params: { id: data.id } })}
        />
      }
      navigation={<InboundNavigation />}
      nothing={{
        title: 'Your mailboxes will appear here',
        text: 'A mailbox is an address that a program reads and answers. Here you see its threads, and can reply yourself.',
        ...(canReceive && { command: toCurl('/v1/agent-mailboxes', { local_part: 'agent' }) }),
        children: !canReceive && (
          <Text>
            A mailbox belongs to a verified domain with “Receive mail” on:{' '}
            {first ? (
              <InlineLink to="/domains/$id" params={{ id: first.id }}>
                settings of {first.domain}
              </InlineLink>
            ) : (
              <InlineLink to="/domains/new">add a domain</InlineLink>
            )}
            . The server must listen for mail (TASSIS_INBOUND_ADDR).
          </Text>
        ),
      }}
    />
  )
}
