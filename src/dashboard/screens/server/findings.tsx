/** @module What speaks against accounts: the findings of their monitoring, with pauses, and spam complaints. */
import type { OperatorComplaint, OperatorFinding } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { Facts } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTER } from '../filters.ts'
import { toDetailText, toSourceName } from './format.ts'
import { AccountLink, ServerList } from './frame.tsx'

const COLUMNS: readonly Column<OperatorFinding>[] = [
  column('Account', { width: '16%' }, ({ account_id: id, account }) => <AccountLink id={id} name={account} />),
  column('Effect', { width: '8rem', phone: 'aside' }, ({ paused }) =>
    paused ? <StatusLabel tone="bad">Paused</StatusLabel> : <StatusLabel tone="warning">Noted</StatusLabel>,
  ),
  column('Finding', { isWrapped: true, phone: 'bare' }, (finding) => <Details finding={finding} />),
  column('Source', { width: '12rem', phone: 'bare' }, ({ source }) => toSourceName(source)),
  column('Time', { width: '8.5rem', isNumeric: true, phone: 'bare' }, ({ created_at: at }) => <Time iso={at} />),
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
  column('Account', { width: '14%' }, ({ account_id: id, account }) => <AccountLink id={id} name={account} />),
  column('Recipient', { phone: 'bare' }, ({ complainer }) => (
    <bdi title={complainer ?? undefined}>{complainer ?? 'Not reported'}</bdi>
  )),
  column('Type', { width: '5rem', phone: 'none' }, ({ feedback_type: type }) => type),
  column('Reported by', { width: '12%' }, ({ reporter }) => <bdi>{reporter ?? '–'}</bdi>),
  column(
    'Counts',
    { width: '12rem' },
    ({ feedback_loop: loop }) =>
      loop ?? <span title="It is proven by no feedback loop, so it pauses no account.">No: not proven</span>,
  ),
  column('Email', { width: '14%', phone: 'none' }, ({ email_id: id }) =>
    id === null ? 'Deleted' : <span title={id}>{id}</span>,
  ),
  column('Time', { width: '8.5rem', isNumeric: true, phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
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
