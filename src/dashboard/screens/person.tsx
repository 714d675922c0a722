/** @module One recipient: whether mail reaches the address, what became of the last ones, its lists, what it sent. */
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import type { Person, PersonEmail, PersonSuppression } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { useAllowed, useSession } from '../api/session.tsx'
import { formatCount, toShownState } from '../parts/format.ts'
import { InlineLink, NameLink, TextLink } from '../parts/links.tsx'
import { EmptyState, Facts, RecordPage, Section, useBack } from '../parts/page.tsx'
import { Menu } from '../parts/popover.tsx'
import { Notice, StateLabel, StatusBadge, StatusLabel } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { toStatusWord } from '../parts/tone.ts'
import { Closest, useClosest } from './emails/closest.tsx'
import { countRecipients } from './emails/format.ts'
import { CONTACT_STATES } from './filters.ts'
import { findReason } from './suppressions/reasons.ts'
import { RemoveSuppression } from './suppressions/remove.tsx'

const route = getRouteApi('/people/$address')

export default function PersonScreen() {
  const { address } = route.useParams()
  const query = useData(read.people.get(address))
  useReadAgainAfter(query, ({ recipient }) => recipient?.toLowerCase() === address.toLowerCase())
  const person = query.data
  const navigate = useNavigate()
  const isPrivate = useAllowed('admin') === undefined
  return (
    <RecordPage
      title={person?.address ?? address}
      list={{ to: '/emails' }}
      listName="All emails"
      query={query}
      missing="This is not an address."
      onEscape={useBack({ to: '/emails' })}
      {...(person && { status: <Answer person={person} />, description: describe(person) })}
      action={
        isPrivate && (
          <Menu
            label="More actions"
            actions={[
              {
                label: 'Export or erase',
                onClick: () => navigate({ to: '/settings/privacy', search: { person: person?.address ?? address } }),
              },
            ]}
          />
        )
      }
    >
      {(data) => <PersonView person={data} />}
    </RecordPage>
  )
}

const describe = ({ display_names: [name, ...others] }: Person) =>
  name !== undefined && (
    <>
      <bdi>{name}</bdi>
      {others.length > 0 && <> · also {others.join(', ')}</>}
    </>
  )

const isStoppedInPart = ({ can_receive: isReached, suppressions }: Person) => isReached && suppressions.length > 0

/** Whether the last email did not arrive, although nothing stops mail. */
const isUnreached = ({ recent_emails: [last] }: Person) =>
  last?.recipient_state === 'bounced' || last?.recipient_state === 'deferred'

const Answer = ({ person }: { readonly person: Person }) =>
  person.erasure ? (
    <StatusLabel tone="neutral">{person.erasure.state === 'running' ? 'Is being erased' : 'Erased'}</StatusLabel>
  ) : !person.can_receive ? (
    <StatusLabel tone="bad">Gets no mail</StatusLabel>
  ) : isStoppedInPart(person) ? (
    <StatusLabel tone="warning">Gets some mail</StatusLabel>
  ) : isUnreached(person) ? (
    <StatusLabel tone="warning">
      Not suppressed; last email {toStatusWord(person.recent_emails[0]?.recipient_state ?? '').toLowerCase()}
    </StatusLabel>
  ) : person.emails.total > 0 || person.lists?.length ? (
    <StatusLabel tone="good">May get mail</StatusLabel>
  ) : null

function PersonView({ person }: { readonly person: Person }) {
  const { address, emails, recent_emails: recent, suppressions, lists, received, mailboxes } = person
  const { role } = useSession()
  return (
    <>
      {suppressions.length > 0 && (
        <Notice
          tone={person.can_receive ? 'warning' : 'bad'}
          title={person.sentence}
          action={<RemoveSuppression address={address} />}
        >
          {suppressions.map((suppression) => (
            <Cause key={suppression.id} suppression={suppression} />
          ))}
        </Notice>
      )}
      <Section
        title="Emails"
        description={emails.total > 0 && <Counts person={person} />}
        action={
          emails.total > recent.length && (
            <TextLink to="/emails" search={{ to: address }} name={`All ${emails.total.toLocaleString()}`} />
          )
        }
      >
        {recent.length === 0 ? (
          <NeverMailed address={address} />
        ) : (
          <DataTable label="Newest emails" columns={EMAILS} rows={recent} />
        )}
      </Section>
      {lists && lists.length > 0 && (
        <Section title="Lists">
          <DataTable label="Lists" columns={toListColumns(address, role === 'support')} rows={lists} />
        </Section>
      )}
      {received && received.length > 0 && (
        <Section title="Received from this address">
          <DataTable label="Received" columns={RECEIVED} rows={received} />
        </Section>
      )}
      {mailboxes && mailboxes.length > 0 && (
        <Section title="Mailboxes">
          <Facts
            facts={mailboxes.map(({ id, address: mailbox, messages, last_message_at: at }) => [
              mailbox,
              <span key={id}>
                <TextLink to="/inbound/mailboxes/$id" params={{ id }} name={formatCount(messages, 'message')} />, last{' '}
                <Time iso={at} />
              </span>,
            ])}
          />
        </Section>
      )}
    </>
  )
}

/** Since when an address is suppressed, and by what. */
function Cause({ suppression }: { readonly suppression: PersonSuppression }) {
  const { reason, created_at: since, source_email: source, added_by: by } = suppression
  return (
    <div>
      <bdi>{findReason(reason)?.word ?? reason}</bdi> since <Time iso={since} isRelative />
      {source && (
        <>
          {', by the email '}
          <InlineLink to="/emails/$id" params={{ id: source.id }}>
            <bdi>{source.subject || '(no subject)'}</bdi>
          </InlineLink>
        </>
      )}
      {by && by.type !== 'system' && <>, added by {by.type === 'recipient' ? 'the recipient' : (by.name ?? by.type)}</>}
      .
    </div>
  )
}

/** How many since when, what became of the newest of them, and what the person did last. */
function Counts({ person: { emails, recent_emails: recent } }: { readonly person: Person }) {
  const { total, counted, first_at: first, by_state: states, last_opened_at: opened, last_clicked_at: clicked } = emails
  // Of emails that are all below, what their rows say.
  const shown =
    counted <= recent.length
      ? [...Map.groupBy(recent, toState)].map(([state, rows]) => [state, rows.length] as const)
      : Object.entries(states)
  const outcomes = shown.map(([state, count]) => `${count.toLocaleString()} ${toStatusWord(state).toLowerCase()}`)
  return (
    <>
      {total > MAX_TOTAL ? `More than ${formatCount(MAX_TOTAL, 'email')}` : formatCount(total, 'email')}
      {first && <Time before=" since " iso={first} />}
      {counted < total ? `. Of the newest ${counted}: ` : ': '}
      {outcomes.join(', ')}.{opened && <Time before=" Last opened " iso={opened} isRelative after="." />}
      {clicked && <Time before=" Last clicked " iso={clicked} isRelative after="." />}
    </>
  )
}

const MAX_TOTAL = 10_000

/** An address that got no mail may be a typing error of one that did. */
function NeverMailed({ address }: { readonly address: string }) {
  const { people, since } = useClosest(address)
  return (
    <EmptyState title={`Never mailed${since}`}>
      <Closest people={people} />
    </EmptyState>
  )
}

/** Opens and clicks are only known of the email: whoever else got it may have made them. */
const toState = (row: PersonEmail): string =>
  countRecipients(row) === 1 ? toShownState(row, row.recipient_state) : row.recipient_state

const EMAILS: readonly Column<PersonEmail>[] = [
  column('Subject', {}, ({ id, subject }) => (
    <NameLink to="/emails/$id" params={{ id }} title={subject} name={subject || '(no subject)'} />
  )),
  column('Status', { width: '12rem', phone: 'bare' }, (row) => <StatusBadge status={toState(row)} />),
  column(
    'Time',
    { width: '9rem', phone: 'aside' },
    ({ recipient_state: state, scheduled_at: later, created_at: at }) => (
      <Time iso={state === 'scheduled' ? (later ?? at) : at} />
    ),
  ),
]

type ListOf = NonNullable<Person['lists']>[number]

/** @param isPlain whether the reader may not open lists */
const toListColumns = (email: string, isPlain: boolean): readonly Column<ListOf>[] => [
  column('List', {}, ({ id, name }) =>
    isPlain ? (
      <bdi>{name}</bdi>
    ) : (
      <NameLink to="/audience/lists/$id/contacts/$email" params={{ id, email }} name={name} />
    ),
  ),
  column('Status', { width: '12rem', phone: 'bare' }, ({ status }) => <StateLabel state={CONTACT_STATES[status]} />),
  column('Since', { width: '9rem', phone: 'aside' }, ({ subscribed_at: since, unsubscribed_at: left }) => (
    <Time iso={left ?? since} />
  )),
]

const RECEIVED: readonly Column<NonNullable<Person['received']>[number]>[] = [
  column('Subject', {}, ({ id, subject }) => (
    <NameLink to="/inbound/$id" params={{ id }} name={subject || '(no subject)'} />
  )),
  column('Time', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
]
