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
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { RECEIVED, REFRESHED, refetchInterval, ServerFrame } from './frame.tsx'

const route = getRouteApi('/server/received')

const ENTRY_COLUMNS: readonly Column<OperatorReceivedMessage>[] = [
  column('Recipient', {}, ({ rcpt_to: to }) => <bdi>{to.join(', ')}</bdi>),
  column('Sender', { phone: 'bare' }, ({ mail_from: from }) => <bdi>{from || '<> (no sender)'}</bdi>),
  column('Status', { width: '10rem', phone: 'aside' }, ({ is_suspect: isSuspect }) =>
    isSuspect ? (
      <StatusLabel tone="warning" title="The process ended while it was processed, so it is processed alone.">
        Processed alone
      </StatusLabel>
    ) : (
      <StatusLabel tone="waiting">Waiting</StatusLabel>
    ),
  ),
  column('From', { width: '9rem', phone: 'none' }, ({ source_ip: ip }) => ip),
  column('Size', { width: '6rem', isNumeric: true, phone: 'none' }, ({ size_bytes: bytes }) => formatBytes(bytes)),
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
  column('Subject', {}, ({ subject }) => <bdi>{subject || '(no subject)'}</bdi>),
  column('Recipient', { phone: 'bare' }, ({ to }) => <bdi>{to}</bdi>),
  column('Sender', { phone: 'bare' }, ({ from }) => <bdi>{from}</bdi>),
  column('Why', { phone: 'bare' }, ({ parse_error: problem }) => <span title={problem}>{problem}</span>),
  column('Received', { width: '8.5rem', phone: 'bare' }, ({ received_at: at }) => <Time iso={at} />),
  column('Action', { width: '9rem', phone: 'bare' }, (row) => <Retry message={row} />),
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
                  <ButtonLink to="/server/received" variant="default" size="xs" mr="xs" name="Oldest" />
                )}
                {next !== null && (
                  <ButtonLink to="/server/received" search={{ after: next }} variant="default" size="xs" name="Newer" />
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
