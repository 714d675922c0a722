/** @module The newest emails. Those since then are offered as "12 new", so the list does not jump. */
import { useQuery } from '@tanstack/react-query'
import type { EmailSummary } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { toShownState } from '../../parts/format.ts'
import { NameLink, TextLink } from '../../parts/links.tsx'
import { NewRows } from '../../parts/list.tsx'
import { EmptyState, QueryView, Section } from '../../parts/page.tsx'
import { useSteadyRows } from '../../parts/rows.ts'
import { StatusBadge } from '../../parts/status.tsx'
import { type Column, DataTable, toId } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'

const MAX_SHOWN = 10

export function RecentEmails() {
  const query = useQuery(read.emails.list({ per_page: MAX_SHOWN }))
  const list = useSteadyRows(query, 'recent', toId)
  const rows = list.page?.data ?? []
  return (
    <Section title="Recent emails" action={rows.length > 0 && <TextLink to="/emails">All emails</TextLink>}>
      <QueryView query={query}>
        {() =>
          rows.length === 0 ? (
            <EmptyState title="No email yet" text="Each email that you send appears here, with its outcome." />
          ) : (
            <div className="list">
              <NewRows list={list} />
              <DataTable label="Recent emails" columns={COLUMNS} rows={rows} />
            </div>
          )
        }
      </QueryView>
    </Section>
  )
}

const COLUMNS: readonly Column<EmailSummary>[] = [
  {
    header: 'Recipient',
    width: '32%',
    cell: ({ id, to, to_address: address }) => (
      <NameLink to="/emails/$id" params={{ id }} title={to} name={address || '(no recipient)'} />
    ),
  },
  { header: 'Subject', phone: 'bare', cell: ({ subject }) => <bdi title={subject}>{subject || '(no subject)'}</bdi> },
  {
    header: 'Status',
    width: '10rem',
    phone: 'bare',
    cell: (row) => <StatusBadge status={toShownState(row, row.state)} />,
  },
  { header: 'Time', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
]
