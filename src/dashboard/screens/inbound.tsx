/** @module The list of received mail: newest first, with filters, live. */
import { Code, List, Stack, Text } from '@mantine/core'
import type { InboundEmailSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { formatBytes } from '../parts/format.ts'
import { InlineLink, NameLink, TextLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { useAllDomains } from './domains/queries.ts'
import { INBOUND_FILTERS } from './filters.ts'
import { formatRoute } from './inbound/format.ts'
import { InboundNavigation, InboundStatus } from './inbound/marks.tsx'
import { toProof } from './inbound/proof.ts'
import { useAllRoutes } from './inbound/queries.ts'
import { findDisplayName, toVisible } from './inbound/visible.ts'

/** Mail without a route has no event, so the list is also read again after this time. */
const REFRESH_MS = 30_000

export default function InboundScreen() {
  const list = useList({
    read: read.inboundEmails.list,
    filters: INBOUND_FILTERS,
    isCapped: () => true,
    isSteady: true,
    isConcerned: ({ event_type: type }) => type === 'email.inbound',
    refetchInterval: REFRESH_MS,
  })
  const { data: domains = [] } = useAllDomains()
  const { data: routes = [] } = useAllRoutes()
  const names = new Map(domains.map(({ id, domain }) => [id, domain]))
  return (
    <ListScreen
      title="Inbound"
      list={list}
      label="Received mail"
      columns={COLUMNS}
      noun="message"
      choices={{
        domain_id: names,
        route_id: new Map(routes.map((route) => [route.id, formatRoute(route, names.get(route.domain_id))])),
      }}
      above={<InboundNavigation />}
      empty={<NothingYet />}
      advice="A sender is a whole address, as it stands in From."
    />
  )
}

/** What is still needed before mail arrives, as far as the account can see it. */
function NothingYet() {
  const { data: domains = [] } = useAllDomains()
  const receiving = domains.filter(({ status, inbound_enabled }) => status === 'verified' && inbound_enabled)
  const first = domains.find(({ status }) => status === 'verified') ?? domains[0]
  return (
    <EmptyState title="Mail to your domains will appear here">
      {receiving.length > 0 ? (
        <Text maw={640}>
          {receiving.map(({ domain }) => domain).join(', ')} {receiving.length === 1 ? 'receives' : 'receive'} mail.
          Send a message to any address there.
        </Text>
      ) : (
        <Text maw={640}>No domain of this account receives mail yet.</Text>
      )}
      <Text maw={640}>Mail arrives when all of this is true:</Text>
      <List size="sm" maw={640}>
        <List.Item>
          The server listens for mail: its operator sets <Code>TASSIS_INBOUND_ADDR</Code>, such as{' '}
          <Code>0.0.0.0:25</Code>, and port 25 is open.
        </List.Item>
        <List.Item>
          A domain is verified, and its switch “Receive mail” is on:{' '}
          {first ? (
            <TextLink underline="always" to="/domains/$id" params={{ id: first.id }}>
              settings of {first.domain}
            </TextLink>
          ) : (
            <TextLink underline="always" to="/domains/new">
              add a domain
            </TextLink>
          )}
          .
        </List.Item>
        <List.Item>The MX record of the domain points to this server; the page of the domain shows it.</List.Item>
        <List.Item>
          A <InlineLink to="/inbound/routes">route</InlineLink> matches the address. Without one, only the newest 1,000
          messages of a domain are kept.
        </List.Item>
      </List>
    </EmptyState>
  )
}

const COLUMNS: readonly Column<InboundEmailSummary>[] = [
  { header: 'From', width: '28%', cell: (email) => <Sender email={email} /> },
  { header: 'Subject', cell: (email) => <Subject email={email} /> },
  {
    header: 'State',
    width: '9rem',
    cell: (email) => (
      <Stack gap={2} align="flex-start">
        <ProofMark email={email} />
        <InboundStatus status={email.status} />
      </Stack>
    ),
  },
  { header: 'Time', width: '6.5rem', cell: ({ created_at: at }) => <Time iso={at} /> },
]

const MAX_TOOLTIP_LENGTH = 1000

function Sender({ email: { id, from_address: from, from_header: header, mail_from: envelope } }: RowProps) {
  const name = findDisplayName(header)
  return (
    <>
      <NameLink to="/inbound/$id" params={{ id }} name={from === '' ? '(no sender named)' : toVisible(from)} />
      {name && (
        <Text size="sm" c="dimmed" lineClamp={1}>
          <bdi>{name}</bdi>
        </Text>
      )}
      {from === '' && (
        <Text size="sm" c="dimmed" lineClamp={1}>
          {envelope === '' ? 'Null sender' : `Envelope: ${toVisible(envelope)}`}
        </Text>
      )}
    </>
  )
}

interface RowProps {
  readonly email: InboundEmailSummary
}

function Subject({ email: { id, subject, rcpt_to: to, attachments, size_bytes: size } }: RowProps) {
  const [first = '', ...more] = to
  return (
    <>
      {/* The mouse may use it; the keyboard has the link of the sender. */}
      <TextLink
        to="/inbound/$id"
        params={{ id }}
        c="inherit"
        lineClamp={2}
        title={subject.slice(0, MAX_TOOLTIP_LENGTH)}
        tabIndex={-1}
      >
        <bdi>{subject || '(no subject)'}</bdi>
      </TextLink>
      <Text size="sm" c="dimmed" title={to.map(toVisible).join(', ')}>
        To <bdi>{toVisible(first)}</bdi>
        {more.length > 0 && ` and ${more.length} more`}; {formatBytes(size)}
        {attachments.length > 0 &&
          (attachments.length === 1 ? ', 1 attachment' : `, ${attachments.length} attachments`)}
      </Text>
    </>
  )
}

function ProofMark({ email: { authentication, from_address: from } }: RowProps) {
  const { tone, word, sentence } = toProof({ authentication, from })
  return (
    <StatusLabel tone={tone} title={sentence}>
      {word}
    </StatusLabel>
  )
}
