/** @module One agent mailbox: its threads, a search in its messages. */
import { Group, Stack, Text } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import type { Event, Mailbox, MailboxMessageSummary, MailboxThreadSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData, usePage } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { DeleteButton, findFieldError } from '../parts/form.tsx'
import { formatBytes } from '../parts/format.ts'
import { SmallLink } from '../parts/links.tsx'
import { Facts, QueryView, RecordPage, Section } from '../parts/page.tsx'
import { useLiveRows } from '../parts/rows.ts'
import { type Column, DataTable, LiveView, Pages, SearchForm } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { toVisible } from './inbound/visible.ts'

const route = getRouteApi('/inbound/mailboxes/$id')

const isNewMessage = ({ event_type: type }: Event): boolean => type === 'mailbox.message.received'

export default function MailboxScreen() {
  const { id } = route.useParams()
  const { q, page = 1 } = route.useSearch()
  const navigate = route.useNavigate()
  const query = useData(read.mailboxes.get(id))
  useReadAgainAfter(query, isNewMessage)
  return (
    <RecordPage
      title={query.data?.address ?? 'Mailbox'}
      list="/inbound/mailboxes"
      listName="All mailboxes"
      query={query}
      missing="This account has no mailbox with this id. It may have been deleted."
    >
      {(mailbox) => (
        <Stack gap="lg" key={mailbox.id}>
          <MailboxFacts mailbox={mailbox} />
          <Section title="Threads">
            <SearchForm
              name="Search"
              maw="none"
              label="Search the messages"
              placeholder="Whole words of subject, sender or text"
              value={q}
              onSearch={(words) => void navigate({ search: words === undefined ? {} : { q: words } })}
            />
            {q === undefined ? (
              <Threads mailbox={mailbox} page={page} />
            ) : (
              <Found mailboxId={id} words={q} page={page} />
            )}
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
          ['Created', <Time key="created" iso={mailbox.created_at} isExact />],
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
      leadsTo="/inbound/mailboxes"
    >
      <Text>
        All {mailbox.message_count.toLocaleString()} messages in it are deleted at once. Later mail to its address is
        treated like mail to any other address of the domain.
      </Text>
    </DeleteButton>
  </Group>
)

const MAX_TOOLTIP_LENGTH = 1000

const toThreadPath = (mailboxId: string, threadId: string): string =>
  `/inbound/mailboxes/${mailboxId}/threads/${threadId}`

function Threads({ mailbox, page }: MailboxProps & { readonly page: number }) {
  const { id } = mailbox
  const query = useQuery({
    ...read.mailboxes.listThreads(id, { page }),
    // A thread keeps its row when a message comes.
    select: (list) => ({ ...list, data: list.data.map((row) => ({ ...row, id: row.thread_id })) }),
    placeholderData: keepPreviousData,
  })
  const list = useLiveRows(query, `${id} ${page}`, ({ last_message_at: at }) => at)
  useReadAgainAfter(query, isNewMessage)
  const columns: readonly Column<MailboxThreadSummary>[] = [
    {
      header: 'Subject',
      cell: ({ id: threadId, subject }) => (
        <SmallLink to={toThreadPath(id, threadId)} lineClamp={2} title={subject.slice(0, MAX_TOOLTIP_LENGTH)}>
          <bdi>{subject || '(no subject)'}</bdi>
        </SmallLink>
      ),
    },
    { header: 'Messages', width: '7rem', cell: ({ message_count: count }) => count.toLocaleString() },
    { header: 'Newest', width: '9rem', cell: ({ last_message_at: at }) => <Time iso={at} /> },
  ]
  const welcome = `Messages to ${mailbox.address} will appear here, each with its replies as one thread.`
  return (
    <LiveView query={query} list={list} isNewest={page === 1} empty={page === 1 ? <Text>{welcome}</Text> : undefined}>
      {({ data, pagination }) => (
        <>
          <DataTable label="Threads, newest message first" columns={columns} rows={data} toKey={(row) => row.id} />
          {data.length === 0 && <Text>There are no threads on this page.</Text>}
          <Pages path={`/inbound/mailboxes/${id}`} page={page} totalPages={pagination.total_pages} />
        </>
      )}
    </LiveView>
  )
}

interface FoundProps {
  readonly mailboxId: string
  readonly words: string
  readonly page: number
}

function Found({ mailboxId, words, page }: FoundProps) {
  const query = usePage(read.mailboxes.searchMessages(mailboxId, { q: words, page }))
  const columns: readonly Column<MailboxMessageSummary>[] = [
    {
      header: 'Subject',
      cell: ({ thread_id: threadId, subject }) => (
        <SmallLink to={toThreadPath(mailboxId, threadId)} lineClamp={2}>
          <bdi>{subject || '(no subject)'}</bdi>
        </SmallLink>
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
  const wordsError = findFieldError(query.error, 'q')
  if (wordsError !== undefined) return <Text role="alert">{wordsError}</Text>
  return (
    <QueryView query={query}>
      {({ data, pagination }) => (
        <>
          {data.length === 0 ? (
            <Text>No message has all of these words. Whole words are searched: “work” does not find “works”.</Text>
          ) : (
            <DataTable label="Messages found, newest first" columns={columns} rows={data} toKey={({ id }) => id} />
          )}
          <Pages path={`/inbound/mailboxes/${mailboxId}`} page={page} totalPages={pagination.total_pages} />
        </>
      )}
    </QueryView>
  )
}
