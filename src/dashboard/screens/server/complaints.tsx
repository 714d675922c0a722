/** @module Spam complaints about mail of all accounts. */
import type { OperatorComplaint } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { ListScreen, useList } from '../../parts/list.tsx'
import { EmptyState } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTER } from '../filters.ts'
import { AccountLink } from './account-link.tsx'
import { ServerFrame } from './frame.tsx'
import { REFRESHED } from './queries.ts'

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
  const list = useList({ read: read.operator.listComplaints, filters: ACCOUNT_FILTER, ...REFRESHED })
  return (
    <ListScreen
      frame={ServerFrame}
      title="Complaints"
      list={list}
      label="Complaints, newest first"
      columns={COLUMNS}
      isWide
      noun="complaint"
      empty={
        <EmptyState
          title="There are no complaints"
          text="When somebody marks mail of this service as spam, and their provider reports it by its feedback loop, the report appears here."
        />
      }
    />
  )
}
