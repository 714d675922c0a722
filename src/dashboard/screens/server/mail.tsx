/**
 * @module Mail for the operator: to postmaster and abuse, and what could not be parsed; and the reports of other servers
 * about domains. Their authors are strangers.
 */
import { Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorMessage, OperatorMessageSummary, OperatorReportSummary } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { DeleteButton } from '../../parts/dialog.tsx'
import { formatBytes, toTitle } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { Facts, Section } from '../../parts/page.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { OPERATOR_MAIL_FILTERS, REPORT_FILTERS } from '../filters.ts'
import { RECEIVED, ServerList, ServerPage } from './frame.tsx'

const oneRoute = getRouteApi('/server/mail/$id')

const KINDS: Readonly<Record<string, string>> = OPERATOR_MAIL_FILTERS.kind.words

const COLUMNS: readonly Column<OperatorMessageSummary>[] = [
  column('Subject', { width: '26%' }, ({ id, subject }) => (
    <NameLink to="/server/mail/$id" params={{ id }} name={subject.trim() || '(no subject)'} title={subject} />
  )),
  column('Sender', { phone: 'bare' }, ({ from, mail_from: mailFrom }) => (
    <bdi>{from ?? (mailFrom || '<> (no sender)')}</bdi>
  )),
  column('Recipient', {}, ({ rcpt_to: to }) => <bdi>{to.join(', ')}</bdi>),
  column('Kind', { width: '8rem', phone: 'bare' }, ({ kind }) => KINDS[kind] ?? kind),
  column('Why here', { phone: 'none' }, ({ reason }) => <bdi title={reason}>{reason}</bdi>),
  RECEIVED,
]

const MailScreen = () => (
  <ServerList
    title="Postmaster mail"
    read={read.operator.listMessages}
    filters={OPERATOR_MAIL_FILTERS}
    columns={COLUMNS}
    noun="message"
    nothing={{
      title: 'No mail for you yet',
      text: 'Mail to postmaster and abuse of this host, and reports and bounces that cannot be read.',
    }}
  />
)
export default MailScreen

export function MessageScreen() {
  const { id } = oneRoute.useParams()
  const query = useData(read.operator.getMessage(id))
  return (
    <ServerPage
      title={query.data ? toTitle(query.data.subject) : 'Message'}
      back={{ label: 'Postmaster mail', target: { to: '/server/mail' } }}
      query={query}
      {...(query.data && { description: <bdi>{query.data.reason}</bdi>, action: <Actions id={id} /> })}
    >
      {(message) => <Message message={message} />}
    </ServerPage>
  )
}

const GONE = { needs: 'viewer', refreshes: [['operator', 'listMessages']], leadsTo: { to: '/server/mail' } } as const

/** After either it is no longer in the list. */
const Actions = ({ id }: { readonly id: string }) => (
  <>
    <DeleteButton noun="message" remove={() => api.operator.deleteMessage(id)} {...GONE}>
      It cannot be restored.
    </DeleteButton>
    <DeleteButton
      label="Process it again"
      title="Process this message again?"
      confirm="Process it again"
      isDangerous={false}
      remove={() => api.operator.retryMessage(id)}
      {...GONE}
    >
      It is handled as if it had just arrived: a bounce or complaint that can be read now takes effect. Otherwise it
      comes back.
    </DeleteButton>
  </>
)

const Message = ({ message }: { readonly message: OperatorMessage }) => (
  <>
    <Facts
      facts={[
        ['Sender', message.from],
        ['Envelope', `${message.mail_from || '<>'} to ${message.rcpt_to.join(', ')}`],
        ['Received', <Time key="received" iso={message.received_at} isRelative />],
        ['From the address', message.source_ip],
        ['Size', formatBytes(message.size_bytes)],
      ]}
    />
    {message.text !== null && (
      <Section title="Text">
        <LongText label="Text of the message" text={message.text} />
      </Section>
    )}
    <Section title="Source">
      {message.source === null ? (
        <Text c="dimmed">The message is no longer stored; only its entry in the list is left.</Text>
      ) : (
        <LongText label="Source of the message" text={message.source} />
      )}
    </Section>
  </>
)

const reportRoute = getRouteApi('/server/reports/$id')

const toKindWords = (kind: string): string => (kind === 'tls' ? 'TLS' : 'DMARC')

const REPORT_COLUMNS: readonly Column<OperatorReportSummary>[] = [
  column('Domain', {}, ({ id, domain }) => <NameLink to="/server/reports/$id" params={{ id }} name={domain} />),
  column('Kind', { width: '6rem', phone: 'bare' }, ({ kind }) => toKindWords(kind)),
  column('Reporter', { phone: 'bare' }, ({ organisation }) => <bdi>{organisation}</bdi>),
  column('Account', { phone: 'none' }, ({ account }) => <bdi>{account ?? 'None'}</bdi>),
  column('Days in UTC', { width: '13rem', phone: 'none' }, (report) => <Period report={report} />),
  RECEIVED,
]

/** Reports cover whole days in UTC. */
function Period({ report: { period_start: start, period_end: end } }: { readonly report: OperatorReportSummary }) {
  const [first, last] = [start?.slice(0, 10), end?.slice(0, 10)]
  return (
    <>{first === undefined || last === undefined || first === last ? (first ?? last ?? '–') : `${first} to ${last}`}</>
  )
}

export const ReportsScreen = () => (
  <ServerList
    title="Domain reports"
    read={read.operator.listReports}
    filters={REPORT_FILTERS}
    columns={REPORT_COLUMNS}
    noun="report"
    nothing={{
      title: 'No report yet',
      text: 'DMARC and TLS reports of other mail servers, if the DNS records of a domain name an address here.',
    }}
  />
)

export function ReportScreen() {
  const { id } = reportRoute.useParams()
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
