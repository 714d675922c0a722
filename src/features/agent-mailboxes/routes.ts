/** @module /v1/agent-mailboxes: paths, shapes and one call each. Replies and the auto-responder have a file of their own. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/app.ts'
import { authenticated, requires } from '#features/http.ts'
import { attachmentAt, attachmentWire } from '#features/received-parts.ts'
import { type RawMessage, rawDownload } from '#features/received-raw.ts'
import { notFound } from '#platform/errors.ts'
import { changesByGet } from '#platform/http/access.ts'
import { fileAnswer, streamedDownload } from '#platform/http/download.ts'
import { isoTime, list, one } from '#platform/http/envelope.ts'
import { wrongMethod } from '#platform/http/error-response.ts'
import { refuses } from '#platform/http/refusals.ts'
import { requestContext } from '#platform/http/request-context.ts'
import { ListOf, One, queryInteger } from '#platform/http/schemas.ts'
import { SliceQuery, sliceOf } from '#platform/http/slices.ts'
import { formatUuid } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import { listContacts } from './contacts.ts'
import { ackMessage, nackMessage, tokenText } from './leases.ts'
import { createMailbox, deleteMailbox, getMailbox, listMailboxes } from './mailboxes.ts'
import {
  analyticsOf,
  deleteMessage,
  getMessage,
  listMessages,
  type MailboxMessage,
  messageById,
  messagesOfThread,
  searchMessages,
  setLabels,
} from './messages.ts'
import {
  AnalyticsRecord,
  AttachmentRecord,
  analyticsWire,
  ContactRecord,
  contactWire,
  DEFAULT_TIMEOUT_SECONDS,
  LabelChange,
  LeaseEnd,
  ListedMessage,
  LONGEST_TIMEOUT_SECONDS,
  listedMessagesWire,
  MailboxRecord,
  MessageQuery,
  MessageRecord,
  mailboxWire,
  messageWire,
  NewMailbox,
  NextMessage,
  NextQuery,
  SearchQuery,
  ThreadDetail,
  ThreadRecord,
  threadMessagesWire,
  threadWire,
} from './model.ts'
import { getThread, listThreads } from './threads.ts'
import { nothingCame, type WaitingRooms } from './waiting.ts'

const tags = ['Agent mailboxes']
const LEASE_LOST = ['lease_lost', 'The lease is over, so another consumer may have the message.'] as const
/** What the connection of whoever waits has beyond the wait. */
const ANSWER_GRACE_SECONDS = 15
const ofMailbox = Type.Object({ id: Type.String({ description: 'Id of the mailbox.' }) })
const ofMessage = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  mid: Type.String({ description: 'Id of the message.' }),
})
const ofThread = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  tid: Type.String({ description: 'Id of the thread.' }),
})
const ofAttachment = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  mid: Type.String({ description: 'Id of the message.' }),
  n: Type.String({ description: 'Number of the attachment, from 0.' }),
})

export const agentMailboxRoutes = (app: App, rooms: WaitingRooms) =>
  new Elysia({ prefix: '/v1/agent-mailboxes' })
    .use(mailboxRoutes(app))
    .use(consumerRoutes(app, rooms))
    .use(messageRoutes(app))
    .use(insightRoutes(app))

const mailboxRoutes = (app: App) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const slice = sliceOf(query)
        const { mailboxes, total } = listMailboxes(app.db, actor.accountId, slice)
        return list(mailboxes.map(mailboxWire), { ...slice, total })
      },
      {
        query: SliceQuery,
        response: ListOf(MailboxRecord),
        detail: { summary: 'List agent mailboxes', description: 'Newest first.', tags, ...requires('mailboxes:read') },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => status(201, one(mailboxWire(await createMailbox(app, actor, body)))),
      {
        body: NewMailbox,
        response: { 201: One(MailboxRecord) },
        detail: {
          summary: 'Create an agent mailbox',
          description:
            'An address of a verified domain that receives mail. When the domain is deleted the mailbox receives nothing more, but stays readable; registering the domain again does not connect them.',
          tags,
          ...refuses({ 409: ['mailbox_exists', 'The address has a mailbox, or the account has too many.'] }),
          ...requires('mailboxes:write'),
        },
      },
    )
    .get('/:id', ({ actor, params }) => one(mailboxWire(getMailbox(app.db, actor.accountId, params.id))), {
      params: ofMailbox,
      response: One(MailboxRecord),
      detail: { summary: 'Get an agent mailbox', tags, ...requires('mailboxes:read') },
    })
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await deleteMailbox(app, actor, params.id)
        set.status = 204
      },
      {
        params: ofMailbox,
        detail: {
          summary: 'Delete an agent mailbox',
          description:
            'With everything in it, at once. Mail to its address is from then on treated like that to any other address of the domain.',
          tags,
          ...requires('mailboxes:write'),
        },
      },
    )

const messageRoutes = (app: App) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/messages',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { messages, total } = listMessages(app.db, mailbox, query.status ?? 'all', slice)
        return list(await listedMessagesWire(app, messages, mailbox), { ...slice, total })
      },
      {
        params: ofMailbox,
        query: MessageQuery,
        response: ListOf(ListedMessage),
        detail: {
          summary: 'List the messages of a mailbox',
          description: 'Received ones, newest first; of long bodies the first 32 KiB. Nothing is leased or read by it.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/messages/search',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { messages, total } = searchMessages(app.db, mailbox, query.q ?? '', slice)
        return list(await listedMessagesWire(app, messages, mailbox), { ...slice, total })
      },
      {
        params: ofMailbox,
        query: SearchQuery,
        response: ListOf(ListedMessage),
        detail: {
          summary: 'Search the messages of a mailbox',
          description:
            'Received and sent ones, newest first; of long bodies the first 32 KiB. Of a long text the first 65,536 characters are searched; of a message without a text, that of its HTML.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/messages/:mid',
      ({ actor, params }) => {
        const { mailbox, message } = found(app, actor, params)
        return one(messageWire(app, message, mailbox))
      },
      {
        params: ofMessage,
        response: One(MessageRecord),
        detail: {
          summary: 'Get a message',
          description: 'With its bodies. It does not count as read by it.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/messages/:mid/raw',
      ({ actor, params, request }) => {
        const { message } = found(app, actor, params)
        return rawDownload(app, request, rawOf(message), formatUuid(message.uuid))
      },
      {
        params: ofMessage,
        detail: {
          summary: 'Get the raw message',
          description:
            'As it came in, below the trace fields of this host; kept for TASSIS_INBOUND_RAW_DAYS. What was sent from the mailbox has none.',
          tags,
          ...fileAnswer('The message.', 'message/rfc822'),
          ...requires('mailboxes:read'),
        },
      },
    )
    .delete(
      '/:id/messages/:mid',
      async ({ actor, params, set }) => {
        await deleteMessage(app, actor, params.id, params.mid)
        set.status = 204
      },
      { params: ofMessage, detail: { summary: 'Delete a message', tags, ...requires('mailboxes:write') } },
    )
    .put(
      '/:id/messages/:mid/labels',
      async ({ actor, params, body }) => {
        const message = await setLabels(app, actor, params.id, params.mid, body.labels)
        return one(messageWire(app, message, getMailbox(app.db, actor.accountId, params.id)))
      },
      {
        params: ofMessage,
        body: LabelChange,
        response: One(MessageRecord),
        detail: {
          summary: 'Label a message',
          description: 'The labels take the place of those it has; an empty list takes all away.',
          tags,
          ...requires('mailboxes:write'),
        },
      },
    )
    .get(
      '/:id/messages/:mid/attachments',
      ({ actor, params, query }) => {
        const { message } = found(app, actor, params)
        const slice = sliceOf(query)
        const { attachments } = message
        return list(attachments.slice(slice.offset, slice.offset + slice.limit).map(attachmentWire), {
          ...slice,
          total: attachments.length,
        })
      },
      {
        params: ofMessage,
        query: SliceQuery,
        response: ListOf(AttachmentRecord),
        detail: {
          summary: 'List the attachments of a message',
          description: 'In their order: the first has number 0.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/messages/:mid/attachments/:n',
      ({ actor, params, request }) => {
        const { attachments } = found(app, actor, params).message
        const { ref, content_type: contentType, filename } = attachmentAt(attachments, params.n)
        return streamedDownload(app, request, () => app.content.slices(ref), { contentType, filename })
      },
      {
        params: ofAttachment,
        detail: {
          summary: 'Download an attachment',
          description:
            'Its bytes as they were sent, always as a file to be saved. Types that a browser could run, HTML among them, come as application/octet-stream.',
          tags,
          ...fileAnswer('The content, decoded.'),
          ...requires('mailboxes:read'),
        },
      },
    )

const consumerRoutes = (app: App, rooms: WaitingRooms) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/messages/next',
      async ({ actor, params, query, request }) => {
        // It would take a message and show it to nobody.
        if (request.method === 'HEAD') throw wrongMethod('HEAD', ['GET'])
        const timeoutSeconds = queryInteger('timeout', query.timeout, {
          fallback: DEFAULT_TIMEOUT_SECONDS,
          minimum: 0,
          maximum: LONGEST_TIMEOUT_SECONDS,
        })
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        // Not without a limit: it stays on the connection, which would then be kept for good after the answer.
        requestContext(request)?.setTimeout(timeoutSeconds + ANSWER_GRACE_SECONDS)
        const lease = await rooms.next(actor, mailbox, waitMsOf(timeoutSeconds), request.signal)
        const message = messageById(app.db, lease.messageId)
        // Deleted in the moment after it was leased.
        if (!message) throw nothingCame()
        return {
          data: messageWire(app, message, mailbox),
          lease_token: tokenText(lease.token),
          lease_expires_at: isoTime(lease.expiresAt),
        }
      },
      {
        params: ofMailbox,
        query: NextQuery,
        response: NextMessage,
        detail: {
          summary: 'Get the next message',
          description:
            'The oldest message that no consumer holds, leased to you for 5 minutes: no other consumer gets it until you nack it or the lease ends. Waits for one to come; 408 when none does. Acknowledge it when you are done, or it is given again. It changes who holds the message, hence the scope.',
          tags,
          ...refuses({ 408: ['no_message', 'No message came in this time; ask again.'] }),
          ...requires('mailboxes:write'),
          ...changesByGet,
        },
      },
    )
    .post(
      '/:id/messages/:mid/ack',
      async ({ actor, params, body, set }) => {
        await ackMessage(app, actor, params.id, params.mid, body.lease_token)
        set.status = 204
      },
      {
        params: ofMessage,
        body: LeaseEnd,
        detail: {
          summary: 'Acknowledge a message',
          description:
            'It counts as read and is given to no consumer any more. 409 when the lease is over. Repeating the ack that did it is fine.',
          tags,
          ...refuses({ 409: LEASE_LOST }),
          ...requires('mailboxes:write'),
        },
      },
    )
    .post(
      '/:id/messages/:mid/nack',
      async ({ actor, params, body, set }) => {
        await nackMessage(app, actor, params.id, params.mid, body.lease_token)
        set.status = 204
      },
      {
        params: ofMessage,
        body: LeaseEnd,
        detail: {
          summary: 'Give a message back',
          description: 'The next consumer that asks gets it, at once. 409 when the lease is over.',
          tags,
          ...refuses({ 409: LEASE_LOST }),
          ...requires('mailboxes:write'),
        },
      },
    )

const insightRoutes = (app: App) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/threads',
      ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { threads, total } = listThreads(app.db, mailbox, slice)
        return list(
          threads.map((thread) => threadWire(thread, mailbox)),
          { ...slice, total },
        )
      },
      {
        params: ofMailbox,
        query: SliceQuery,
        response: ListOf(ThreadRecord),
        detail: {
          summary: 'List the threads of a mailbox',
          description: 'The one with the newest message first. Messages are joined by In-Reply-To and References.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/threads/:tid',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const thread = getThread(app.db, mailbox, params.tid)
        const messages = messagesOfThread(app.db, thread, sliceOf(query))
        return one({
          ...threadWire(thread, mailbox),
          messages: await threadMessagesWire(app, messages, mailbox),
        })
      },
      {
        params: ofThread,
        query: SliceQuery,
        response: One(ThreadDetail),
        detail: {
          summary: 'Get a thread',
          description: 'With its messages, oldest first: what came in and what was answered.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/contacts',
      ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { contacts, total } = listContacts(app.db, mailbox, slice)
        return list(contacts.map(contactWire), { ...slice, total })
      },
      {
        params: ofMailbox,
        query: SliceQuery,
        response: ListOf(ContactRecord),
        detail: {
          summary: 'List who has written to a mailbox',
          description: 'Who wrote last first.',
          tags,
          ...requires('mailboxes:read'),
        },
      },
    )
    .get(
      '/:id/analytics',
      ({ actor, params }) =>
        one(analyticsWire(analyticsOf(app, app.db, getMailbox(app.db, actor.accountId, params.id)))),
      {
        params: ofMailbox,
        response: One(AnalyticsRecord),
        detail: { summary: 'Count what a mailbox has received', tags, ...requires('mailboxes:read') },
      },
    )

/** A received message as the session brought it. Throws 404 for one that was sent. */
function rawOf({ rawRef, receivedAt, sourceIp, helo, ...message }: MailboxMessage): RawMessage {
  if (rawRef === null || receivedAt === null)
    throw notFound('no_raw_message', 'The message was sent from the mailbox; only one that came in has a raw form.')
  return { ...message, rawRef, receivedAt, sourceIp: sourceIp ?? '', helo: helo ?? '' }
}

const found = (app: App, actor: Actor, params: { readonly id: string; readonly mid: string }) => {
  const mailbox = getMailbox(app.db, actor.accountId, params.id)
  return { mailbox, message: getMessage(app.db, mailbox, params.mid) }
}

/** The answer has to be there before the client gives up. */
const waitMsOf = (timeoutSeconds: number): number => seconds(Math.max(timeoutSeconds - 2, timeoutSeconds / 2))
