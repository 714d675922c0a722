/** @module The list of agent mailboxes; and one of them: its threads, a search in its messages. */
import { Text } from '@mantine/core'
import { getRouteApi, linkOptions, useNavigate } from '@tanstack/react-router'
import type { Domain, Event, Mailbox, MailboxMessageSummary, MailboxThreadSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { toCurl } from '../parts/commands.ts'
import { CopyText } from '../parts/copy.tsx'
import { DeleteButton, FormButton } from '../parts/dialog.tsx'
import { FilterForm } from '../parts/filter-form.tsx'
import { readList } from '../parts/filters.ts'
import { findFieldError } from '../parts/form.tsx'
import { formatBytes, formatCount } from '../parts/format.ts'
import { InlineLink, NameLink } from '../parts/links.tsx'
import { ListScreen, ListView, useList } from '../parts/list.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { THREAD_FILTERS } from './filters.ts'
import { InboundNavigation } from './inbound/marks.tsx'
import { toVisible } from './inbound/proof.ts'
import { useAllDomains } from './queries.ts'

const COLUMNS: readonly Column<Mailbox>[] = [
  column('Address', {}, ({ id, address, display_name: name }) => (
    <NameLink to="/inbound/mailboxes/$id" params={{ id }} name={address} note={name} />
  )),
  column('Threads', { width: '7rem', isNumeric: true, phone: 'none' }, (row) => row.thread_count.toLocaleString()),
  column('Messages', { width: '7rem', isNumeric: true }, (row) => row.message_count.toLocaleString()),
  column('Unread', { width: '7rem', isNumeric: true }, (row) => row.unread_count.toLocaleString()),
  column('Created', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
]

const isNewMessage = ({ event_type: type }: Event): boolean => type === 'mailbox.message.received'

const isReceiving = ({ status, inbound_enabled: isEnabled }: Domain): boolean => status === 'verified' && isEnabled

export default function MailboxesScreen() {
  const list = useList({ read: read.mailboxes.list, isConcerned: isNewMessage })
  const navigate = useNavigate()
  const { data: domains } = useAllDomains()
  const first = domains?.find(({ status }) => status === 'verified') ?? domains?.[0]
  const canReceive = domains === undefined || domains.some(isReceiving)
  return (
    <ListScreen
      title="Mailboxes"
      list={list}
      columns={COLUMNS}
      noun="mailbox"
      action={
        <FormButton
          label="Create a mailbox"
          needs="developer"
          reason={canReceive ? undefined : 'No verified domain of this account receives mail.'}
          confirm="Create"
          fields={[
            {
              name: 'local_part',
              label: 'Part before the @',
              kind: 'code',
              hint: 'Empty: a random one, such as calm-otter-0482.',
            },
            {
              name: 'domain_id',
              label: 'Domain',
              kind: 'choice',
              options: (domains ?? []).filter(isReceiving).map(({ id, domain: label }) => ({ value: id, label })),
            },
            { name: 'display_name', label: 'Name', hint: 'In From of its replies; may be empty.' },
            { name: 'drafts', label: 'Replies wait for release', kind: 'check', hint: 'Except those by people.' },
          ]}
          refreshes={[['mailboxes', 'list']]}
          run={api.mailboxes.create}
          onDone={({ data }) => navigate({ to: '/inbound/mailboxes/$id', params: { id: data.id } })}
        />
      }
      navigation={<InboundNavigation />}
      nothing={{
        title: 'Your mailboxes will appear here',
        text: 'A mailbox is an address that a program reads and answers. Here you see its threads, and can reply yourself.',
        ...(canReceive && { command: toCurl('/v1/agent-mailboxes', { local_part: 'agent' }) }),
        children: !canReceive && (
          <Text>
            A mailbox belongs to a verified domain with “Receive mail” on:{' '}
            {first ? (
              <InlineLink to="/domains/$id" params={{ id: first.id }} name={`settings of ${first.domain}`} />
            ) : (
              <InlineLink to="/domains/new">add a domain</InlineLink>
            )}
            . The server must listen for mail (TASSIS_INBOUND_ADDR).
          </Text>
        ),
      }}
    />
  )
}

const route = getRouteApi('/inbound/mailboxes/$id')

export function MailboxScreen() {
  const { id } = route.useParams()
  const { q } = route.useSearch()
  const navigate = route.useNavigate()
  const query = useData(read.mailboxes.get(id))
  useReadAgainAfter(query, isNewMessage)
  return (
    <RecordPage
      title={query.data?.address ?? 'Mailbox'}
      list={{ to: '/inbound/mailboxes' }}
      listName="All mailboxes"
      query={query}
      description={query.data && <Summary mailbox={query.data} />}
      action={query.data && <DeleteMailbox mailbox={query.data} />}
    >
      {(mailbox) => (
        <>
          <div className="list-view" key={mailbox.id}>
            <FilterForm
              filters={THREAD_FILTERS}
              values={{ ...(q !== undefined && { q }) }}
              onChange={(next) => void navigate({ search: readList(THREAD_FILTERS)(next) })}
            />
            {q === undefined ? <Threads mailbox={mailbox} /> : <Found mailboxId={id} words={q} />}
          </div>
          <Section title="Details">
            <MailboxFacts mailbox={mailbox} />
          </Section>
        </>
      )}
    </RecordPage>
  )
}

interface MailboxProps {
  readonly mailbox: Mailbox
}

const Summary = ({ mailbox: { display_name: name, message_count: count, unread_count: unread } }: MailboxProps) => (
  <>
    {name !== null && (
      <>
        <bdi>{name}</bdi> ·{' '}
      </>
    )}
    {formatCount(count, 'message')}, {unread.toLocaleString()} unread
  </>
)

function MailboxFacts({ mailbox }: MailboxProps) {
  const { auto_responder: auto } = mailbox
  return (
    <Facts
      facts={[
        ['Unread', mailbox.unread_count > 0 && `${formatBytes(mailbox.unread_bytes)} that no program has acknowledged`],
        ['Replies', mailbox.drafts && 'Wait until a person releases them'],
        ['Automatic replies', auto?.enabled ? `On, with ${formatCount(auto.rules.length, 'rule')}` : 'Off'],
        ['Created', <Time key="created" iso={mailbox.created_at} />],
        ['Id', <CopyText key="id" value={mailbox.id} what="id" />],
      ]}
    />
  )
}

const DeleteMailbox = ({ mailbox }: MailboxProps) => (
  <DeleteButton
    noun="mailbox"
    typed={mailbox.address}
    remove={() => api.mailboxes.delete(mailbox.id)}
    refreshes={[['mailboxes', 'list']]}
    leadsTo={{ to: '/inbound/mailboxes' }}
  >
    All {formatCount(mailbox.message_count, 'message')} in it are deleted. Later mail to its address is treated like
    mail to any other address of the domain.
  </DeleteButton>
)

const MAX_TOOLTIP_LENGTH = 1000

const toThread = (id: string, thread: string) =>
  linkOptions({ to: '/inbound/mailboxes/$id/threads/$thread', params: { id, thread } })

function Threads({ mailbox: { id, address } }: MailboxProps) {
  const list = useList({
    read: (query) => read.mailboxes.listThreads(id, query),
    isSteady: true,
    // A thread with a new message moves up, which waits for a click too.
    toKey: ({ thread_id: thread, last_message_at: at }) => `${thread} ${at}`,
    isConcerned: isNewMessage,
  })
  const columns: readonly Column<MailboxThreadSummary>[] = [
    column('Subject', {}, ({ thread_id: threadId, subject }) => (
      <NameLink {...toThread(id, threadId)} title={subject.slice(0, MAX_TOOLTIP_LENGTH)}>
        <bdi>{subject || '(no subject)'}</bdi>
      </NameLink>
    )),
    column('From', { width: '28%', phone: 'bare' }, ({ from_header: from }) => <Sender from={from} />),
    column('Messages', { width: '7rem', isNumeric: true }, ({ message_count: count }) => count.toLocaleString()),
    column('Newest', { width: '9rem', phone: 'aside' }, ({ last_message_at: at }) => <Time iso={at} />),
  ]
  return (
    <ListView
      list={list}
      columns={columns}
      noun="thread"
      empty={<Text>Messages to {address} will appear here, each with its replies as one thread.</Text>}
    />
  )
}

const Sender = ({ from }: { readonly from: string }) => <bdi title={toVisible(from)}>{toVisible(from)}</bdi>

interface FoundProps {
  readonly mailboxId: string
  readonly words: string
}

function Found({ mailboxId, words }: FoundProps) {
  const list = useList({ read: (query) => read.mailboxes.searchMessages(mailboxId, { ...query, q: words }) })
  const columns: readonly Column<MailboxMessageSummary>[] = [
    column('Subject', {}, ({ thread_id: threadId, subject }) => (
      <NameLink {...toThread(mailboxId, threadId)} name={<bdi>{subject || '(no subject)'}</bdi>} />
    )),
    column('From', { width: '28%', phone: 'bare' }, ({ from_header: from }) => <Sender from={from} />),
    column('Received', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
  ]
  const wordsError = findFieldError(list.query.error, 'q')
  if (wordsError !== undefined) return <Text role="alert">{wordsError}</Text>
  return (
    <ListView
      list={list}
      columns={columns}
      noun="message"
      empty={<Text>No message has all of these words. Whole words are searched: “work” does not find “works”.</Text>}
    />
  )
}
