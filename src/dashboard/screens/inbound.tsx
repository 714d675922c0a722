/** @module The list of received mail: newest first, with filters, live. */
import { Code, List, Text } from '@mantine/core'
import type { InboundEmailSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { formatCount } from '../parts/format.ts'
import { InlineLink, NameLink, TextLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { INBOUND_FILTERS } from './filters.ts'
import { formatRoute } from './inbound/format.ts'
import { EmailStatus, InboundNavigation } from './inbound/marks.tsx'
import { findClaimedAddress, findDisplayName, toVisible } from './inbound/proof.ts'
import { useAllDomains, useAllRoutes } from './queries.ts'

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
      columns={COLUMNS}
      noun="message"
      choices={{
        domain_id: names,
        route_id: new Map(routes.map((route) => [route.id, formatRoute(route, names.get(route.domain_id))])),
      }}
      navigation={<InboundNavigation />}
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
            <TextLink underline="always" to="/domains/new" name="add a domain" />
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
  column('From', { width: '30%' }, (email) => <Sender email={email} />),
  column('Subject', { phone: 'bare' }, (email) => <Subject email={email} />),
  column('To', { width: '18%', phone: 'none' }, ({ rcpt_to: [first = '', ...more] }) => (
    <>
      <bdi>{toVisible(first)}</bdi>
      {more.length > 0 && ` +${more.length}`}
    </>
  )),
  column('Status', { width: '10rem', phone: 'bare' }, (email) => <EmailStatus email={email} />),
  column('Received', { width: '8rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
]

interface RowProps {
  readonly email: InboundEmailSummary
}

function Sender({ email: { id, from_address: from, from_header: header, mail_from: envelope } }: RowProps) {
  const address = from === '' ? (envelope === '' ? '(null sender)' : toVisible(envelope)) : toVisible(from)
  // A name that shows another address deceives.
  const name = findClaimedAddress(header, from) === undefined ? findDisplayName(header) : undefined
  return (
    <span title={address}>
      <NameLink to="/inbound/$id" params={{ id }} name={name ?? address} note={name && address} />
    </span>
  )
}

const MAX_TOOLTIP_LENGTH = 1000

const Subject = ({ email: { subject, attachments } }: RowProps) => (
  <span title={subject.slice(0, MAX_TOOLTIP_LENGTH)}>
    <bdi>{subject || '(no subject)'}</bdi>
    {attachments.length > 0 && (
      <span className="time-relative"> · {formatCount(attachments.length, 'attachment')}</span>
    )}
  </span>
)
