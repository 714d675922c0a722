/** @module DMARC and TLS reports that other hosts send about domains of this service. */
import { Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorReportSummary } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { formatBytes } from '../../parts/format.ts'
import { ButtonLink, NameLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { EmptyState, Facts } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { REPORT_FILTERS } from '../filters.ts'
import { ServerFrame, ServerPage } from './frame.tsx'
import { REFRESHED } from './queries.ts'

const oneRoute = getRouteApi('/server/reports/$id')

const toKindWords = (kind: string): string => (kind === 'tls' ? 'TLS' : 'DMARC')

const COLUMNS: readonly Column<OperatorReportSummary>[] = [
  {
    header: 'Domain',
    cell: ({ id, domain }) => <NameLink to="/server/reports/$id" params={{ id }} name={domain} />,
  },
  { header: 'Kind', width: '11%', cell: ({ kind }) => toKindWords(kind) },
  { header: 'From', cell: ({ organisation }) => <bdi>{organisation}</bdi> },
  { header: 'Period', cell: (report) => <Period report={report} /> },
  { header: 'Account', cell: ({ account }) => <bdi>{account ?? 'None'}</bdi> },
  { header: 'Received', width: '15%', cell: ({ received_at: at }) => <Time iso={at} /> },
]

/** Reports cover whole days in UTC. */
function Period({ report: { period_start: start, period_end: end } }: { readonly report: OperatorReportSummary }) {
  const [first, last] = [start?.slice(0, 10), end?.slice(0, 10)]
  return (
    <>{first === undefined || last === undefined || first === last ? (first ?? last ?? '–') : `${first} to ${last}`}</>
  )
}

export default function ReportsScreen() {
  const list = useList({ read: read.operator.listReports, filters: REPORT_FILTERS, ...REFRESHED })
  return (
    <ListScreen
      frame={ServerFrame}
      title="Domain reports"
      list={list}
      label="Reports, newest first"
      columns={COLUMNS}
      isWide
      noun="report"
      empty={
        <EmptyState
          title="No reports yet"
          text="Other mail servers send DMARC reports, and reports about TLS, to the addresses that the DNS records of a domain name. Those that arrive here are listed."
        />
      }
    />
  )
}

export function ReportScreen() {
  const { id } = oneRoute.useParams()
  const query = useData(read.operator.getReport(id))
  return (
    <ServerPage
      title={query.data ? `${toKindWords(query.data.kind)} report about ${query.data.domain}` : 'Domain report'}
      query={query}
      isRefreshed={false}
      above={
        <div>
          <ButtonLink to="/server/reports" variant="default" size="xs">
            Back to the reports
          </ButtonLink>
        </div>
      }
    >
      {(report) => (
        <Stack>
          <Facts
            facts={[
              ['From', report.organisation],
              ['Id of the reporter', report.report_id],
              ['Period', <Period key="period" report={report} />],
              ['Account', report.account ?? 'No account has this domain'],
              ['Received', <Time key="received" iso={report.received_at} />],
              ['Size', formatBytes(report.size_bytes)],
            ]}
          />
          {report.is_truncated && <Text size="sm">Only the first part is shown.</Text>}
          <LongText label="Content of the report" text={report.content} />
        </Stack>
      )}
    </ServerPage>
  )
}
