/** @module One email: what happened to it and what to do, beside what it looks like; its timeline and details. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { Email, EmailSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { type PageOf, useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { CopyText } from '../parts/copy.tsx'
import { formatBytes, toShownState, toTitle } from '../parts/format.ts'
import { IconChevronLeft, IconChevronRight } from '../parts/icons.ts'
import { AppLink, PersonLink, TextLink } from '../parts/links.tsx'
import { Facts, RecordPage, Section, useBack } from '../parts/page.tsx'
import { StatusBadge } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { EmailMenu } from './emails/actions.tsx'
import { Answer } from './emails/answer.tsx'
import { EmailContent } from './emails/content.tsx'
import { toShownTime } from './emails/format.ts'

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
          <TextLink to="/emails/$id" params={{ id: email.resend_of }}>
            {email.resend_of}
          </TextLink>
        ),
      ],
      ['Idempotency key', email.idempotency_key],
      ['Metadata', Object.keys(email.metadata).length > 0 && JSON.stringify(email.metadata)],
    ]}
  />
)
