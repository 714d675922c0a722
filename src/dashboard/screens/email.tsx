/** @module One email: what happened to it and what to do, beside what it looks like, in tabs; its timeline, details. */

import { Stack, Text } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { Email, EmailLink, EmailSummary } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { read } from '../api/client.ts'
import { isMissing, type PageOf, useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { CopyText } from '../parts/copy.tsx'
import { formatBytes, toShownState, toTitle } from '../parts/format.ts'
import { IconChevronLeft, IconChevronRight } from '../parts/icons.ts'
import { AppLink, PersonLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { MessageContent } from '../parts/message-content.tsx'
import { Facts, QueryView, RecordPage, Section, useBack } from '../parts/page.tsx'
import { StatusBadge } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { EmailMenu } from './emails/actions.tsx'
import { Answer } from './emails/answer.tsx'
import { toShownTime } from './emails/format.ts'
import { EMAIL_TABS } from './filters.ts'

const route = getRouteApi('/emails/$id')

const REFRESH_INTERVAL_MS = 1000
export default function EmailScreen() {
  const { id } = route.useParams()
  const query = useData(read.emails.get(id))
  useReadAgainAfter(query, (event) => event.email_id === id, REFRESH_INTERVAL_MS)
  const email = query.data
  return (
    <RecordPage
      title={email ? toTitle(email.subject) : 'Email'}
      list={{ to: '/emails' }}
      listName="All emails"
      query={query}
      onEscape={useBack({ to: '/emails' })}
      {...(email && {
        status: <StatusBadge status={toShownState(email, email.state)} />,
        description: <Envelope email={email} />,
      })}
      action={
        <>
          {email && <Neighbours email={email} />}
          {email && <EmailMenu email={email} />}
        </>
      }
    >
      {(data) => <EmailView key={data.id} email={data} />}
    </RecordPage>
  )
}

/** To whom, from whom, when. */
function Envelope({ email }: { readonly email: Email }) {
  const [first, ...others] = email.recipients
  return (
    <>
      To {first ? <PersonLink address={first.address} /> : 'nobody'}
      {others.length > 0 && ` and ${others.length} more`}
      {' · from '}
      <bdi>{email.from_address.replace(/^.*<(.*)>$/, '$1')}</bdi>
      {' · '}
      <Time iso={toShownTime(email)} isRelative />
    </>
  )
}

/** The emails before and after it in the list that was shown last, or in that of the mail to this person. */
function Neighbours({ email: { id, recipients } }: { readonly email: Email }) {
  const queries = useQueryClient()
  const [latest] = queries
    .getQueriesData<PageOf<EmailSummary>>({ queryKey: ['emails', 'list'] })
    .flatMap(([key, page]) => {
      const { dataUpdatedAt = 0 } = queries.getQueryState(key) ?? {}
      return page?.data.some((row) => row.id === id) ? [{ rows: page.data, dataUpdatedAt }] : []
    })
    .sort((a, b) => b.dataUpdatedAt - a.dataUpdatedAt)
  useQuery({
    ...read.emails.list({ to: recipients[0]?.address }),
    enabled: latest === undefined && recipients.length > 0,
  })
  const rows = latest?.rows ?? []
  const place = rows.findIndex((row) => row.id === id)
  return (
    <nav aria-label="Emails before and after" className="neighbours">
      <Neighbour row={rows[place - 1]} label="Previous email" icon={IconChevronLeft} />
      <Neighbour row={place < 0 ? undefined : rows[place + 1]} label="Next email" icon={IconChevronRight} />
    </nav>
  )
}

interface NeighbourProps {
  readonly row: EmailSummary | undefined
  readonly label: string
  readonly icon: typeof IconChevronLeft
}

/** Without an email there, it keeps its place. */
const Neighbour = ({ row, label, icon: Icon }: NeighbourProps) => (
  <AppLink
    to="/emails/$id"
    params={{ id: row?.id ?? '' }}
    disabled={!row}
    // The list is one step back, however many were read.
    replace
    className="icon-button"
    aria-label={label}
    {...(row && { title: `${label}: ${row.to_address}, ${row.subject}` })}
  >
    <Icon size="1.125rem" aria-hidden />
  </AppLink>
)

const EmailView = ({ email }: { readonly email: Email }) => (
  <div className="email-panes" data-single={email.content === 'hidden' || undefined}>
    <div className="pane">
      <Answer email={email} />
    </div>
    <div className="pane">
      <EmailContent email={email} />
    </div>
    <div className="pane">
      <Section title="Message">
        <EmailFacts email={email} />
      </Section>
    </div>
  </div>
)

const EmailFacts = ({ email }: { readonly email: Email }) => (
  <Facts
    facts={[
      ['Subject', email.subject === toTitle(email.subject) ? null : email.subject],
      ['Accepted', <Time key="accepted" iso={email.created_at} hasSeconds />],
      ['Scheduled for', email.scheduled_at && <Time iso={email.scheduled_at} />],
      ['Deadline', email.expires_at && <Time iso={email.expires_at} />],
      ['Tags', email.tags.join(', ')],
      ['Attachments', email.attachments?.map(({ filename, size }) => `${filename} (${formatBytes(size)})`).join(', ')],
      ['Message-ID', <CopyText key="message-id" value={email.message_id} what="Message-ID" />],
      ['Id', <CopyText key="id" value={email.id} what="id" />],
      [
        'Repeats',
        email.resend_of !== null && (
          <TextLink to="/emails/$id" params={{ id: email.resend_of }} name={email.resend_of} />
        ),
      ],
      ['Idempotency key', email.idempotency_key],
      ['Metadata', Object.keys(email.metadata).length > 0 && JSON.stringify(email.metadata)],
    ]}
  />
)

const EmailContent = ({ email }: { readonly email: Email }) =>
  email.content === 'hidden' ? (
    <Text>Your role does not show what emails contain.</Text>
  ) : (
    <MessageContent
      tabs={EMAIL_TABS}
      html={email.html_body}
      text={email.text_body}
      frame={`/app/mail/${email.id}/html`}
      isMissing={email.content === 'missing'}
      panels={{
        headers: () => <Headers email={email} />,
        source: () => <Source id={email.id} />,
        links: () => <Links id={email.id} />,
      }}
    />
  )

function Headers({ email }: { readonly email: Email }) {
  const own = Object.entries(email.headers).map(
    ([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)] as const,
  )
  return (
    <Stack gap="xs">
      <Facts
        facts={[
          ['From', <Mailbox key="from" text={email.from_address} />],
          ['To', email.to],
          ['Cc', email.cc.join(', ')],
          ['Reply-To', email.reply_to],
          ['Subject', email.subject],
          ['Message-ID', email.message_id],
          ...own,
        ]}
      />
      <Text size="sm" c="dimmed">
        These are the headers as requested; this service adds others, such as Date and DKIM-Signature.
      </Text>
    </Stack>
  )
}

/** The message as it is composed, when `/v1` has it. */
function Source({ id }: { readonly id: string }) {
  const query = useData(read.emails.getSource(id), { staleTime: 60_000 })
  if (isMissing(query.error)) return <Text>The source of this email is not available.</Text>
  return (
    <QueryView query={query}>
      {({ source, headers }) => <LongText label="Source of the email" text={source ?? headers} />}
    </QueryView>
  )
}

const LINK_COLUMNS: readonly Column<EmailLink>[] = [
  column('Link', {}, ({ url }) => <CopyText value={url} what="link" />),
  column('Clicks', { width: '6rem' }, ({ clicks }) => clicks),
  column('Days', { width: '6rem' }, ({ unique_clicks: days }) => days),
  column('By machines', { width: '8rem' }, ({ machine_clicks: clicks }) => clicks),
  column('Last click', { width: '9rem' }, ({ last_clicked_at: at }) => <Time iso={at} />),
]

function Links({ id }: { readonly id: string }) {
  const query = useData(read.emails.listLinks(id))
  if (query.error instanceof TassisError && query.error.code === 'tracking_not_in_plan')
    return <Text>{query.error.message}</Text>
  return (
    <QueryView query={query}>
      {(data) =>
        data.length === 0 ? (
          <Text>No link was clicked. Clicked links appear here when tracking is on for the email.</Text>
        ) : (
          <DataTable label="Clicked links" columns={LINK_COLUMNS} rows={data} toKey={({ url }) => url} />
        )
      }
    </QueryView>
  )
}

function Mailbox({ text }: { readonly text: string }) {
  const start = text.lastIndexOf('<')
  if (start <= 0) return <bdi>{text}</bdi>
  return (
    <>
      <bdi>{text.slice(0, start).trim()}</bdi> <bdi>{text.slice(start)}</bdi>
    </>
  )
}
