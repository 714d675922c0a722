/** @module DMARC and TLS reports that other hosts send about domains of this service. */
import { Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorReportSummary } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { formatBytes } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { EmptyState, Facts } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { REPORT_FILTERS } from '../filters.ts'
import { RECEIVED, ServerList, ServerPage } from './frame.tsx'

const oneRoute = getRouteApi('/server/reports/$id')

const toKindWords = (kind: string): string => (kind === 'tls' ? 'TLS' : 'DMARC')

const COLUMNS: readonly Column<OperatorReportSummary>[] = [
  {
    header: 'Domain',
    cell: ({ id, domain }) => <NameLink to="/server/reports/$id" params={{ id }} name={domain} />,
  },
  { header: 'Kind', width: '6rem', phone: 'bare', cell: ({ kind }) => toKindWords(kind) },
  { header: 'Reporter', phone: 'bare', cell: ({ organisation }) => <bdi>{organisation}</bdi> },
  { header: 'Account', phone: 'none', cell: ({ account }) => <bdi>{account ?? 'None'}</bdi> },
  { header: 'Days in UTC', width: '13rem', phone: 'none', cell: (report) => <Period report={report} /> },
  RECEIVED,
]

/** Reports cover whole days in UTC. */
function Period({ report: { period_start: start, period_end: end } }: { readonly report: OperatorReportSummary }) {
  const [first, last] = [start?.slice(0, 10), end?.slice(0, 10)]
  return (
    <>{first === undefined || last === undefined || first === last ? (first ?? last ?? '–') : `${first} to ${last}`}</>
  )
}

const ReportsScreen = () => (
  <ServerList
    title="Domain reports"
    read={read.operator.listReports}
    filters={REPORT_FILTERS}
    columns={COLUMNS}
    noun="report"
    empty={
      <EmptyState
        title="No report yet"
        text="DMARC and TLS reports of other mail servers, if the DNS records of a domain name an address here."
      />
    }
  />
)
export default ReportsScreen

export function ReportScreen() {
  const { id } = oneRoute.useParams()
  const query = useData(read.operator.getReport(id))
  return (
    <ServerPage
      title={query.data ? `${toKindWords(query.data.kind)} report about ${query.data.domain}` : 'Domain report'}
      back={{ label: 'Domain reports', target: { to: '/server/reports' } }}
      query={query}
    >
      {(report) => (
        <>
          <Facts
            facts={[
              ['Reporter', report.organisation],
              ['Its id', report.report_id],
              ['Days in UTC', <Period key="period" report={report} />],
              ['Account', report.account ?? 'No account has this domain'],
              ['Received', <Time key="received" iso={report.received_at} isRelative />],
              ['Size', formatBytes(report.size_bytes)],
              ['Counted', report.counted?.toLocaleString() ?? `No. ${report.uncounted ?? ''}`],
            ]}
          />
          {report.is_truncated && <Text c="dimmed">Only the first part is shown.</Text>}
          <LongText label="Content of the report" text={report.content} />
        </>
      )}
    </ServerPage>
  )
}
