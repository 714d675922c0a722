/** @module What the monitoring of accounts found: suspicions, and pauses. */
import type { OperatorFinding } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { ListScreen, useList } from '../../parts/list.tsx'
import { EmptyState, Facts } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTER } from '../filters.ts'
import { AccountLink } from './account-link.tsx'
import { toDetailText, toSourceName } from './format.ts'
import { ServerFrame } from './frame.tsx'
import { REFRESHED } from './queries.ts'

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
  const list = useList({ read: read.operator.listFindings, filters: ACCOUNT_FILTER, ...REFRESHED })
  return (
    <ListScreen
      frame={ServerFrame}
      title="Findings"
      list={list}
      label="Findings, newest first"
      columns={COLUMNS}
      isWide
      noun="finding"
      empty={
        <EmptyState
          title="There are no findings"
          text="Accounts whose mail bounces or is complained about, looks like a scam, or that register too much at once, appear here; so do pauses by an operator."
        />
      }
    />
  )
}
