/** @module The figures of the last 24 hours, the outcomes of each day, and the rates beside their limits. */
import { useQuery } from '@tanstack/react-query'
import type { AccountReputation, AnalyticsTimeseries } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { Chart, Swatch } from '../../parts/chart.tsx'
import { type Figure, Figures } from '../../parts/figures.tsx'
import type { Target } from '../../parts/filters.ts'
import { formatCount } from '../../parts/format.ts'
import { TextLink } from '../../parts/links.tsx'
import { QueryView, Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Tone } from '../../parts/tone.ts'
import {
  dropBefore,
  hasActivity,
  SHOWN_METRICS,
  type ShownMetric,
  sumHours,
  toPoints,
  toSeries,
} from '../analytics/series.ts'
import { formatRate } from '../analytics/totals.tsx'

const DAY_MS = 86_400_000

const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

function useHours() {
  const now = Date.now()
  return useQuery(
    read.analytics.getTimeseries({
      // 48 hours begin two days ago.
      from: toDay(now - 2 * DAY_MS),
      to: toDay(now),
      timezone: 'UTC',
      interval: 'hour',
      metrics: SHOWN_METRICS.join(','),
    }),
  )
}

export function LastDay() {
  const hours = useHours()
  return (
    <Section title="Last 24 hours">
      <QueryView query={hours}>
        {({ data }) => (
          <Figures figures={SHOWN_METRICS.map((metric) => toFigure(metric, data)).toSpliced(3, 0, ...listRest(data))} />
        )}
      </QueryView>
    </Section>
  )
}

interface Look {
  readonly label: string
  /** Whether more of it is good; undefined: neither. */
  readonly isGood?: boolean
  readonly target?: Target
}

const LOOKS: Readonly<Record<ShownMetric, Look>> = {
  sent: { label: 'Sent', target: { to: '/emails' } },
  delivered: { label: 'Delivered' },
  bounced: { label: 'Bounced', isGood: false, target: { to: '/emails', search: { status: 'bounced' } } },
  complaints: { label: 'Complaints', isGood: false },
  opens: { label: 'Opened' },
  clicks: { label: 'Clicked' },
}

/** With fewer that have any, a line of the hours says nothing. */
const MIN_HOURS = 3

function toFigure(metric: ShownMetric, points: readonly AnalyticsTimeseries[]): Figure {
  const { label, isGood, target } = LOOKS[metric]
  const { now, before, series } = sumHours(points, metric)
  return {
    label,
    value: now,
    change: { before, now, ...(isGood !== undefined && { isGood }) },
    ...(series.filter((value) => value > 0).length >= MIN_HOURS && { series }),
    ...(now + before > 0 && { note: `${before.toLocaleString()} the day before` }),
    ...(target && { target }),
  }
}

/** What was sent, and is neither delivered nor bounced. */
function listRest(points: readonly AnalyticsTimeseries[]): readonly Figure[] {
  const count = (metric: ShownMetric) => sumHours(points, metric).now
  const value = count('sent') - count('delivered') - count('bounced')
  return value > 0 ? [{ label: 'Waiting or failed', value }] : []
}

const OUTCOMES = ['delivered', 'bounced'] as const

/** Nothing while there was no mail. */
export function Month() {
  const days = useQuery(read.analytics.getTimeseries({ period: '30d', metrics: OUTCOMES.join(',') }))
  const rates = useData(read.account.getReputation(), { enabled: useSession().role !== 'support' })
  const hours = useHours().data?.data
  if (days.data && !hasActivity(days.data.data, OUTCOMES)) return null
  return (
    <div className="overview-columns">
      <Section title="Last 30 days" action={<TextLink to="/analytics">Analytics</TextLink>} isCard>
        <QueryView query={days}>{({ data, period }) => <Outcomes points={dropBefore(data, period)} />}</QueryView>
      </Section>
      {rates.data && (
        <Rates
          rates={rates.data}
          notCounted={hours ? Math.max(0, sumHours(hours, 'complaints').now - rates.data.complained) : 0}
        />
      )}
    </div>
  )
}

const Outcomes = ({ points }: { readonly points: readonly AnalyticsTimeseries[] }) => {
  const series = toSeries(points, OUTCOMES)
  return (
    <div className="chart-box">
      <ul className="share-names">
        {series.map(({ label, look, values }) => (
          <li key={look}>
            <Swatch look={look} isColumn /> {label}{' '}
            <b>{values.reduce((sum, value) => sum + value, 0).toLocaleString()}</b>
          </li>
        ))}
      </ul>
      <Chart
        label="Delivered and bounced by day; Analytics has the same numbers as a table."
        points={toPoints(points)}
        series={series}
        isStacked
        height={200}
      />
    </div>
  )
}

/** @param notCounted complaints that are not verified */
const Rates = ({ rates, notCounted }: { readonly rates: AccountReputation; readonly notCounted: number }) => (
  <Section title="Reputation" action={<span className="share-rate">Last {rates.period_hours} hours</span>} isCard>
    <div className="meters">
      <Rate
        label="Bounce rate"
        rate={rates.bounce_rate}
        limits={rates.limits.bounce_rate}
        of={`${rates.bounced} of ${rates.delivered + rates.bounced} rejected for good`}
        canPause={rates.can_pause}
      />
      <Rate
        label="Complaint rate"
        rate={rates.complaint_rate}
        limits={rates.limits.complaint_rate}
        of={`${rates.complained} verified of ${rates.delivered} delivered`}
        {...(notCounted > 0 && { doubt: `${formatCount(notCounted, 'complaint')}, not verified: not counted.` })}
        canPause={rates.can_pause}
      />
    </div>
  </Section>
)

interface RateProps {
  readonly label: string
  readonly rate: number | null
  readonly limits: AccountReputation['limits']['bounce_rate']
  readonly of: string
  /** Why a low rate may not be good. */
  readonly doubt?: string
  readonly canPause: boolean
}

function Rate({ label, rate, limits: { warning, pause }, of, doubt, canPause }: RateProps) {
  const toWidth = (part: number) => `${Math.min(100, (part / pause) * 100)}%`
  const state = toState(rate, warning, pause)
  const [tone, word] = doubt && state[0] === 'good' ? (['neutral', 'Not verified'] as const) : state
  return (
    <div className="meter">
      <div className="meter-head">
        <span>{label}</span>
        {word !== undefined && <StatusLabel tone={tone}>{word}</StatusLabel>}
      </div>
      <div className="figure-line">
        <b className="figure-value">{formatRate(rate)}</b>
        <span className="figure-note">{rate === null ? 'No mail' : of}</span>
      </div>
      <div className="meter-bar" aria-hidden="true">
        <span className={`meter-value tone-${tone}`} style={{ width: toWidth(rate ?? 0) }} />
        <span className="meter-limit" style={{ left: toWidth(warning) }} />
      </div>
      {doubt && <span className="figure-note">{doubt}</span>}
      <span className="figure-note">
        Keep it below {formatRate(warning)}.{canPause && ` Sending is paused at ${formatRate(pause)}.`}
      </span>
    </div>
  )
}

const toState = (rate: number | null, warning: number, pause: number): readonly [tone: Tone, word?: string] =>
  rate === null
    ? ['neutral']
    : rate >= pause
      ? ['bad', 'Too high']
      : rate >= warning
        ? ['warning', 'High']
        : ['good', 'Good']
