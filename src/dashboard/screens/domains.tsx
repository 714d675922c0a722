/** @module The list of domains. */
import { Code, Text } from '@mantine/core'
import type { Domain } from '#client/api.ts'
import { read } from '../api/client.ts'
import { NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { DomainStatus, RecordMarks } from './domains/marks.tsx'
import { useDomainEvents } from './domains/queries.ts'

const COLUMNS: readonly Column<Domain>[] = [
  {
    header: 'Domain',
    cell: ({ id, domain }) => (
      <NameLink to="/domains/$id" params={{ id }}>
        {domain}
      </NameLink>
    ),
  },
  { header: 'Status', cell: (domain) => <DomainStatus domain={domain} /> },
  { header: 'Records', cell: (domain) => <RecordMarks domain={domain} /> },
  { header: 'Inbound mail', cell: ({ inbound_enabled }) => (inbound_enabled ? 'Accepted' : 'Off') },
  { header: 'Tracking host', cell: ({ tracking_domain }) => tracking_domain ?? 'Shared' },
]

export default function DomainsScreen() {
  const list = useList({ read: read.domains.list })
  useDomainEvents()
  const add = (
    <ActionLink needs="developer" to="/domains/new">
      Add a domain
    </ActionLink>
  )
  return (
    <ListScreen
      title="Domains"
      list={list}
      label="Domains, newest first"
      columns={COLUMNS}
      noun="domain"
      action={add}
      empty={
        <EmptyState
          title="Your domains will appear here"
          text="A domain is what comes after the @ of your sender address, such as example.com. You add a few DNS records to it, so that receivers know that the mail from here is yours. Until a domain is verified, its mail is captured and not sent."
        >
          {add}
          <Text size="sm">
            On the server: <Code>tassis domains add example.com</Code>
          </Text>
        </EmptyState>
      }
    />
  )
}
