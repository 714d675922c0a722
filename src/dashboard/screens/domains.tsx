/** @module The list of domains. */
import { Code, Text } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { Domain } from '#client/api.ts'
import { read } from '../api/client.ts'
import { usePage } from '../api/data.ts'
import { ActionButton } from '../parts/form.tsx'
import { TextLink } from '../parts/links.tsx'
import { EmptyState, Page } from '../parts/page.tsx'
import { type Column, isEmpty, PagedTable } from '../parts/table.tsx'
import { DomainStatus, RecordMarks } from './domains/marks.tsx'
import { useDomainEvents } from './domains/queries.ts'

const COLUMNS: readonly Column<Domain>[] = [
  {
    header: 'Domain',
    cell: ({ id, domain }) => <TextLink to={`/domains/${id}`}>{domain}</TextLink>,
  },
  { header: 'Status', cell: (domain) => <DomainStatus domain={domain} /> },
  { header: 'Records', cell: (domain) => <RecordMarks domain={domain} /> },
  { header: 'Inbound mail', cell: ({ inbound_enabled }) => (inbound_enabled ? 'Accepted' : 'Off') },
  { header: 'Tracking host', cell: ({ tracking_domain }) => tracking_domain ?? 'Shared' },
]

export default function DomainsScreen() {
  const { page = 1 } = useSearch({ from: '/domains' })
  const query = usePage(read.domains.list({ page }))
  const navigate = useNavigate()
  useDomainEvents()
  const add = (
    <ActionButton needs="developer" onClick={() => navigate({ to: '/domains/new' })}>
      Add a domain
    </ActionButton>
  )
  return (
    <Page title="Domains" action={isEmpty(query) ? undefined : add}>
      <PagedTable
        query={query}
        label="Domains, newest first"
        columns={COLUMNS}
        path="/domains"
        page={page}
        noun="domains"
        empty={
          <EmptyState title="Your domains will appear here">
            <Text maw={640}>
              A domain is what comes after the @ of your sender address, such as example.com. You add a few DNS records
              to it, so that receivers know that the mail from here is yours. Until a domain is verified, its mail is
              captured and not sent.
            </Text>
            {add}
            <Text size="sm">
              On the server: <Code>tassis domains add example.com</Code>
            </Text>
          </EmptyState>
        }
      />
    </Page>
  )
}
