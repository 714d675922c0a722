/** @module The sums of a period, beside those of the period before, and where its emails are now. */
import type { ReactNode } from 'react'
import type { AnalyticsOverview, AnalyticsOverviewOutcomes, Period, Stream } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData, usePage } from '../../api/data.ts'
import { type Figure, Figures } from '../../parts/figures.tsx'
import type { Target } from '../../parts/filters.ts'
import { formatCount } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { useStreams } from '../queries.ts'
import { type AnalyticsFilters, toPeriodQuery } from './filters.ts'

const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 2 })
const SHARE = new Intl.NumberFormat('en', { style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 })

/** @param rate 0 to 1 */
export const formatRate = (rate: number | null): string => (rate === null ? '–' : PERCENT.format(rate))

/** With one decimal, so that a column of them has its points below each other. */
export const formatShare = (rate: number): string => SHARE.format(rate)

export function Totals({ filters }: { readonly filters: AnalyticsFilters }) {
  // Other days may have none before them that are stored.
  const compare = filters.from === undefined ? 'previous' : undefined
  const query = usePage(read.analytics.getOverview({ ...toPeriodQuery(filters), compare }))
  return (
    <QueryView query={query}>
      {({ data, previous }) => (
        <>
          <Figures figures={toFigures(data, previous && isWhole(previous.period) ? previous.data : undefined)} />
          {data.outcomes.accepted > 0 && <Outcomes outcomes={data.outcomes} />}
        </>
      )}
    </QueryView>
  )
}

/** Whether the account existed at its beginning; otherwise a comparison says nothing. */
const isWhole = ({ from, account_since: since }: Period): boolean => from >= since

function toFigures(data: AnalyticsOverview, before: AnalyticsOverview | undefined): readonly Figure[] {
  type Counted = 'sent' | 'delivered' | 'bounced' | 'complaints' | 'opens' | 'clicks'
  const figure = (label: string, name: Counted, note: ReactNode, isGood?: boolean): Figure => ({
    label,
    value: data[name],
    note,
    ...(before && { change: { before: before[name], now: data[name], ...(isGood !== undefined && { isGood }) } }),
  })
  return [
    figure('Sent', 'sent', `recipients${before ? `; ${before.sent.toLocaleString()} the period before` : ''}`),
    figure('Delivered', 'delivered', `${formatShare(data.delivery_rate)} of sent`),
    figure('Bounced', 'bounced', `${formatRate(data.bounce_rate)} of sent`, false),
    figure('Complaints', 'complaints', `${formatRate(data.complaint_rate)} of delivered`, false),
    figure('Opened', 'opens', <Engagement rate={data.open_rate} machines={data.machine_opens} />),
    figure('Clicked', 'clicks', <Engagement rate={data.click_rate} machines={data.machine_clicks} />),
    { label: 'Unsubscribed', value: data.total_unsubscribes },
  ]
}

const Engagement = ({ rate, machines }: { readonly rate: number; readonly machines: number }) => (
  <>
    {formatShare(rate)} of delivered
    {machines > 0 && (
      <div title="Scanners, prefetchers and image proxies: not counted.">{machines.toLocaleString()} by machines</div>
    )}
  </>
)

const toEmails = (status: string): Target => ({ to: '/emails', search: { status } })

const OUTCOMES: readonly (readonly [
  name: Exclude<keyof AnalyticsOverviewOutcomes, 'accepted'>,
  label: string,
  target?: Target,
])[] = [
  ['delivered', 'Delivered', toEmails('sent')],
  ['bounced', 'Bounced', toEmails('bounced')],
  ['failed', 'Failed', toEmails('failed')],
  ['uncertain', 'Uncertain', toEmails('uncertain')],
  ['waiting', 'Waiting'],
  ['suppressed', 'Suppressed', toEmails('rejected')],
  ['cancelled', 'Cancelled', toEmails('cancelled')],
  ['captured', 'Captured', { to: '/sandbox' }],
]

/** Each accepted email is in one of them. */
const Outcomes = ({ outcomes }: { readonly outcomes: AnalyticsOverviewOutcomes }) => {
  const shown = OUTCOMES.filter(([name]) => outcomes[name] > 0)
  return (
    <Section
      title="Outcomes"
      description={`Where ${formatCount(outcomes.accepted, 'email')} of this period ${outcomes.accepted === 1 ? 'is' : 'are'} now. They count emails; the figures above count recipients.`}
    >
      <div className="shares" aria-hidden="true">
        {shown.map(([name]) => (
          <span key={name} className={`share-${name}`} style={{ flexGrow: outcomes[name] }} />
        ))}
      </div>
      <ul className="share-names">
        {shown.map(([name, label, target]) => (
          <li key={name}>
            <span className={`share-mark share-${name}`} aria-hidden="true" />
            {target ? <TextLink {...target}>{label}</TextLink> : label} <b>{outcomes[name].toLocaleString()}</b>{' '}
            <span className="share-rate">{formatShare(outcomes[name] / outcomes.accepted)}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

export function StreamReputation({ slug }: { readonly slug: string }) {
  const streams = useStreams()
  const id = streams.data?.data.find((stream) => stream.slug === slug)?.id
  const query = useData(read.streams.get(id ?? ''), { enabled: id !== undefined })
  if (streams.data && id === undefined) return null
  return (
    <Section title="This stream, last 30 days">
      <QueryView query={query}>{(stream) => <Figures figures={toStreamFigures(stream)} />}</QueryView>
    </Section>
  )
}

export const toStreamFigures = ({ reputation }: Stream): readonly Figure[] => [
  { label: 'Sent', value: reputation.sent },
  { label: 'Delivered', value: reputation.delivered },
  {
    label: 'Hard bounces',
    value: reputation.bounced,
    note: `${formatRate(reputation.bounce_rate)} of delivered and bounced`,
  },
  { label: 'Complaints', value: reputation.complained, note: `${formatRate(reputation.complaint_rate)} of delivered` },
]
