/** @module The list of domains. */
import type { Domain } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useSession } from '../api/session.tsx'
import { NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { DomainStatus } from './domains/marks.tsx'
import { listMarks, RECORDS } from './domains/state.ts'
import { useDomainEvents } from './queries.ts'

const toMissing = (domain: Domain): string =>
  listMarks(domain)
    .flatMap(({ key, isVerified }) => (isVerified ? [] : [RECORDS[key].name]))
    .join(', ')

/** Plain for the role support, which may read no more than the list. */
const DomainName = ({ domain: { id, domain } }: { readonly domain: Domain }) =>
  useSession().role === 'support' ? (
    domain
  ) : (
    <NameLink to="/domains/$id" params={{ id }} title={domain}>
      {domain}
    </NameLink>
  )

const COLUMNS: readonly Column<Domain>[] = [
  {
    header: 'Domain',
    width: '28%',
    cell: (domain) => <DomainName domain={domain} />,
  },
  { header: 'Status', isWrapped: true, phone: 'bare', cell: (domain) => <DomainStatus domain={domain} /> },
  { header: 'Missing records', isWrapped: true, cell: (domain) => toMissing(domain) || 'None' },
  { header: 'Inbound mail', width: '14%', phone: 'none', cell: ({ inbound_enabled: isOn }) => (isOn ? 'On' : 'Off') },
  { header: 'Added', width: '12%', phone: 'none', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function DomainsScreen() {
  const list = useList({ read: read.domains.list })
  useDomainEvents()
  return (
    <ListScreen
      title="Domains"
      list={list}
      columns={COLUMNS}
      noun="domain"
      action={
        <ActionLink needs="developer" to="/domains/new">
          Add a domain
        </ActionLink>
      }
      nothing={{
        title: 'Your domains will appear here',
        text: 'Add the domain of your sender address, such as example.com, then a few DNS records. Until it is verified, its mail is captured in the Sandbox.',
        command: 'tassis domains add example.com',
      }}
    />
  )
}
