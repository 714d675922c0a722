/** @module One agent mailbox: its threads, a search in its messages. */
import { Anchor, Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useEffect, useState } from 'react'
import type { ListedMessage, ListedThread, MailboxRecord } from '#features/receiving/agent-mailboxes/model.ts'
import { get, type PageOf, request } from '../api/client.ts'
import { isMissing, mailboxPath, PAGE_SIZE } from '../api/inbound.ts'
import { readAgain, useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { usePage, useRecord } from '../api/read.ts'
import { useAllowed } from '../api/session.tsx'
import { DeleteButton, findFieldError } from '../parts/form.tsx'
import { formatBytes } from '../parts/format.ts'
import { SEARCH_MARK } from '../parts/keyboard.tsx'
import { SmallLink } from '../parts/links.tsx'
import { ErrorState, Facts, Page, QueryView, Section, useEscape } from '../parts/page.tsx'
import { useLiveRows } from '../parts/rows.ts'
import { type Column, DataTable, NewRows, Pages } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { toVisible } from './inbound/visible.ts'

const route = getRouteApi('/inbound/mailboxes/$id')

export default function MailboxScreen() {
  const { id } = route.useParams()
  const { q, page = 1 } = route.useSearch()
  const navigate = useNavigate()
  const query = useRecord<MailboxRecord>(['mailboxes', 'one', id], mailboxPath(id))
  const refreshSoon = useRefreshSoon(() => readAgain(query))
  useLiveEvents(({ event_type: type }) => {
    if (type === 'mailbox.message.received') refreshSoon()
  })
  useEscape(() => void navigate({ to: '/inbound/mailboxes' }))
  return (
    <Page title={query.data?.address ?? 'Mailbox'}>
      <SmallLink to="/inbound/mailboxes">All mailboxes</SmallLink>
      {isMissing(query.error) ? (
        <Text>This account has no mailbox with this id. It may have been deleted.</Text>
      ) : (
        <QueryView query={query}>
          {(mailbox) => (
            <Stack gap="lg" key={mailbox.id}>
              <MailboxFacts mailbox={mailbox} />
              <Section title="Threads">
                <Search mailboxId={id} words={q} />
                {q === undefined ? (
                  <Threads mailbox={mailbox} page={page} />
                ) : (
                  <Found mailboxId={id} words={q} page={page} />
                )}
              </Section>
            </Stack>
          )}
        </QueryView>
      )}
    </Page>
  )
}

interface MailboxProps {
  readonly mailbox: MailboxRecord
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

function DeleteMailbox({ mailbox }: MailboxProps) {
  const reason = useAllowed('developer')
  const queries = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => request('DELETE', mailboxPath(mailbox.id)),
    onSuccess: async () => {
      await navigate({ to: '/inbound/mailboxes' })
      queries.removeQueries({ queryKey: ['mailboxes', 'one', mailbox.id] })
      await queries.invalidateQueries({ queryKey: ['mailboxes'] })
    },
  })
  return (
    <Group>
      <DeleteButton
        label="Delete the mailbox"
        size="xs"
        reason={reason}
        title="Delete this mailbox?"
        confirm="Delete the mailbox"
        typed={mailbox.address}
        work={remove}
        onConfirm={() => remove.mutate()}
      >
        <Text>
          All {mailbox.message_count.toLocaleString()} messages in it are deleted at once. Later mail to its address is
          treated like mail to any other address of the domain.
        </Text>
      </DeleteButton>
    </Group>
  )
}

function Search({ mailboxId, words }: { readonly mailboxId: string; readonly words: string | undefined }) {
  const [text, setText] = useState(words ?? '')
  const navigate = route.useNavigate()
  useEffect(() => setText(words ?? ''), [words])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    void navigate({ to: '.', params: { id: mailboxId }, search: text.trim() === '' ? {} : { q: text.trim() } })
  }
  return (
    <form onSubmit={submit} noValidate>
      <Group align="flex-end" gap="xs">
        <TextInput
          {...SEARCH_MARK}
          label="Search the messages"
          type="search"
          placeholder="Whole words of subject, sender or text"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          flex="1 1 14rem"
          autoComplete="off"
        />
        <Button type="submit">Search</Button>
        {words !== undefined && (
          <Button variant="default" onClick={() => void navigate({ to: '.', params: { id: mailboxId }, search: {} })}>
            All threads
          </Button>
        )}
      </Group>
    </form>
  )
}

const MAX_TOOLTIP_LENGTH = 1000

const toThreadPath = (mailboxId: string, threadId: string): string =>
  `/inbound/mailboxes/${mailboxId}/threads/${threadId}`

function Threads({ mailbox, page }: MailboxProps & { readonly page: number }) {
  const { id } = mailbox
  const query = useQuery({
    queryKey: ['mailboxes', 'threads', id, page],
    queryFn: async ({ signal }) => {
      const list = await get<PageOf<ListedThread>>(mailboxPath(id, '/threads'), { page, per_page: PAGE_SIZE }, signal)
      // A thread keeps its row when a message comes.
      return { ...list, data: list.data.map((row) => ({ ...row, id: row.thread_id })) }
    },
    placeholderData: keepPreviousData,
  })
  const rows = useLiveRows(query, `${id} ${page}`, ({ last_message_at: at }) => at)
  const refreshSoon = useRefreshSoon(() => readAgain(query))
  useLiveEvents(({ event_type: type }) => {
    if (type === 'mailbox.message.received') refreshSoon()
  })
  if (!rows.page) return <QueryView query={query}>{() => null}</QueryView>
  const columns: readonly Column<ListedThread>[] = [
    {
      header: 'Subject',
      cell: ({ id: threadId, subject }) => (
        <Anchor
          component={Link}
          to={toThreadPath(id, threadId)}
          size="sm"
          lineClamp={2}
          title={subject.slice(0, MAX_TOOLTIP_LENGTH)}
        >
          <bdi>{subject || '(no subject)'}</bdi>
        </Anchor>
      ),
    },
    { header: 'Messages', width: '7rem', cell: ({ message_count: count }) => count.toLocaleString() },
    { header: 'Newest', width: '9rem', cell: ({ last_message_at: at }) => <Time iso={at} /> },
  ]
  const { data, pagination } = rows.page
  return (
    <Stack gap="xs">
      {query.error && <ErrorState error={query.error} onRetry={() => query.refetch()} />}
      <NewRows count={page === 1 ? rows.newCount : 0} hasMore={rows.hasMoreNew} onShow={rows.showNew} />
      {data.length === 0 ? (
        <Text>
          {page > 1
            ? 'There are no threads on this page.'
            : `Messages to ${mailbox.address} will appear here, each with its replies as one thread.`}
        </Text>
      ) : (
        <DataTable label="Threads, newest message first" columns={columns} rows={data} toKey={(row) => row.id} />
      )}
      <Pages path={`/inbound/mailboxes/${id}`} page={page} totalPages={pagination.total_pages} />
    </Stack>
  )
}

interface FoundProps {
  readonly mailboxId: string
  readonly words: string
  readonly page: number
}

function Found({ mailboxId, words, page }: FoundProps) {
  const query = usePage<ListedMessage>(
    ['mailboxes', 'search', mailboxId, words, page],
    mailboxPath(mailboxId, '/messages/search'),
    { q: words, page, per_page: PAGE_SIZE },
  )
  const columns: readonly Column<ListedMessage>[] = [
    {
      header: 'Subject',
      cell: ({ thread_id: threadId, subject }) => (
        <Anchor component={Link} to={toThreadPath(mailboxId, threadId)} size="sm" lineClamp={2}>
          <bdi>{subject || '(no subject)'}</bdi>
        </Anchor>
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
