/** @module The first screen: what is left to set up, what needs attention, the last 24 hours, the newest events. */
import { Alert, Stack, Text } from '@mantine/core'
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import type { AnalyticsTimeseries } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { read } from '../api/client.ts'
import { readAgain } from '../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { useSession } from '../api/session.tsx'
import { type Figure, Figures } from '../parts/figures.tsx'
import { TextLink } from '../parts/links.tsx'
import { ErrorState, LoadingState, Page, QueryView, Section } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { Checklist } from './overview/checklist.tsx'
import { SHOWN_METRICS, type ShownMetric, sumHours } from './overview/format.ts'
import { listNotices, type Notice, type NoticeAction } from './overview/notices.ts'
import { RecentEvents } from './overview/recent-events.tsx'
import { hasDelivered, listSteps } from './overview/steps.ts'

const LABELS: Readonly<Record<ShownMetric, string>> = {
  sent: 'Sent',
  delivered: 'Delivered',
  bounced: 'Bounced',
  opens: 'Opened',
  clicks: 'Clicked',
  complaints: 'Complaints',
}

const DAY_MS = 86_400_000

const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

function LastDay() {
  const now = Date.now()
  const series = useQuery(
    read.analytics.getTimeseries({
      // 48 hours begin two days ago.
      from: toDay(now - 2 * DAY_MS),
      to: toDay(now),
      interval: 'hour',
      metrics: SHOWN_METRICS.join(','),
    }),
  )
  return (
    <Section title="Last 24 hours">
      <QueryView query={series}>{({ data }) => <Figures figures={toFigures(data)} />}</QueryView>
    </Section>
  )
}

function toFigures(points: readonly AnalyticsTimeseries[]): readonly Figure[] {
  const { now, before } = sumHours(points)
  return SHOWN_METRICS.map((metric) => ({
    label: LABELS[metric],
    value: now[metric],
    note: `${before[metric].toLocaleString()} the day before`,
  }))
}

export default function OverviewScreen() {
  useRefreshByEvents()
  return (
    <Page title="Overview">
      <Setup />
      <LastDay />
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

export const Attention = ({ notices }: { readonly notices: readonly Notice[] }) => (
  <Section title="Needs attention">
    {notices.length === 0 && <Text>Nothing now. Single bounces are not listed here; the events below have them.</Text>}
    {notices.map((notice) => (
      <NoticeItem key={notice.key} notice={notice} />
    ))}
  </Section>
)

const LEVELS = {
  problem: { colour: 'red', icon: '▲', word: 'Problem' },
  warning: { colour: 'yellow', icon: '■', word: 'Warning' },
} as const

function NoticeItem({ notice: { level, title, text, at, action } }: { readonly notice: Notice }) {
  const { colour, icon, word } = LEVELS[level]
  return (
    <Alert
      color={colour}
      role="group"
      title={`${word}: ${title}`}
      icon={<span aria-hidden="true">{icon}</span>}
      // The tint of an alert leaves too little contrast for its title.
      styles={{ title: { color: 'var(--mantine-color-text)' }, label: { overflow: 'visible', textOverflow: 'clip' } }}
    >
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          {text}
          {at && (
            <>
              {' '}
              {at.label} <Time iso={at.iso} />.
            </>
          )}
        </Text>
        <Action action={action} />
      </Stack>
    </Alert>
  )
}

const Action = ({ action }: { readonly action: NoticeAction }) => (
  <TextLink {...action.target} c="inherit" underline="always">
    {action.label}
  </TextLink>
)

const REFRESH_MS = 5000
const MAX_ROWS = 100
/** The most dead letters that one page has. */
const MAX_DEAD_LETTERS = 200

const useOverviewQueries = () => ({
  account: useQuery(read.account.get()),
  domains: useQuery(read.domains.list({ per_page: MAX_ROWS })),
  /** 403 for roles that may not see keys. */
  keys: useQuery(read.apiKeys.list()),
  /** Emails of status `sent`, until one of them was delivered: what it takes to know whether any was. */
  sent: useQuery({
    ...read.emails.list({ status: 'sent', per_page: MAX_ROWS }),
    enabled: ({ state }) => !state.data || !hasDelivered(state.data.data),
  }),
  webhooks: useQuery(read.webhooks.list({ per_page: MAX_ROWS })),
  deadLetters: useQuery(read.deadLetters.list({ count: MAX_DEAD_LETTERS })),
})

const isForbidden = (error: unknown): boolean => error instanceof TassisError && error.status === 403

/** Reads everything again after events, once for all that happen within the interval. */
function useRefreshByEvents(): void {
  const queries = useQueryClient()
  const refreshSoon = useRefreshSoon(
    () => readAgain(queries, 'account', 'domains', 'apiKeys', 'emails', 'webhooks', 'deadLetters', 'analytics'),
    REFRESH_MS,
  )
  useLiveEvents(refreshSoon)
}
