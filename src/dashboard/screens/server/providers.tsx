/**
 * @module The receiving providers: limits, rates, suspensions with reason and end, and how they treat mail from our
 * addresses in 30 days; resumes them, and acts on their mail. And replies that blame our addresses or set-up, with what to
 * do; nothing while there are none.
 */
import { Group, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorAlert, OperatorProvider, OperatorReputation } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { Figures } from '../../parts/figures.tsx'
import { formatCount } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import { Section } from '../../parts/page.tsx'
import { Notice, StatusLabel } from '../../parts/status.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { REFRESHED, ServerFrame, useOne } from './frame.tsx'
import { QueueActions } from './queue.tsx'

const route = getRouteApi('/server/providers')

const formatRate = ({ rate_per_minute: rate, rate_factor: factor }: OperatorProvider): string =>
  `${rate === null ? 'Any' : rate.toLocaleString()}${factor < 1 ? ` · ${Math.max(1, Math.round(factor * 100))} %` : ''}`

const COLUMNS: readonly Column<OperatorProvider>[] = [
  column('Provider', { width: '20%' }, ({ provider, source }) => (
    <>
      <NameLink to="/server/providers" search={{ provider }} name={provider} />
      {source !== null && (
        <Text span inherit c="dimmed">
          {' '}
          from {source}
        </Text>
      )}
    </>
  )),
  column('Status', { isWrapped: true, phone: 'bare' }, (row) => <State row={row} />),
  column('Accepted', { width: '6rem', isNumeric: true }, (row) => row.last_hour.accepted.toLocaleString()),
  column('Deferred', { width: '6rem', isNumeric: true }, (row) => row.last_hour.deferred.toLocaleString()),
  column('Refused', { width: '6rem', isNumeric: true }, (row) => row.last_hour.refused.toLocaleString()),
  column('Connections', { width: '7rem', isNumeric: true, phone: 'none' }, ({ limits }) => limits.connections),
  column('A minute', { width: '7.5rem', isNumeric: true, phone: 'none' }, formatRate),
]

function State({ row }: { readonly row: OperatorProvider }) {
  const { suspension, rate_factor: factor, warm_up: warmUp, waiting_lanes: waiting } = row
  return (
    <>
      {suspension ? (
        <StatusLabel tone="bad">Suspended</StatusLabel>
      ) : factor < 1 ? (
        <StatusLabel tone="warning">Slowed down</StatusLabel>
      ) : (
        <StatusLabel tone="good">Normal</StatusLabel>
      )}
      {suspension && (
        <div className="cell-details">
          Next attempt <Time iso={suspension.until} />, by the rule {suspension.rule}
          <Text size="xs" lineClamp={3}>
            <bdi>{suspension.reason}</bdi>
          </Text>
        </div>
      )}
      {warmUp && (
        <div className="cell-details">
          Warm-up: {warmUp.used.toLocaleString()} of {warmUp.budget.toLocaleString()} messages of the day
        </div>
      )}
      {waiting > 0 && <div className="cell-details">{formatCount(waiting, 'destination')} waiting</div>}
    </>
  )
}

export default function ProvidersScreen() {
  const { provider } = route.useSearch()
  const list = useList({
    read: read.operator.listProviders,
    toKey: (row) => `${row.provider} ${row.source}`,
    ...REFRESHED,
  })
  return (
    <ListScreen
      frame={ServerFrame}
      title="Providers"
      list={list}
      columns={COLUMNS}
      isWide
      noun="provider"
      description="The limits of each, and what it answered in the last hour."
      nothing={{ title: 'No provider yet', text: 'They appear here with the first mail.' }}
      above={
        <>
          <DeliveryAlerts />
          <Reputation provider={provider} />
          {provider !== undefined && (
            <Section title={provider} isCard>
              <Group gap="xs">
                <QueueActions selector={{ provider }} />
                <Resume provider={provider} />
              </Group>
            </Section>
          )}
        </>
      }
    />
  )
}

const Resume = ({ provider }: { readonly provider: string }) => (
  <ConfirmButton
    label="Resume"
    variant="filled"
    size="compact-sm"
    title="Resume this provider?"
    isDangerous={false}
    done={`${provider} is back to its limits.`}
    refreshes={['operator']}
    run={() => api.operator.resumeProvider(provider)}
  >
    <Text style={{ overflowWrap: 'anywhere' }}>
      Suspensions and lowered rates of <bdi>{provider}</bdi> end; mail that is due is tried now. If it is rejected
      again, they begin again.
    </Text>
  </ConfirmButton>
)

const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 })
const RATES = [
  { label: 'Blocked', kind: 'blocked', rate: 'block_rate' },
  { label: 'Bounced', kind: 'refused', rate: 'bounce_rate' },
  { label: 'Deferred', kind: 'deferred', rate: 'deferral_rate' },
  { label: 'Complaints', kind: 'complaints', rate: 'complaint_rate' },
] as const
/** The busiest, while no provider is chosen. */
const MAX_PAIRS = 3

function Reputation({ provider }: { readonly provider: string | undefined }) {
  const { data } = useOne(read.operator.getReputation({ days: 30 }))
  if (!data || data.pairs.length === 0) return null
  const shown =
    provider === undefined ? data.pairs.slice(0, MAX_PAIRS) : data.pairs.filter((pair) => pair.provider === provider)
  return (
    <Stack gap="xs" component="section" aria-label="Reputation of our addresses">
      {data.alerts.map(({ message, advice }) => (
        <Notice key={message} tone="warning" title={message}>
          {advice}
        </Notice>
      ))}
      {data.listings.map((message) => (
        <Notice key={message} tone="bad" title={message} />
      ))}
      {shown.map((pair) => (
        <PairReputation key={`${pair.provider} ${pair.source}`} pair={pair} data={data} />
      ))}
    </Stack>
  )
}

interface PairProps {
  readonly pair: OperatorReputation['pairs'][number]
  readonly data: OperatorReputation
}

function PairReputation({ pair, data }: PairProps) {
  const isOurs = (row: { readonly provider: string; readonly source: string | null }) =>
    row.provider === pair.provider && row.source === pair.source
  const days = data.days.filter(isOurs).toReversed()
  const figures = RATES.map(({ label, kind, rate }) => {
    const reply = data.replies.find((row) => isOurs(row) && row.kind === kind && row.reply !== '')
    const note = reply && (
      <Text inherit lineClamp={2} title={reply.reply}>
        <bdi>{reply.reply}</bdi>
      </Text>
    )
    // Thousandths, because a line begins at one.
    return { label, value: PERCENT.format(pair[rate]), series: days.map((day) => 1000 * day[rate]), note }
  })
  const title = `${pair.provider === 'other' ? 'Other providers' : pair.provider}${pair.source === null ? '' : ` from ${pair.source}`}`
  return (
    <Section
      title={title}
      description={`${pair.accepted.toLocaleString()} messages accepted in 30 days.`}
      isCard
      order={3}
    >
      <Figures figures={figures} />
    </Section>
  )
}

const MAX_ALERTS = 5

export function DeliveryAlerts() {
  const { data: alerts = [], pagination } =
    usePage(read.operator.listAlerts(), { refetchInterval: REFRESHED.refetchInterval }).data ?? {}
  const more = (pagination?.total ?? 0) - MAX_ALERTS
  if (alerts.length === 0) return null
  return (
    <Stack gap="xs" component="section" aria-label="Delivery alerts">
      {alerts.slice(0, MAX_ALERTS).map((alert) => (
        <OneAlert key={`${alert.rule} ${alert.provider} ${alert.source}`} alert={alert} />
      ))}
      {more > 0 && <Text>And {formatCount(more, 'more alert')} (tassis providers).</Text>}
    </Stack>
  )
}

const OneAlert = ({ alert }: { readonly alert: OperatorAlert }) => (
  <Notice tone="warning" title={`Mail to ${alert.provider} is rejected because of our address or set-up`}>
    {alert.advice}
    <Text lineClamp={3}>
      <bdi>{alert.reply}</bdi>
    </Text>
    <Text size="xs">
      {formatCount(alert.count, 'attempt')}
      {alert.source !== null && ` from ${alert.source}`} since <Time iso={alert.first_at} />, the last{' '}
      <Time iso={alert.last_at} />, by the rule {alert.rule}
    </Text>
  </Notice>
)
