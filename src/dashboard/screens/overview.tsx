/** @module The first screen: what is left to set up, what needs attention, the last 24 hours, the newest events. */
import { Stack } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import { useSession } from '../api/session.tsx'
import { Page } from '../parts/page.tsx'
import { ErrorState, LoadingState } from '../parts/states.tsx'
import { Attention } from './overview/attention.tsx'
import { Checklist } from './overview/checklist.tsx'
import { Figures } from './overview/figures.tsx'
import { listNotices } from './overview/notices.ts'
import { isForbidden, useOverviewQueries, useRefreshByEvents } from './overview/queries.ts'
import { RecentEvents } from './overview/recent-events.tsx'
import { listSteps } from './overview/steps.ts'

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
