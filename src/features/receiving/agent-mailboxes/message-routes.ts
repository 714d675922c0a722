/** @module Messages of an agent mailbox: list, search, read, label, delete, their raw form and attachments. Paths, shapes and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { orContentMissing } from '#features/core/app/stored-content.ts'
import { attachmentAt, attachmentWire } from '#features/receiving/received/parts.ts'
import { type RawMessage, rawDownload } from '#features/receiving/received/raw.ts'
import { notFound } from '#platform/errors.ts'
import { fileAnswer, streamedDownload } from '#platform/http/download.ts'
import { list, one, timeKey } from '#platform/http/envelope.ts'
import { ListOf, One } from '#platform/http/schemas.ts'
import { SliceQuery, sliceOf } from '#platform/http/slices.ts'
import { formatUuid } from '#platform/ids.ts'
import { getMailbox } from './mailboxes.ts'
import { deleteMessage, getMessage, listMessages, type MailboxMessage, searchMessages, setLabels } from './messages.ts'
import {
  AttachmentRecord,
  LabelChange,
  ListedMessage,
  listedMessagesWire,
  MessageQuery,
  MessageRecord,
  messageWire,
  SearchQuery,
} from './model.ts'
import { ofMailbox, ofMessage, tags } from './params.ts'

const ofAttachment = Type.Object({
  id: Type.String({ description: 'Id of the mailbox.' }),
  mid: Type.String({ description: 'Id of the message.' }),
  n: Type.String({ description: 'Number of the attachment, from 0.' }),
})

export const messageRoutes = (app: App) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/messages',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const slice = sliceOf(query)
        const { messages, total } = listMessages(app.db, mailbox, query.status ?? 'all', slice)
        return list(
          await listedMessagesWire(app, messages, mailbox),
          { ...slice, total },
          timeKey(messages, ({ createdAt }) => createdAt),
        )
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
          // The answer has the bodies.
          ...requires('mailboxes:write', 'mailboxes:read'),
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
        return streamedDownload(app, request, () => orContentMissing(() => app.content.slices(ref)), {
          contentType,
          filename,
        })
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
