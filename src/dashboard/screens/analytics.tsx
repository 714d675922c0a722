/** @module Stats of the account: sums, a time series, recipient domains; and reports, with what to do about each finding. */
import { Button, NativeSelect, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { AnalyticsDomain, Insight } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { readAgain, useChange, usePage } from '../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { useAllowed, useSession } from '../api/session.tsx'
import { ActionButton, RunButton } from '../parts/buttons.tsx'
import { Findings, SEVERITIES } from '../parts/findings.tsx'
import { bindText, Form, FormError } from '../parts/form.tsx'
import { formatDay } from '../parts/format.ts'
import { InlineLink, NameLink } from '../parts/links.tsx'
import { ListBody, useList } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { AreaNavigation, EmptyState, Page, QueryView, Section } from '../parts/page.tsx'
import { Notice } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import {
  type AnalyticsFilters,
  PERIODS,
  parseAnalyticsFilters,
  toPeriodQuery,
  toTimeseriesQuery,
} from './analytics/filters.ts'
import { dropBefore } from './analytics/series.ts'
import { Series } from './analytics/series-view.tsx'
import { formatShare, StreamReputation, Totals } from './analytics/totals.tsx'
import { useStreams } from './queries.ts'

const route = getRouteApi('/analytics')
const REFRESH_INTERVAL_MS = 15_000

export default function AnalyticsScreen() {
  const filters = route.useSearch()
  const navigate = route.useNavigate()
  const change = (next: AnalyticsFilters) => void navigate({ search: next, resetScroll: false })
  const queries = useQueryClient()
  const refresh = useRefreshSoon(() => readAgain(queries, 'analytics', ['streams', 'get']), REFRESH_INTERVAL_MS)
  useLiveEvents(refresh)
  return (
    <Page title="Analytics" navigation={<AnalyticsNavigation />}>
      <FilterForm filters={filters} onChange={change} />
      {filters.stream === undefined ? <Totals filters={filters} /> : <StreamReputation slug={filters.stream} />}
      <SeriesSection filters={filters} />
      <Domains filters={filters} />
    </Page>
  )
}

interface ChangingProps {
  readonly filters: AnalyticsFilters
  onChange(filters: AnalyticsFilters): void
}

function SeriesSection({ filters }: Pick<ChangingProps, 'filters'>) {
  const query = usePage(read.analytics.getTimeseries(toTimeseriesQuery(filters)))
  const isHourly = filters.interval === 'hour'
  const zone = query.data?.period.timezone
  return (
    <Section
      title={isHourly ? 'By hour' : 'By day'}
      description={
        <>
          {!isHourly && zone !== undefined && (
            <>
              Days of {zone}, <InlineLink to="/settings">the account's time zone</InlineLink>.
            </>
          )}
          {filters.stream !== undefined && ' Of a stream, only hard bounces are counted.'}
        </>
      }
    >
      <QueryView query={query}>
        {({ data, period }) => <Series points={dropBefore(data, period)} filters={filters} />}
      </QueryView>
    </Section>
  )
}

const COLUMNS: readonly Column<AnalyticsDomain>[] = [
  column('Domain', { width: '28%' }, ({ domain }) => (
    <NameLink to="/emails" search={{ to: `@${domain}` }} name={domain} />
  )),
  column('Sent', { isNumeric: true, phone: 'aside' }, ({ sent }) => sent.toLocaleString()),
  column('Delivered', { isNumeric: true }, ({ delivered, delivery_rate: rate }) => (
    <Share count={delivered} rate={rate} />
  )),
  column('Bounced', { isNumeric: true }, ({ bounced, bounce_rate: rate }) => <Share count={bounced} rate={rate} />),
  column('Opened', { isNumeric: true, phone: 'none' }, ({ open_rate: rate }) => formatShare(rate)),
  column('Clicked', { isNumeric: true, phone: 'none' }, ({ click_rate: rate }) => formatShare(rate)),
]

const Share = ({ count, rate }: { readonly count: number; readonly rate: number }) => (
  <>
    {count.toLocaleString()} <span className="share-rate">{formatShare(rate)}</span>
  </>
)

const MAX_DOMAINS = 50

function Domains({ filters }: Pick<ChangingProps, 'filters'>) {
  const query = usePage(read.analytics.listDomains({ ...toPeriodQuery(filters), limit: String(MAX_DOMAINS) }))
  return (
    <Section
      title="Recipient domains"
      description={filters.stream !== undefined ? 'Of all mail, not of the stream alone.' : undefined}
    >
      <QueryView query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Text c="dimmed">No mail was sent in this period.</Text>
          ) : (
            <DataTable
              label="Recipient domains, the most mail first"
              columns={COLUMNS}
              rows={data}
              toKey={({ domain }) => domain}
            />
          )
        }
      </QueryView>
    </Section>
  )
}

const CUSTOM = 'custom'
/** The longest period by hour. */
const HOURLY_PERIOD = '7d'
const PERIOD_LABELS: Readonly<Record<string, string>> = {
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
}

function FilterForm({ filters, onChange }: ChangingProps) {
  const [isChoosing, setIsChoosing] = useState(false)
  const { role } = useSession()
  const isCustom = isChoosing || filters.from !== undefined
  const streams = useStreams().data?.data ?? []
  const { interval, stream } = filters
  const changePeriod = (value: string) => {
    setIsChoosing(value === CUSTOM)
    const { from: _, to: __, interval: ___, ...rest } = filters
    if (value !== CUSTOM)
      onChange(
        parseAnalyticsFilters({ ...rest, period: value, ...(value === HOURLY_PERIOD && interval && { interval }) }),
      )
  }
  const changeInterval = (value: string) => {
    const isTooLong = value === 'hour' && filters.from === undefined
    onChange(parseAnalyticsFilters({ ...filters, interval: value, ...(isTooLong && { period: HOURLY_PERIOD }) }))
  }
  const slugs = streams.map(({ slug }) => slug)
  return (
    <section className="filters" aria-label="Filters">
      <NativeSelect
        aria-label="Period"
        {...bindText(isCustom ? CUSTOM : String(toPeriodQuery(filters)['period'] ?? ''), changePeriod)}
        data={[
          ...PERIODS.map((value) => ({ value, label: PERIOD_LABELS[value] ?? value })),
          { value: CUSTOM, label: 'Other days …' },
        ]}
      />
      {isCustom && <CustomPeriod key={`${filters.from} ${filters.to}`} filters={filters} onChange={onChange} />}
      <NativeSelect
        aria-label="Interval"
        {...bindText(interval ?? 'day', changeInterval)}
        data={[
          { value: 'day', label: 'By day' },
          { value: 'hour', label: 'By hour' },
        ]}
      />
      <NativeSelect
        aria-label="Stream"
        {...bindText(stream ?? '', (value) => onChange(parseAnalyticsFilters({ ...filters, stream: value })))}
        data={[
          { value: '', label: 'All streams' },
          ...(stream !== undefined && !slugs.includes(stream) ? [stream] : []),
          ...slugs,
        ]}
      />
      {stream === undefined && role !== 'support' && (
        <Button
          component="a"
          href={read.analytics.export(toPeriodQuery(filters)).url}
          download
          variant="default"
          className="filters-end"
        >
          Export CSV
        </Button>
      )}
    </section>
  )
}

function CustomPeriod({ filters, onChange }: ChangingProps) {
  const [from, setFrom] = useState(filters.from ?? '')
  const [to, setTo] = useState(filters.to ?? '')
  const submit = () => onChange(parseAnalyticsFilters({ ...filters, from, to }))
  return (
    <Form isRow onSubmit={submit}>
      <TextInput aria-label="First day" type="date" {...bindText(from, setFrom)} />
      <TextInput aria-label="Last day" type="date" {...bindText(to, setTo)} />
      <Button type="submit" variant="default" disabled={from === '' || to === ''}>
        Show
      </Button>
    </Form>
  )
}

const AnalyticsNavigation = () => (
  <AreaNavigation
    label="Analytics"
    links={[
      { to: '/analytics', label: 'Figures' },
      { to: '/analytics/insights', label: 'Insights' },
    ]}
  />
)

export function InsightsScreen() {
  const reason = useAllowed('admin')
  const list = useList({ read: read.insights.list, enabled: reason === undefined })
  const generate = useChange(() => api.insights.generate(), 'insights')
  const run = (
    <ActionButton reason={reason} loading={generate.isPending} onClick={() => generate.mutate()}>
      Create a report
    </ActionButton>
  )
  return (
    <Page
      title="Insights"
      navigation={<AnalyticsNavigation />}
      action={list.isEmpty || reason !== undefined ? undefined : run}
    >
      <div role="status" hidden={!generate.isPending && !generate.isSuccess}>
        {generate.isPending && (
          <Notice tone="active">Reading the figures of four weeks. This takes up to a minute.</Notice>
        )}
        {generate.isSuccess && <Notice tone="good">The report is ready.</Notice>}
      </div>
      <FormError error={generate.error} />
      {reason !== undefined ? (
        <Notice>{reason}</Notice>
      ) : (
        <ListBody
          list={list}
          noun="report"
          empty={
            <EmptyState
              title="Reports on your mail appear here"
              text="What the figures of the last four weeks show, what is wrong and what to do. A language model, chosen by the operator of this server, writes it from numbers only: no address, no content."
            >
              {run}
            </EmptyState>
          }
        >
          {(reports) => reports.map((report) => <Report key={report.id} report={report} />)}
        </ListBody>
      )}
    </Page>
  )
}

function Report({ report }: { readonly report: Insight }) {
  const titleId = `report-${report.id}`
  return (
    <article className="card" aria-labelledby={titleId}>
      <div className="section-head">
        <h2 id={titleId} className="report-title">
          {formatDay(new Date(report.period_start))} to {formatDay(new Date(report.period_end))}
        </h2>
        {report.acknowledged_at === null ? (
          <RunButton
            label="Mark as read"
            size="xs"
            variant="default"
            refreshes={['insights']}
            run={() => api.insights.acknowledge(report.id)}
          />
        ) : (
          <Text span c="dimmed">
            Read: <Time iso={report.acknowledged_at} />
          </Text>
        )}
      </div>
      <Text maw="44rem">{report.summary}</Text>
      <Findings
        label="Findings"
        findings={report.findings.map(({ severity, observation, recommendation }) => ({
          key: `${severity} ${observation}`,
          state: SEVERITIES[severity],
          text: <b className="row-title">{observation}</b>,
          advice: recommendation,
        }))}
      />
      <details className="fold">
        <summary>The whole report</summary>
        <LongText label="The whole report" text={report.raw_markdown} />
        <Text size="xs" c="dimmed">
          Written <Time iso={report.generated_at} /> by <bdi>{report.model}</bdi>
        </Text>
      </details>
    </article>
  )
}
