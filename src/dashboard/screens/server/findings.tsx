/** @module What the monitoring of accounts found: suspicions, and pauses. */
import { Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorFinding } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { EmptyState, Facts } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { AccountFilter, AccountLink } from './account-link.tsx'
import { toAccountQuery } from './filters.ts'
import { toDetailText, toSourceName } from './format.ts'
import { ServerList } from './frame.tsx'
import { useList } from './queries.ts'

const route = getRouteApi('/server/findings')

const COLUMNS: readonly Column<OperatorFinding>[] = [
  { header: 'Account', width: '16%', cell: ({ account_id: id, account }) => <AccountLink id={id} name={account} /> },
  { header: 'Found', width: '14%', cell: ({ created_at: at }) => <Time iso={at} /> },
  { header: 'Source', width: '14%', cell: ({ source }) => toSourceName(source) },
  {
    header: 'Effect',
    width: '16%',
    cell: ({ paused }) =>
      paused ? <StatusLabel tone="bad">Paused</StatusLabel> : <StatusLabel tone="warning">Only noted</StatusLabel>,
  },
  { header: 'Finding', cell: (finding) => <Details finding={finding} /> },
]

function Details({ finding: { reason, detail, email_id: emailId } }: { readonly finding: OperatorFinding }) {
  const facts =
    typeof detail === 'object' && detail !== null
      ? Object.entries(detail).map(([name, value]) => [name.replaceAll('_', ' '), toDetailText(value)] as const)
      : []
  return (
    <>
      <bdi>{reason}</bdi>
      {(facts.length > 0 || emailId !== null) && (
        <details>
          <summary>Details</summary>
          <Facts facts={[...facts, ['Email', emailId]]} />
        </details>
      )}
    </>
  )
}

export default function FindingsScreen() {
  const filters = route.useSearch()
  const query = useList(read.operator.listFindings(toAccountQuery(filters)))
  const navigate = route.useNavigate()
  return (
    <ServerList
      title="Findings"
      query={query}
      label="Findings, newest first"
      columns={COLUMNS}
      toKey={({ id }) => id}
      path="/server/findings"
      search={filters}
      empty={
        <EmptyState title="There are no findings">
          <Text maw={640}>
            Accounts whose mail bounces or is complained about, looks like a scam, or that register too much at once,
            appear here; so do pauses by an operator.
          </Text>
        </EmptyState>
      }
      filters={<AccountFilter id={filters.account} onRemove={() => void navigate({ search: {} })} />}
    />
  )
}
