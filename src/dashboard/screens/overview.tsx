/** @module The first screen: what is left to set up, what needs attention, the last 24 hours, the newest events. */
import { Card, Stack, Text } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import { useSession } from '../api/session.tsx'
import { Page } from '../parts/page.tsx'
import { Section } from '../parts/section.tsx'
import { ErrorState, LoadingState, QueryView } from '../parts/states.tsx'
import { Attention } from './overview/attention.tsx'
import { Checklist } from './overview/checklist.tsx'
import { type Counts, SHOWN_METRICS, type ShownMetric, sumHours } from './overview/format.ts'
import { listNotices } from './overview/notices.ts'
import { isForbidden, useOverviewQueries, useRefreshByEvents, useTimeseries } from './overview/queries.ts'
import { RecentEvents } from './overview/recent-events.tsx'
import { listSteps } from './overview/steps.ts'

const LABELS: Readonly<Record<ShownMetric, string>> = {
  sent: 'Sent',
  delivered: 'Delivered',
  bounced: 'Bounced',
  opens: 'Opened',
  clicks: 'Clicked',
  complaints: 'Complaints',
}

const NUMBER = new Intl.NumberFormat(undefined)
const DAY_MS = 86_400_000

const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

function Figures() {
  const now = Date.now()
  const series = useTimeseries({
    // 48 hours begin two days ago.
    from: toDay(now - 2 * DAY_MS),
    to: toDay(now),
    interval: 'hour',
    metrics: SHOWN_METRICS.join(','),
  })
  return (
    <Section title="Last 24 hours">
      <QueryView query={series}>{({ data }) => <Grid {...sumHours(data)} />}</QueryView>
    </Section>
  )
}

const Grid = ({ now, before }: { readonly now: Counts; readonly before: Counts }) => (
  <div className="figures">
    {SHOWN_METRICS.map((metric) => (
      <Card key={metric} withBorder padding="sm">
        <Text size="sm">{LABELS[metric]}</Text>
        <Text size="xl" fw={700}>
          {NUMBER.format(now[metric])}
        </Text>
        <Text size="sm">{NUMBER.format(before[metric])} the day before</Text>
      </Card>
    ))}
  </div>
)

export function OverviewScreen() {
  useRefreshByEvents()
  return (
    <Page title="Overview">
      <Setup />
      <Figures />
      <RecentEvents />
    </Page>
  )
}

/** Checklist and notices, which share their data. */
function Setup() {
  const { user, captures_mail: capturesMail } = useSession()
  const queries = useOverviewQueries()
  const { account, domains, keys, sent, webhooks, deadLetters } = queries
  const all: readonly UseQueryResult<unknown>[] = Object.values(queries)
  const failed = all.find(({ data, error }) => data === undefined && error && !isForbidden(error))
  if (failed)
    return <ErrorState error={failed.error} onRetry={() => Promise.all(all.map((query) => query.refetch()))} />
  if (all.some(({ isPending }) => isPending)) return <LoadingState rows={4} />
  const steps = listSteps({
    domains: domains.data?.data,
    keys: keys.data?.data,
    sent: sent.data?.data,
    webhooks: webhooks.data?.data,
    hasReadEvents: account.data?.data.events_read_at !== undefined,
    hasAuthenticator: user.totp_enabled,
  })
  const notices = listNotices({
    capturesMail,
    account: account.data?.data,
    domains: domains.data?.data,
    webhooks: webhooks.data?.data,
    deadLetters: deadLetters.data,
  })
  return (
    <Stack gap="lg">
      <Checklist steps={steps} />
      <Attention notices={notices} />
    </Stack>
  )
}
