/** @module Spam complaints about mail of all accounts. */
import { Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorComplaint } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { EmptyState } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { AccountFilter, AccountLink } from './account-link.tsx'
import { toAccountQuery } from './filters.ts'
import { ServerList } from './frame.tsx'
import { useList } from './queries.ts'

const route = getRouteApi('/server/complaints')

const COLUMNS: readonly Column<OperatorComplaint>[] = [
  { header: 'Account', cell: ({ account_id: id, account }) => <AccountLink id={id} name={account} /> },
  { header: 'Time', width: '14%', cell: ({ created_at: at }) => <Time iso={at} /> },
  { header: 'Who complained', cell: ({ complainer }) => <bdi>{complainer ?? 'Not reported'}</bdi> },
  { header: 'Type', width: '10%', cell: ({ feedback_type: type }) => type },
  {
    header: 'Feedback loop',
    cell: ({ feedback_loop: loop }) => loop ?? 'None proven: it pauses no account',
  },
  { header: 'Reported by', cell: ({ reporter }) => <bdi>{reporter ?? '–'}</bdi> },
  { header: 'Email', cell: ({ email_id: id }) => id ?? 'Deleted' },
]

export default function ComplaintsScreen() {
  const filters = route.useSearch()
  const query = useList(read.operator.listComplaints(toAccountQuery(filters)))
  const navigate = route.useNavigate()
  return (
    <ServerList
      title="Complaints"
      query={query}
      label="Complaints, newest first"
      columns={COLUMNS}
      toKey={({ id }) => id}
      path="/server/complaints"
      search={filters}
      empty={
        <EmptyState title="There are no complaints">
          <Text maw={640}>
            When somebody marks mail of this service as spam, and their provider reports it by its feedback loop, the
            report appears here.
          </Text>
        </EmptyState>
      }
      filters={<AccountFilter id={filters.account} onRemove={() => void navigate({ search: {} })} />}
    />
  )
}
