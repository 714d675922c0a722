/** @module Spam complaints about mail of all accounts. */
import type { OperatorComplaint } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { EmptyState } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTER } from '../filters.ts'
import { AccountLink } from './account-link.tsx'
import { ServerList } from './frame.tsx'

const COLUMNS: readonly Column<OperatorComplaint>[] = [
  { header: 'Account', width: '14%', cell: ({ account_id: id, account }) => <AccountLink id={id} name={account} /> },
  {
    header: 'Recipient',
    phone: 'bare',
    cell: ({ complainer }) => <bdi title={complainer ?? undefined}>{complainer ?? 'Not reported'}</bdi>,
  },
  { header: 'Type', width: '5rem', phone: 'none', cell: ({ feedback_type: type }) => type },
  { header: 'Reported by', width: '12%', cell: ({ reporter }) => <bdi>{reporter ?? '–'}</bdi> },
  {
    header: 'Counts',
    width: '12rem',
    cell: ({ feedback_loop: loop }) =>
      loop ?? <span title="It is proven by no feedback loop, so it pauses no account.">No: not proven</span>,
  },
  {
    header: 'Email',
    width: '14%',
    phone: 'none',
    cell: ({ email_id: id }) => (id === null ? 'Deleted' : <span title={id}>{id}</span>),
  },
  { header: 'Time', width: '8.5rem', isNumeric: true, phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
]

const ComplaintsScreen = () => (
  <ServerList
    title="Complaints"
    read={read.operator.listComplaints}
    filters={ACCOUNT_FILTER}
    columns={COLUMNS}
    noun="complaint"
    empty={
      <EmptyState
        title="No complaint yet"
        text="When somebody marks mail of this service as spam, the report of their provider appears here."
      />
    }
  />
)
export default ComplaintsScreen
