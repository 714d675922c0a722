/** @module Received mail: what is not processed yet, and what could not be parsed. */

import { Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorReceivedMessage, OperatorUnparsedMessage } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { formatBytes } from '../../parts/format.ts'
import { ButtonLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { RECEIVED, REFRESHED, refetchInterval, ServerFrame } from './frame.tsx'

const route = getRouteApi('/server/received')

const ENTRY_COLUMNS: readonly Column<OperatorReceivedMessage>[] = [
  { header: 'Recipient', cell: ({ rcpt_to: to }) => <bdi>{to.join(', ')}</bdi> },
  { header: 'Sender', phone: 'bare', cell: ({ mail_from: from }) => <bdi>{from || '<> (no sender)'}</bdi> },
  {
    header: 'Status',
    width: '10rem',
    phone: 'aside',
    cell: ({ is_suspect: isSuspect }) =>
      isSuspect ? (
        <StatusLabel tone="warning" title="The process ended while it was processed, so it is processed alone.">
          Processed alone
        </StatusLabel>
      ) : (
        <StatusLabel tone="waiting">Waiting</StatusLabel>
      ),
  },
  { header: 'From', width: '9rem', phone: 'none', cell: ({ source_ip: ip }) => ip },
  {
    header: 'Size',
    width: '6rem',
    isNumeric: true,
    phone: 'none',
    cell: ({ size_bytes: bytes }) => formatBytes(bytes),
  },
  { ...RECEIVED, phone: 'bare' },
]

export default function ReceivedScreen() {
  const list = useList({ read: read.operator.listReceivedMessages, ...REFRESHED })
  return (
    <ServerFrame title="Received mail" query={list.query}>
      <Section title="Not processed yet">
        <ListView
          list={list}
          columns={ENTRY_COLUMNS}
          isWide
          noun="message"
          empty={<Text c="dimmed">Nothing is waiting. A message takes effect within a moment.</Text>}
        />
      </Section>
      <Unparsed />
    </ServerFrame>
  )
}

const UNPARSED_COLUMNS: readonly Column<OperatorUnparsedMessage>[] = [
  { header: 'Subject', cell: ({ subject }) => <bdi>{subject || '(no subject)'}</bdi> },
  { header: 'Recipient', phone: 'bare', cell: ({ to }) => <bdi>{to}</bdi> },
  { header: 'Sender', phone: 'bare', cell: ({ from }) => <bdi>{from}</bdi> },
  {
    header: 'Why',
    phone: 'bare',
    cell: ({ parse_error: problem }) => <span title={problem}>{problem}</span>,
  },
  { header: 'Received', width: '8.5rem', phone: 'bare', cell: ({ received_at: at }) => <Time iso={at} /> },
  {
    header: 'Action',
    width: '9rem',
    phone: 'bare',
    cell: (row) => <Retry message={row} />,
  },
]

function Unparsed() {
  const { after } = route.useSearch()
  const query = usePage(read.operator.listUnparsedMessages({ after }), { refetchInterval })
  return (
    <Section title="Could not be parsed">
      <QueryView query={query}>
        {({ data, next_after: next }) => (
          <Stack gap="xs">
            {data.length === 0 ? (
              <Text c="dimmed">
                {after === undefined
                  ? 'None. Of such a message, its account sees only the header and the source.'
                  : 'There are no more.'}
              </Text>
            ) : (
              <DataTable
                label="Messages that could not be parsed, the oldest first"
                isWide
                columns={UNPARSED_COLUMNS}
                rows={data}
              />
            )}
            {(after !== undefined || next !== null) && (
              <nav aria-label="Pages of messages that could not be parsed">
                {after !== undefined && (
                  <ButtonLink to="/server/received" variant="default" size="xs" mr="xs">
                    Oldest
                  </ButtonLink>
                )}
                {next !== null && (
                  <ButtonLink to="/server/received" search={{ after: next }} variant="default" size="xs">
                    Newer
                  </ButtonLink>
                )}
              </nav>
            )}
          </Stack>
        )}
      </QueryView>
    </Section>
  )
}

const Retry = ({ message }: { readonly message: OperatorUnparsedMessage }) => (
  <ConfirmButton
    label="Parse it again"
    size="compact-sm"
    title="Parse this message again?"
    isDangerous={false}
    refreshes={['operator']}
    run={() => api.operator.retryUnparsedMessage(message.id)}
    done={({ data: { parse_error: problem } }) =>
      problem === null ? 'The message was parsed.' : `It still cannot be parsed: ${problem}`
    }
  >
    <Text>
      <bdi>{message.subject || '(no subject)'}</bdi>
    </Text>
    <Text>If that works, its account sees the whole message. Its events are not sent again.</Text>
  </ConfirmButton>
)
