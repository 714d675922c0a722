/** @module Stats of the account: totals, time series, recipient domains. */
import { Anchor, Button, Group, NativeSelect, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { AnalyticsDomain, AnalyticsOverview, Stream } from '#client/api.ts'
import { read } from '../api/client.ts'
import { readAgain, useData, usePage } from '../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { type Figure, Figures } from '../parts/figures.tsx'
import { bindText, Form } from '../parts/form.tsx'
import { TextLink } from '../parts/links.tsx'
import { Page, QueryView, Section } from '../parts/page.tsx'
import { type Column, DataTable } from '../parts/table.tsx'
import { useStable } from '../parts/use-stable.ts'
import {
  type AnalyticsFilters,
  DOMAIN_COUNTS,
  PERIODS,
  parseAnalyticsFilters,
  toPeriodQuery,
  toTimeseriesQuery,
} from './analytics/filters.ts'
import { useStreams } from './analytics/queries.ts'
import { Series } from './analytics/series-view.tsx'

const route = getRouteApi('/analytics')
const REFRESH_INTERVAL_MS = 15_000

export default function AnalyticsScreen() {
  const filters = useStable(route.useSearch())
  const navigate = route.useNavigate()
  const change = (next: AnalyticsFilters) => void navigate({ search: next, resetScroll: false })
  const queries = useQueryClient()
  const refresh = useRefreshSoon(() => readAgain(queries, 'analytics', ['streams', 'get']), REFRESH_INTERVAL_MS)
  useLiveEvents(refresh)
  return (
    <Page title="Analytics" action={<TextLink to="/analytics/insights">Insights</TextLink>}>
      <FilterForm filters={filters} onChange={change} />
      {filters.stream === undefined ? <Totals filters={filters} /> : <Reputation slug={filters.stream} />}
      <SeriesSection filters={filters} onChange={change} />
      <Domains filters={filters} onChange={change} />
    </Page>
  )
}

interface SectionProps {
  readonly filters: AnalyticsFilters
}

interface ChangingProps extends SectionProps {
  onChange(filters: AnalyticsFilters): void
}

const NUMBER = new Intl.NumberFormat(undefined)
const PERCENT = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 2 })

/** @param rate 0 to 1 */
const formatRate = (rate: number | null): string => (rate === null ? '–' : PERCENT.format(rate))

function Totals({ filters }: SectionProps) {
  const query = usePage(read.analytics.getOverview(toPeriodQuery(filters)))
  return (
    <Section title="Whole period">
      <QueryView query={query}>{({ data }) => <Figures figures={toFigures(data)} />}</QueryView>
    </Section>
  )
}

const toFigures = (data: AnalyticsOverview): readonly Figure[] => [
  { label: 'Sent', value: data.sent },
  { label: 'Delivered', value: data.delivered, note: `${formatRate(data.delivery_rate)} of sent` },
  { label: 'Bounced', value: data.bounced, note: `${formatRate(data.bounce_rate_pct / 100)} of sent` },
  { label: 'Complaints', value: data.complaints },
  { label: 'Opened', value: data.opens, note: `${formatRate(data.open_rate)} of the delivered emails` },
  { label: 'Clicked', value: data.clicks, note: `${formatRate(data.click_rate)} of the delivered emails` },
  { label: 'Unsubscribed', value: data.total_unsubscribes },
  { label: 'Opened by machines', value: data.machine_opens, note: 'not in “Opened”' },
  { label: 'Clicked by machines', value: data.machine_clicks, note: 'not in “Clicked”' },
]

function Reputation({ slug }: { readonly slug: string }) {
  const streams = useStreams()
  const id = streams.data?.data.find((stream) => stream.slug === slug)?.id
  const query = useData(read.streams.get(id ?? ''), { enabled: id !== undefined })
  if (streams.data && id === undefined) return null
  return (
    <Section title="This stream in the last 30 days">
      <QueryView query={query}>{(stream) => <Figures figures={toStreamFigures(stream)} />}</QueryView>
    </Section>
  )
}

const toStreamFigures = ({ reputation }: Stream): readonly Figure[] => [
  { label: 'Sent', value: reputation.sent },
  { label: 'Delivered', value: reputation.delivered },
  {
    label: 'Hard bounces',
    value: reputation.bounced,
    note: `${formatRate(reputation.bounce_rate)} of delivered and bounced`,
  },
  { label: 'Complaints', value: reputation.complained, note: `${formatRate(reputation.complaint_rate)} of delivered` },
]

function SeriesSection({ filters, onChange }: ChangingProps) {
  const query = usePage(read.analytics.getTimeseries(toTimeseriesQuery(filters)))
  return (
    <Section title={filters.interval === 'hour' ? 'By hour' : 'By day'}>
      <QueryView query={query}>
        {({ data }) => <Series points={data} filters={filters} onChange={onChange} />}
      </QueryView>
      {filters.stream === undefined && (
        <Text size="sm">
          <Anchor href={read.analytics.export(toPeriodQuery(filters)).url} download>
            Export the days as CSV
          </Anchor>
        </Text>
      )}
    </Section>
  )
}

const COLUMNS: readonly Column<AnalyticsDomain>[] = [
  {
    header: 'Domain',
    width: '28%',
    cell: ({ domain }) => (
      <TextLink to="/emails" search={{ to: `@${domain}` }}>
        <bdi>{domain}</bdi>
      </TextLink>
    ),
  },
  { header: 'Sent', cell: ({ sent }) => NUMBER.format(sent) },
  { header: 'Delivered', cell: ({ delivered, delivery_rate: rate }) => <Share count={delivered} rate={rate} /> },
  { header: 'Bounced', cell: ({ bounced, bounce_rate: rate }) => <Share count={bounced} rate={rate} /> },
  { header: 'Opened', cell: ({ open_rate: rate }) => formatRate(rate) },
  { header: 'Clicked', cell: ({ click_rate: rate }) => formatRate(rate) },
]

const Share = ({ count, rate }: { readonly count: number; readonly rate: number }) => (
  <>
    {NUMBER.format(count)} ({formatRate(rate)})
  </>
)

function Domains({ filters, onChange }: ChangingProps) {
  const { domains: limit = DOMAIN_COUNTS[0] } = filters
  const query = usePage(read.analytics.listDomains({ ...toPeriodQuery(filters), limit: String(limit) }))
  return (
    <Section title="Recipient domains">
      {filters.stream !== undefined && (
        <Text size="sm">These are the numbers of all mail, not of the stream alone.</Text>
      )}
      <QueryView query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Text>No mail was sent in this period.</Text>
          ) : (
            <>
              <DataTable
                label="Recipient domains, the most mail first"
                columns={COLUMNS}
                rows={data}
                toKey={({ domain }) => domain}
              />
              <Group gap="xs">
                <NativeSelect
                  label="Domains shown"
                  size="xs"
                  {...bindText(String(limit), (value) =>
                    onChange({ ...filters, domains: Number(value) } as AnalyticsFilters),
                  )}
                  data={DOMAIN_COUNTS.map(String)}
                />
              </Group>
            </>
          )
        }
      </QueryView>
    </Section>
  )
}

interface FilterFormProps {
  readonly filters: AnalyticsFilters
  onChange(filters: AnalyticsFilters): void
}

const CUSTOM = 'custom'
/** The longest period by hour. */
const HOURLY_PERIOD = '7d'
const PERIOD_LABELS: Readonly<Record<string, string>> = {
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
}

function FilterForm({ filters, onChange }: FilterFormProps) {
  const [isChoosing, setIsChoosing] = useState(false)
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
    <Group align="flex-end" gap="xs" role="group" aria-label="Filters">
      <NativeSelect
        label="Period"
        {...bindText(isCustom ? CUSTOM : String(toPeriodQuery(filters)['period'] ?? ''), changePeriod)}
        data={[
          ...PERIODS.map((value) => ({ value, label: PERIOD_LABELS[value] ?? value })),
          { value: CUSTOM, label: 'Other days …' },
        ]}
      />
      {isCustom && <CustomPeriod key={`${filters.from} ${filters.to}`} filters={filters} onChange={onChange} />}
      <NativeSelect
        label="Interval"
        {...bindText(interval ?? 'day', changeInterval)}
        data={[
          { value: 'day', label: 'Days' },
          { value: 'hour', label: 'Hours (of 7 days at most)' },
        ]}
      />
      <NativeSelect
        label="Stream"
        {...bindText(stream ?? '', (value) => onChange(parseAnalyticsFilters({ ...filters, stream: value })))}
        data={[
          { value: '', label: 'All mail' },
          ...(stream !== undefined && !slugs.includes(stream) ? [stream] : []),
          ...slugs,
        ]}
      />
    </Group>
  )
}

function CustomPeriod({ filters, onChange }: FilterFormProps) {
  const [from, setFrom] = useState(filters.from ?? '')
  const [to, setTo] = useState(filters.to ?? '')
  const submit = () => onChange(parseAnalyticsFilters({ ...filters, from, to }))
  return (
    <Form isRow onSubmit={submit}>
      <TextInput label="First day" type="date" w="100%" maw="12rem" {...bindText(from, setFrom)} />
      <TextInput label="Last day" type="date" w="100%" maw="12rem" {...bindText(to, setTo)} />
      <Button type="submit" disabled={from === '' || to === ''}>
        Show
      </Button>
    </Form>
  )
}
