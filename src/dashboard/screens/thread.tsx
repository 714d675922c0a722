/** @module One thread of an agent mailbox as a conversation: oldest message first, with a reply at its end. */
import { Group, Stack, Textarea } from '@mantine/core'
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, linkOptions } from '@tanstack/react-router'
import { useState } from 'react'
import type { MailboxMessageSummary, ReplyToMailboxMessageResult } from '#client/api.ts'
import { newIdempotencyKey } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { readAgain } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { bindText, Form, FormError } from '../parts/form.tsx'
import { toTitle } from '../parts/format.ts'
import { InlineLink, TextLink } from '../parts/links.tsx'
import { RecordPage, Section } from '../parts/page.tsx'
import { Notice } from '../parts/status.tsx'
import { ThreadMessage } from './inbound/thread-message.tsx'
import { toVisible } from './inbound/visible.ts'

const route = getRouteApi('/inbound/mailboxes/$id/threads/$thread')

/** Messages on a page. The pages begin with the first message, so that a new one moves none to another page. */
const THREAD_PAGE_SIZE = 50

interface ShownThread {
  readonly subject: string
  readonly messages: readonly MailboxMessageSummary[]
  readonly totalPages: number
}

/** @param page 1: the newest messages */
async function readThread(mailbox: string, id: string, page: number, signal: AbortSignal): Promise<ShownThread> {
  const head = await api.mailboxes.getThread(mailbox, id, { per_page: 1 }, { signal })
  const totalPages = Math.max(1, Math.ceil(head.pagination.total / THREAD_PAGE_SIZE))
  const query = { page: Math.max(1, totalPages - page + 1), per_page: THREAD_PAGE_SIZE }
  const { data, thread } = await api.mailboxes.getThread(mailbox, id, query, { signal })
  return { subject: thread.subject, messages: data, totalPages }
}

export default function ThreadScreen() {
  const { id, thread: threadId } = route.useParams()
  const { page = 1 } = route.useSearch()
  const mailboxScreen = linkOptions({ to: '/inbound/mailboxes/$id', params: { id } })
  const query = useQuery({
    queryKey: read.mailboxes.getThread(id, threadId, { page }).queryKey,
    queryFn: ({ signal }) => readThread(id, threadId, page, signal),
    placeholderData: keepPreviousData,
  })
  useReadAgainAfter(query, ({ event_type: type }) => type === 'mailbox.message.received')
  return (
    <RecordPage
      title={query.data ? toTitle(query.data.subject) : 'Thread'}
      list={mailboxScreen}
      listName="All threads of the mailbox"
      query={query}
    >
      {(thread) => (
        <Stack gap="lg">
          <Pages page={page} totalPages={thread.totalPages} />
          <Stack component="ol" gap="sm" m={0} p={0} style={{ listStyle: 'none' }} aria-label="Messages, oldest first">
            {thread.messages.map((message, index) => (
              <ThreadMessage key={message.id} message={message} isOpenFirst={index === thread.messages.length - 1} />
            ))}
          </Stack>
          {page === 1 && <ReplyForm key={threadId} messages={thread.messages} />}
        </Stack>
      )}
    </RecordPage>
  )
}

/** By number: the first page has the newest messages. */
const Pages = ({ page, totalPages }: { readonly page: number; readonly totalPages: number }) =>
  totalPages > 1 && (
    <Group component="nav" aria-label="Pages">
      {page > 1 && (
        <TextLink to="." search={{ page: page - 1 }}>
          Newer
        </TextLink>
      )}
      {page < totalPages && (
        <TextLink to="." search={{ page: page + 1 }}>
          Older
        </TextLink>
      )}
    </Group>
  )

/** Replies to the newest received message. */
function ReplyForm({ messages }: { readonly messages: readonly MailboxMessageSummary[] }) {
  const [text, setText] = useState('')
  // One key for all tries of this text: without a response it is unknown whether the reply was accepted.
  const [key, setKey] = useState(newIdempotencyKey)
  const queries = useQueryClient()
  const reason = useAllowed('developer')
  const newest = messages.findLast(({ direction }) => direction === 'received')
  const reply = useMutation({
    mutationFn: ({ mailbox_id: mailbox, id }: MailboxMessageSummary) =>
      api.mailboxes.replyToMessage(mailbox, id, { text_body: text }, { idempotencyKey: key }),
    onSuccess: () => {
      setText('')
      setKey(newIdempotencyKey())
      readAgain(queries, 'mailboxes')
    },
  })
  if (!newest) return null
  const submit = () => {
    if (reason === undefined && text.trim() !== '' && !reply.isPending) reply.mutate(newest)
  }
  return (
    <Section title="Reply">
      <Form onSubmit={submit} gap="sm" maw={720} align="flex-start">
        <Textarea
          w="100%"
          labelProps={{ style: { overflowWrap: 'anywhere' } }}
          label={
            <>
              To <bdi>{toVisible(newest.reply_to ?? newest.from_header)}</bdi>
            </>
          }
          {...bindText(text, (typed) => {
            setText(typed)
            // Another text is another reply.
            if (reply.isError) setKey(newIdempotencyKey())
          })}
          autosize
          minRows={4}
          maxRows={20}
          dir="auto"
        />
        <FormError error={reply.error} />
        <ActionButton
          reason={reason ?? (text.trim() === '' ? 'Write something first.' : undefined)}
          loading={reply.isPending}
          onClick={submit}
        >
          Send the reply
        </ActionButton>
        <div role="status">{reply.data && text === '' && <Outcome sent={reply.data.data} />}</div>
      </Form>
    </Section>
  )
}

const Outcome = ({ sent }: { readonly sent: ReplyToMailboxMessageResult }) => (
  <Notice
    tone={sent.status === 'rejected' ? 'warning' : 'good'}
    title={sent.status === 'rejected' ? 'Not sent: the recipient is suppressed.' : 'Accepted.'}
  >
    To <bdi>{toVisible(sent.to)}</bdi>.{' '}
    <InlineLink to="/emails/$id" params={{ id: sent.id }}>
      What happened to it
    </InlineLink>
  </Notice>
)
