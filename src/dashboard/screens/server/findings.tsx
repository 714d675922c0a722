/** @module What speaks against accounts: the findings of their monitoring, with pauses, and spam complaints. */
import type { OperatorComplaint, OperatorFinding } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { Facts } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTER } from '../filters.ts'
import { toDetailText, toSourceName } from './format.ts'
import { AccountLink, ServerList } from './frame.tsx'

const COLUMNS: readonly Column<OperatorFinding>[] = [
  { header: 'Account', width: '16%', cell: ({ account_id: id, account }) => <AccountLink id={id} name={account} /> },
  {
    header: 'Effect',
    width: '8rem',
    phone: 'aside',
    cell: ({ paused }) =>
      paused ? <StatusLabel tone="bad">Paused</StatusLabel> : <StatusLabel tone="warning">Noted</StatusLabel>,
  },
  { header: 'Finding', isWrapped: true, phone: 'bare', cell: (finding) => <Details finding={finding} /> },
  { header: 'Source', width: '12rem', phone: 'bare', cell: ({ source }) => toSourceName(source) },
  { header: 'Time', width: '8.5rem', isNumeric: true, phone: 'bare', cell: ({ created_at: at }) => <Time iso={at} /> },
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

const FindingsScreen = () => (
  <ServerList
    title="Findings"
    read={read.operator.listFindings}
    filters={ACCOUNT_FILTER}
    columns={COLUMNS}
    noun="finding"
    nothing={{
      title: 'No finding yet',
      text: 'Accounts whose mail bounces, is complained about or looks like a scam appear here, and pauses by an operator.',
    }}
  />
)
export default FindingsScreen

const COMPLAINT_COLUMNS: readonly Column<OperatorComplaint>[] = [
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

export const ComplaintsScreen = () => (
  <ServerList
    title="Complaints"
    read={read.operator.listComplaints}
    filters={ACCOUNT_FILTER}
    columns={COMPLAINT_COLUMNS}
    noun="complaint"
    nothing={{
      title: 'No complaint yet',
      text: 'When somebody marks mail of this service as spam, the report of their provider appears here.',
    }}
  />
)
