/**
 * @module The first screen: the figures of today, what needs attention, the newest emails; and the steps from a new account
 * to delivered mail, until all are done or the user hides them.
 */

import { Button } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { EmailSummary } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { read } from '../api/client.ts'
import { readAgain } from '../api/data.ts'
import { useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { useAllowed, useSession } from '../api/session.tsx'
import { Authenticator } from '../parts/authenticator.tsx'
import { API_KEY_HINT, toSendCommand } from '../parts/commands.ts'
import { SEVERITIES } from '../parts/findings.tsx'
import { toShownState } from '../parts/format.ts'
import { NameLink, TextLink } from '../parts/links.tsx'
import { NewRows } from '../parts/list.tsx'
import { CommandBlock, EmptyState, ErrorState, Page, QueryView, Section } from '../parts/page.tsx'
import { useSteadyRows } from '../parts/rows.ts'
import { StatusBadge, StatusLabel } from '../parts/status.tsx'
import { type Column, column, DataTable, toId } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { LastDay, Month } from './overview/figures.tsx'
import {
  hasDelivered,
  isMostlyDone,
  listNotices,
  listSteps,
  type Notice,
  type Step,
  type StepName,
} from './overview/notices.ts'
import { useExampleDomain } from './queries.ts'

export default function OverviewScreen() {
  useRefreshByEvents()
  const { user, role, captures_mail: capturesMail } = useSession()
  const canSetUp = useAllowed('developer') === undefined
  const queries = useOverviewQueries(canSetUp, role === 'support')
  const { account, domains, keys, sent, webhooks, deadLetters, drafts } = queries
  const all: readonly UseQueryResult<unknown>[] = Object.values(queries)
  const failed = all.find(({ data, error }) => data === undefined && error && !isForbidden(error))
  const isKnown = all.every(({ isLoading, error }) => !isLoading && (!error || isForbidden(error)))
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
    drafts: drafts.data?.pagination.total,
  })
  const checklist = canSetUp && isKnown && <Checklist steps={steps} />
  const isNew = !isMostlyDone(steps)
  return (
    <Page title="Overview">
      {isNew && checklist}
      <LastDay />
      {failed ? (
        <ErrorState error={failed.error} onRetry={() => Promise.all(all.map((query) => query.refetch()))} />
      ) : (
        isKnown && <Attention notices={notices} />
      )}
      <Month />
      <RecentEmails />
      {!isNew && checklist}
    </Page>
  )
}

const REFRESH_MS = 5000
const MAX_ROWS = 100
/** The most dead letters that one page has. */
const MAX_DEAD_LETTERS = 200

/** Keys and delivered mail matter only for the checklist. */
const useOverviewQueries = (canSetUp: boolean, isSupport: boolean) => ({
  account: useQuery(read.account.get()),
  domains: useQuery(read.domains.list({ per_page: MAX_ROWS })),
  keys: useQuery({ ...read.apiKeys.list(), enabled: useAllowed('admin') === undefined }),
  /** Emails of status `sent`, until one of them was delivered: what it takes to know whether any was. */
  sent: useQuery({
    ...read.emails.list({ status: 'sent', per_page: MAX_ROWS }),
    enabled: ({ state }) => canSetUp && (!state.data || !hasDelivered(state.data.data)),
  }),
  drafts: useQuery(read.emails.list({ status: 'draft', per_page: 1 })),
  webhooks: useQuery({ ...read.webhooks.list({ per_page: MAX_ROWS }), enabled: !isSupport }),
  deadLetters: useQuery({ ...read.deadLetters.list({ count: MAX_DEAD_LETTERS }), enabled: !isSupport }),
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

const Attention = ({ notices }: { readonly notices: readonly Notice[] }) =>
  notices.length > 0 && (
    <Section title="Needs attention">
      <ul className="rows attention">
        {notices.map(({ key, level, title, text, at, action }) => (
          <li key={key}>
            <div>
              <StatusLabel tone={SEVERITIES[level].tone}>
                <span className="visually-hidden">{SEVERITIES[level].word}: </span>
                <b className="row-title">{title}</b>
              </StatusLabel>
            </div>
            <div className="row-aside">
              <TextLink {...action.target}>{action.label}</TextLink>
            </div>
            <div className="row-more">
              <span>
                {text}
                {at && <Time before={` ${at.label} `} iso={at.iso} after="." />}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )

const MAX_SHOWN = 10

function RecentEmails() {
  const query = useQuery(read.emails.list({ per_page: MAX_SHOWN }))
  const list = useSteadyRows(query, 'recent', toId)
  const rows = list.page?.data ?? []
  return (
    <Section title="Recent emails" action={rows.length > 0 && <TextLink to="/emails">All emails</TextLink>}>
      <QueryView query={query}>
        {() =>
          rows.length === 0 ? (
            <EmptyState title="No email yet" text="Each email that you send appears here, with its outcome." />
          ) : (
            <div className="list">
              <NewRows list={list} />
              <DataTable label="Recent emails" columns={COLUMNS} rows={rows} />
            </div>
          )
        }
      </QueryView>
    </Section>
  )
}

const COLUMNS: readonly Column<EmailSummary>[] = [
  column('Recipient', { width: '32%' }, ({ id, to, to_address: address }) => (
    <NameLink to="/emails/$id" params={{ id }} title={to} name={address || '(no recipient)'} />
  )),
  column('Subject', { phone: 'bare' }, ({ subject }) => <bdi title={subject}>{subject || '(no subject)'}</bdi>),
  column('Status', { width: '10rem', phone: 'bare' }, (row) => <StatusBadge status={toShownState(row, row.state)} />),
  column('Time', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
]

interface StepText {
  readonly title: string
  readonly text: string
  readonly Action: () => ReactNode
}

function SendCommand() {
  const domain = useExampleDomain()
  return <CommandBlock command={toSendCommand(domain?.domain)} />
}

const STEPS: Readonly<Record<StepName, StepText>> = {
  domain: {
    title: 'Verify a domain',
    text: 'Until then mail is only captured.',
    Action: () => <TextLink to="/domains">Add a domain</TextLink>,
  },
  key: {
    title: 'Create an API key',
    text: 'Your application signs in with it.',
    Action: () => <TextLink to="/keys">Create an API key</TextLink>,
  },
  email: {
    title: 'Send your first email',
    text: `To an address of yours, with your key in the place of ${API_KEY_HINT}. Done when an email is delivered; captured mail does not count.`,
    Action: SendCommand,
  },
  webhook: {
    title: 'Receive events',
    text: 'By a webhook, or from the feed (GET /v1/events). Done when your URL accepts an event, or a key reads the feed.',
    Action: () => <TextLink to="/webhooks">Add a webhook</TextLink>,
  },
  authenticator: {
    title: 'Protect your sign-in',
    text: 'With an authenticator app, a stolen password is not enough.',
    Action: Authenticator,
  },
}

function Checklist({ steps }: { readonly steps: readonly Step[] }) {
  const { account } = useSession()
  const [isHidden, setIsHidden] = useLocalStorage({
    key: `tassis-checklist-hidden-${account.id}`,
    defaultValue: false,
    getInitialValueInEffect: false,
  })
  const done = steps.filter(({ isDone }) => isDone).length
  const first = steps.find(({ isDone }) => !isDone)
  if (isHidden || !first) return null
  return (
    <details className="checklist card" open={!isMostlyDone(steps)}>
      <summary>
        <h2>Get started</h2>
        <progress value={done} max={steps.length} aria-label="Steps done" />
        <span className="share-rate">
          {done} of {steps.length} done. Next: {STEPS[first.name].title}
        </span>
      </summary>
      <ol>
        {steps.map(({ name, isDone }) => (
          <StepItem key={name} name={name} isDone={isDone} isNext={name === first.name} />
        ))}
      </ol>
      <Button variant="subtle" color="gray" size="xs" ml="-0.625rem" onClick={() => setIsHidden(true)}>
        Hide this list
      </Button>
    </details>
  )
}

function StepItem({ name, isDone, isNext }: Step & { readonly isNext: boolean }) {
  const { title, text, Action } = STEPS[name]
  if (isDone)
    return (
      <li>
        <StatusLabel tone="good">
          {title}
          <span className="visually-hidden">: done</span>
        </StatusLabel>
      </li>
    )
  return (
    <li>
      {/* One of them is open. */}
      <details name="step" open={isNext}>
        <summary>
          <b className="row-title">{title}</b>
        </summary>
        <div className="checklist-step">
          <p>{text}</p>
          <Action />
        </div>
      </details>
    </li>
  )
}
