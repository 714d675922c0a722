/** @module One agent mailbox: its threads, a search in its messages. */
import { Group, Stack, Text } from '@mantine/core'
import { getRouteApi, linkOptions } from '@tanstack/react-router'
import type { Event, Mailbox, MailboxMessageSummary, MailboxThreadSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FilterForm } from '../parts/filter-form.tsx'
import { readList } from '../parts/filters.ts'
import { findFieldError } from '../parts/form-error.tsx'
import { formatBytes } from '../parts/format.ts'
import { NameLink } from '../parts/links.tsx'
import { ListView, useList } from '../parts/list.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { THREAD_FILTERS } from './filters.ts'
import { toVisible } from './inbound/visible.ts'

const route = getRouteApi('/inbound/mailboxes/$id')

const isNewMessage = ({ event_type: type }: Event): boolean => type === 'mailbox.message.received'

export default function MailboxScreen() {
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
      missing="This account has no mailbox with this id. It may have been deleted."
    >
      {(mailbox) => (
        <Stack gap="lg" key={mailbox.id}>
          <MailboxFacts mailbox={mailbox} />
          <Section title="Threads">
            <FilterForm
              filters={THREAD_FILTERS}
              values={{ ...(q !== undefined && { q }) }}
              onChange={(next) => void navigate({ search: readList(THREAD_FILTERS)(next) })}
            />
            {q === undefined ? <Threads mailbox={mailbox} /> : <Found mailboxId={id} words={q} />}
          </Section>
        </Stack>
      )}
    </RecordPage>
  )
}

interface MailboxProps {
  readonly mailbox: Mailbox
}

function MailboxFacts({ mailbox }: MailboxProps) {
  const { auto_responder: auto } = mailbox
  return (
    <Stack gap="sm">
      <Facts
        facts={[
          ['Name', mailbox.display_name],
          ['Messages', `${mailbox.message_count.toLocaleString()} received`],
          [
            'Unread',
            `${mailbox.unread_count.toLocaleString()} that no program has acknowledged (${formatBytes(mailbox.unread_bytes)})`,
          ],
          [
            'Automatic replies',
            auto?.enabled ? `On, with ${auto.rules.length} ${auto.rules.length === 1 ? 'rule' : 'rules'}` : 'Off',
          ],
          ['Created', <Time key="created" iso={mailbox.created_at} />],
          ['Id', mailbox.id],
        ]}
      />
      <DeleteMailbox mailbox={mailbox} />
    </Stack>
  )
}

const DeleteMailbox = ({ mailbox }: MailboxProps) => (
  <Group>
    <DeleteButton
      label="Delete the mailbox"
      size="xs"
      title="Delete this mailbox?"
      confirm="Delete the mailbox"
      typed={mailbox.address}
      remove={() => api.mailboxes.delete(mailbox.id)}
      refreshes={[['mailboxes', 'list']]}
      leadsTo={{ to: '/inbound/mailboxes' }}
    >
      <Text>
        All {mailbox.message_count.toLocaleString()} messages in it are deleted at once. Later mail to its address is
        treated like mail to any other address of the domain.
      </Text>
    </DeleteButton>
  </Group>
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
    {
      header: 'Subject',
      cell: ({ thread_id: threadId, subject }) => (
        <NameLink {...toThread(id, threadId)} title={subject.slice(0, MAX_TOOLTIP_LENGTH)}>
          <bdi>{subject || '(no subject)'}</bdi>
        </NameLink>
      ),
    },
    { header: 'Messages', width: '7rem', cell: ({ message_count: count }) => count.toLocaleString() },
    { header: 'Newest', width: '9rem', cell: ({ last_message_at: at }) => <Time iso={at} /> },
  ]
  return (
    <ListView
      list={list}
      label="Threads, newest message first"
      columns={columns}
      noun="thread"
      empty={<Text>Messages to {address} will appear here, each with its replies as one thread.</Text>}
    />
  )
}

interface FoundProps {
  readonly mailboxId: string
  readonly words: string
}

function Found({ mailboxId, words }: FoundProps) {
  const list = useList({ read: (query) => read.mailboxes.searchMessages(mailboxId, { ...query, q: words }) })
  const columns: readonly Column<MailboxMessageSummary>[] = [
    {
      header: 'Subject',
      cell: ({ thread_id: threadId, subject }) => (
        <NameLink {...toThread(mailboxId, threadId)}>
          <bdi>{subject || '(no subject)'}</bdi>
        </NameLink>
      ),
    },
    {
      header: 'From',
      width: '35%',
      cell: ({ from_header: from }) => (
        <Text size="sm" lineClamp={2}>
          <bdi>{toVisible(from)}</bdi>
        </Text>
      ),
    },
    { header: 'Time', width: '9rem', cell: ({ created_at: at }) => <Time iso={at} /> },
  ]
  const wordsError = findFieldError(list.query.error, 'q')
  if (wordsError !== undefined) return <Text role="alert">{wordsError}</Text>
  return (
    <ListView
      list={list}
      label="Messages found, newest first"
      columns={columns}
      noun="message"
      empty={<Text>No message has all of these words. Whole words are searched: “work” does not find “works”.</Text>}
    />
  )
}
