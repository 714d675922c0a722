/**
 * @module One thread of an agent mailbox as a conversation: oldest message first, with a reply at its end. A closed
 * message shows one line, an open one its text, checks, labels and attachments.
 */
import { Anchor, Badge, Button, Collapse, Group, Paper, Stack, Text, Textarea } from '@mantine/core'
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, linkOptions } from '@tanstack/react-router'
import { type ReactNode, useId, useState } from 'react'
import type {
  MailboxMessage,
  MailboxMessageSummary,
  ReplyToMailboxMessageResult,
  SetMailboxMessageLabelsRequest,
} from '#client/api.ts'
import { newIdempotencyKey } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { readAgain, useData } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { CopyText } from '../parts/copy.tsx'
import { ConfirmButton, DeleteButton } from '../parts/dialog.tsx'
import { bindText, Form, FormError } from '../parts/form.tsx'
import { formatBytes, toTitle } from '../parts/format.ts'
import { InlineLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { MailFrame } from '../parts/mail-frame.tsx'
import { Facts, QueryView, RecordPage, Section } from '../parts/page.tsx'
import { Notice, StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { Attachments, Checks } from './inbound/marks.tsx'
import { toProof, toVisible } from './inbound/proof.ts'

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
      {page > 1 && <TextLink to="." search={{ page: page - 1 }} name="Newer" />}
      {page < totalPages && <TextLink to="." search={{ page: page + 1 }} name="Older" />}
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
          label="Send the reply"
        />
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
    <InlineLink to="/emails/$id" params={{ id: sent.id }} name="What happened to it" />
  </Notice>
)

interface ThreadMessageProps {
  readonly message: MailboxMessageSummary
  readonly isOpenFirst: boolean
}

const MAX_SNIPPET_LENGTH = 160

function ThreadMessage({ message, isOpenFirst }: ThreadMessageProps) {
  const [isOpen, setIsOpen] = useState(isOpenFirst)
  const bodyId = useId()
  const isSent = message.direction === 'sent'
  const snippet = (message.text_body_stripped ?? message.text_body ?? '').trim().slice(0, MAX_SNIPPET_LENGTH)
  return (
    <Paper component="li" withBorder p="sm" ml={isSent ? { base: 0, sm: 'xl' } : 0}>
      <Stack gap="xs">
        <Group justify="space-between" gap="xs" align="flex-start">
          <Anchor
            component="button"
            type="button"
            size="sm"
            ta="start"
            aria-expanded={isOpen}
            aria-controls={bodyId}
            onClick={() => setIsOpen(!isOpen)}
            style={{ minWidth: 0, flex: '1 1 12rem' }}
          >
            <bdi>{toVisible(message.from_header)}</bdi>
          </Anchor>
          <Group gap="sm">
            <MessageState message={message} />
            <Text size="sm">
              <Time iso={message.created_at} />
            </Text>
          </Group>
        </Group>
        {message.labels.length > 0 && (
          <Group gap={4}>
            {message.labels.map((label) => (
              <Badge key={label} variant="default" size="sm" tt="none" fw={500} maw="100%">
                {label}
              </Badge>
            ))}
          </Group>
        )}
        {!isOpen && (
          <Text size="sm" c="dimmed" lineClamp={1}>
            <bdi>{snippet || '(no text)'}</bdi>
          </Text>
        )}
        <Collapse expanded={isOpen} id={bodyId}>
          {isOpen && <OpenMessage message={message} />}
        </Collapse>
      </Stack>
    </Paper>
  )
}

function MessageState({
  message: { direction, read_at: readAt, email_id: email, parse_error: error },
}: {
  readonly message: MailboxMessageSummary
}) {
  if (direction === 'sent')
    return email === null ? (
      <StatusLabel tone="active">Sent from here</StatusLabel>
    ) : (
      <TextLink to="/emails/$id" params={{ id: email }} name="Sent from here" />
    )
  if (error !== undefined) return <StatusLabel tone="bad">Unreadable</StatusLabel>
  return readAt === null ? (
    <StatusLabel tone="waiting" title="No program has acknowledged it.">
      Unread
    </StatusLabel>
  ) : (
    <StatusLabel tone="good" title={`A program acknowledged it: ${readAt.slice(0, 19)} UTC`}>
      Read
    </StatusLabel>
  )
}

/** Reads the whole message: threads have the beginning of its bodies, and no checks. */
function OpenMessage({ message }: { readonly message: MailboxMessageSummary }) {
  const query = useData(read.mailboxes.getMessage(message.mailbox_id, message.id))
  return (
    <QueryView query={query}>
      {(whole) => (
        <Stack gap="sm">
          {whole.direction === 'received' && <Sender message={whole} />}
          <Body message={whole} actions={<Actions message={message} />} />
          {whole.attachments.length > 0 && (
            <Attachments
              attachments={whole.attachments}
              toUrl={(index) => read.mailboxes.getMessageAttachment(message.mailbox_id, message.id, String(index)).url}
            />
          )}
          <Details message={whole} rawUrl={read.mailboxes.getRawMessage(message.mailbox_id, message.id).url} />
        </Stack>
      )}
    </QueryView>
  )
}

interface WholeProps {
  readonly message: MailboxMessage
}

const findAddress = (header: string): string | null =>
  /<([^<>]*)>[^<>]*$/.exec(header)?.[1]?.trim() || (header.includes('@') ? header.trim() : null)

const toChecked = ({ authentication, from_header: from }: MailboxMessage) => ({
  authentication,
  from: findAddress(from),
})

function Sender({ message }: WholeProps) {
  const { tone, sentence } = toProof(toChecked(message))
  return (
    <Text size="sm" data-sentence="">
      <StatusLabel tone={tone}>{sentence}</StatusLabel>
    </Text>
  )
}

function Body({ message, actions }: WholeProps & { readonly actions: ReactNode }) {
  const { text_body: text, text_body_stripped: stripped, html_body: html } = message
  const [isHtml, setIsHtml] = useState(!text && Boolean(html))
  const [hasQuotes, setHasQuotes] = useState(false)
  const shown = hasQuotes ? text : (stripped ?? text)
  const problem =
    message.content === 'missing'
      ? 'The content is missing from the storage of Tassis; ask its operator to restore it.'
      : message.parse_error !== undefined
        ? `It could not be parsed: ${message.parse_error}`
        : !text && !html && 'This message has no text.'
  return (
    <Stack gap="xs">
      {problem ? (
        <bdi>{problem}</bdi>
      ) : isHtml && html ? (
        <MailFrame html={html} src={`/app/inbound/mailboxes/${message.mailbox_id}/messages/${message.id}/html`} />
      ) : (
        <LongText key={String(hasQuotes)} label="Text of the message" text={shown ?? ''} />
      )}
      <Group gap="xs">
        {!problem && !isHtml && stripped !== undefined && (
          <Button size="xs" variant="default" onClick={() => setHasQuotes(!hasQuotes)}>
            {hasQuotes ? 'Hide quoted text' : 'Show quoted text'}
          </Button>
        )}
        {!problem && text && html && (
          <Button size="xs" variant="default" onClick={() => setIsHtml(!isHtml)}>
            {isHtml ? 'Show the text' : 'Show the HTML'}
          </Button>
        )}
        {actions}
      </Group>
    </Stack>
  )
}

function Details({ message, rawUrl }: WholeProps & { readonly rawUrl: string }) {
  const isReceived = message.direction === 'received'
  return (
    <details>
      <summary>Details</summary>
      <Facts
        facts={[
          ['Subject', message.subject],
          ['To', message.to_header && toVisible(message.to_header)],
          ['Cc', message.cc_header && toVisible(message.cc_header)],
          ['Reply-To', message.reply_to && toVisible(message.reply_to)],
          ['Envelope sender', toVisible(message.mail_from)],
          ['Sent by server', message.source_ip],
          ['Classified as', message.classification && toVisible(message.classification.label)],
          ['Size', formatBytes(message.size_bytes)],
          ['Message-ID', message.message_id && toVisible(message.message_id)],
          ['Id', <CopyText key="id" value={message.id} what="id" />],
        ]}
      />
      {isReceived && <Checks message={toChecked(message)} />}
      {isReceived && (
        <Anchor href={rawUrl} download size="sm">
          Download the message as it came in
        </Anchor>
      )}
    </details>
  )
}

function Actions({ message }: { readonly message: MailboxMessageSummary }) {
  return (
    <>
      <ConfirmButton
        label="Labels"
        size="xs"
        needs="developer"
        title="Labels of this message"
        confirm="Save"
        isDangerous={false}
        fields={[
          { name: 'labels', label: 'Labels', kind: 'words', hint: 'Separated by spaces; letters, digits, _ and -.' },
        ]}
        initial={message}
        refreshes={['mailboxes']}
        run={({ labels = [] }: Partial<SetMailboxMessageLabelsRequest>) =>
          api.mailboxes.setMessageLabels(message.mailbox_id, message.id, { labels })
        }
      />
      <DeleteButton
        size="xs"
        noun="message"
        remove={() => api.mailboxes.deleteMessage(message.mailbox_id, message.id)}
        refreshes={['mailboxes']}
      >
        {message.direction === 'sent'
          ? 'It disappears from the thread; the email that was sent stays.'
          : 'It is deleted with its attachments. A program that has not taken it yet never gets it.'}
      </DeleteButton>
    </>
  )
}
