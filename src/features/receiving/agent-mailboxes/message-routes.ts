/**
 * @module The routes for messages of agent mailboxes: list, search, read, label, delete, raw form, attachments, also
 * behind links that need no key: the link itself is the permission; replies and the auto-responder. Paths, schemas, one
 * call each.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { downloadStored } from '#features/core/app/stored-content.ts'
import * as parts from '#features/receiving/received/parts.ts'
import { REPLAY_FIELDS, takesIdempotencyKey } from '#features/sending/accept/model.ts'
import { createSendRateLimiter } from '#features/sending/accept/sendable.ts'
import { notFound } from '#platform/errors.ts'
import { locatedAt, responseHeaders } from '#platform/http/access.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { dataBody, pageBody, timeKey } from '#platform/http/envelope.ts'
import {
  DataBody,
  OptionalNullable,
  PageBody,
  parseRowRange,
  RowRangeQuery,
  StrictObject,
  Text,
  Uuid,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import {
  AutoResponderChange,
  AutoResponderRecord,
  changeAutoResponder,
  parseAutoResponder,
  toAutoResponderWire,
} from './auto-settings.ts'
import { getMailbox, type Mailbox } from './mailboxes.ts'
import {
  deleteMessage,
  findMessageOfAccount,
  getMailboxMessage,
  listMessages,
  type MailboxMessage,
  searchMessages,
  setLabels,
} from './messages.ts'
import * as model from './model.ts'
import { replyToMessage } from './reply.ts'

/** OpenAPI tag of /v1/agent-mailboxes. */
export const tags = ['Agent mailboxes']
const reads = describeWith('mailboxes:read')
const writes = describeWith('mailboxes:write')

export const MailboxParams = Type.Object({ id: Text('Id of the mailbox.') })

export const MessageParams = Type.Object({
  id: Text('Id of the mailbox.'),
  mid: Text('Id of the message.'),
})

const AttachmentParams = Type.Object({
  ...MessageParams.properties,
  n: Text('Number of the attachment, from 0.'),
})

export const messageRoutes = (app: App) =>
  new Elysia({ tags })
    .use(authenticated)
    .get(
      '/:id/messages',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const range = parseRowRange(query)
        const { messages, total } = listMessages(app.db, mailbox, query.status ?? 'all', range)
        return pageBody(
          await model.toListedMessagesWire(app, messages, mailbox),
          { ...range, total },
          timeKey(messages, ({ createdAt }) => createdAt),
        )
      },
      {
        params: MailboxParams,
        query: model.MessageQuery,
        response: PageBody(model.ListedMessage),
        detail: reads(
          'List the messages of a mailbox',
          'Received messages, newest first; bodies end after 32 KiB. Does not lease messages or mark them as read.',
        ),
      },
    )
    .get(
      '/:id/messages/search',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const range = parseRowRange(query)
        const { messages, total } = searchMessages(app.db, mailbox, query.q ?? '', range)
        return pageBody(await model.toListedMessagesWire(app, messages, mailbox), { ...range, total })
      },
      {
        params: MailboxParams,
        query: model.SearchQuery,
        response: PageBody(model.ListedMessage),
        detail: reads(
          'Search the messages of a mailbox',
          'Received and sent messages, newest first; bodies end after 32 KiB. Searches the first 65,536 characters of the text, or of the text in the HTML of a message without text.',
        ),
      },
    )
    .get(
      '/:id/messages/:mid',
      ({ actor, params }) => {
        const { mailbox, message } = getRequested(app, actor, params)
        return dataBody(model.toMessageWire(app, message, mailbox))
      },
      {
        params: MessageParams,
        response: DataBody(model.MessageRecord),
        detail: reads('Get a message', 'With its bodies. Does not mark it as read.'),
      },
    )
    .get(
      '/:id/messages/:mid/raw',
      ({ actor, params, request }) => {
        const { message } = getRequested(app, actor, params)
        return parts.createRawDownload(app, request, toRawMessage(message), formatUuid(message.uuid))
      },
      {
        params: MessageParams,
        detail: reads(
          'Get the raw message',
          'As received, below the trace fields of this host; kept for TASSIS_INBOUND_RAW_DAYS. Sent messages have no raw form.',
          fileResponseSpec('The message.', 'message/rfc822'),
        ),
      },
    )
    .delete('/:id/messages/:mid', ({ actor, params }) => deleteMessage(app, actor, params.id, params.mid), {
      params: MessageParams,
      detail: writes('Delete a message'),
    })
    .put(
      '/:id/messages/:mid/labels',
      async ({ actor, params, body }) => {
        const message = await setLabels(app, actor, params.id, params.mid, body.labels)
        return dataBody(model.toMessageWire(app, message, getMailbox(app.db, actor.accountId, params.id)))
      },
      {
        params: MessageParams,
        body: model.LabelChange,
        response: DataBody(model.MessageRecord),
        detail: describeWith('mailboxes:write', 'mailboxes:read')(
          'Label a message',
          'Replaces all labels; an empty list removes them.',
        ),
      },
    )
    .get(
      '/:id/messages/:mid/attachments',
      ({ actor, params, query }) => {
        const { mailbox, message } = getRequested(app, actor, params)
        const range = parseRowRange(query)
        return pageBody(toLinkedAttachments(app, mailbox, message, range), {
          ...range,
          total: message.attachments.length,
        })
      },
      {
        params: MessageParams,
        query: RowRangeQuery,
        response: PageBody(model.LinkedAttachment),
        detail: reads(
          'List the attachments of a message',
          'In order; numbers start at 0. Each has a link to its content.',
        ),
      },
    )
    .get(
      '/:id/messages/:mid/attachments/:n',
      ({ actor, params, request }) => {
        const { attachments } = getRequested(app, actor, params).message
        return downloadStored(app, request, parts.getAttachment(attachments, params.n))
      },
      {
        params: AttachmentParams,
        detail: reads(
          'Download an attachment',
          'The original bytes, always as a download. Types that a browser could run, such as HTML, are sent as application/octet-stream.',
          fileResponseSpec('The decoded content.'),
        ),
      },
    )

/** A received message with the facts of its session. Throws 404 for a sent one. */
function toRawMessage({ rawRef, receivedAt, sourceIp, helo, ...message }: MailboxMessage): parts.RawMessage {
  if (rawRef === null || receivedAt === null)
    throw notFound('no_raw_message', 'The message was sent from the mailbox; only received messages have a raw form.')
  return { ...message, rawRef, receivedAt, sourceIp: sourceIp ?? '', helo: helo ?? '' }
}

const getRequested = (app: App, actor: Actor, { id, mid }: Static<typeof MessageParams>) =>
  getMailboxMessage(app.db, actor.accountId, id, mid)

const FILES_PATH = '/mailbox-files'

export const mailboxFileRoutes = (app: App) =>
  new Elysia({ tags }).get(
    FILES_PATH,
    ({ query, request }) => {
      const { kind, accountId, uuid, index } = parts.openFileLink(app, query['token'] ?? '')
      const message = kind === 'mailbox' ? findMessageOfAccount(app.db, accountId, uuid) : undefined
      if (!message) throw parts.createExpiredError()
      return downloadStored(app, request, parts.getAttachment(message.attachments, String(index)))
    },
    { detail: { hide: true } },
  )

/** Attachments of a message with their links, from position `offset`. */
export const toLinkedAttachments = (
  app: App,
  mailbox: Pick<Mailbox, 'accountId'>,
  { uuid, attachments }: Pick<MailboxMessage, 'uuid' | 'attachments'>,
  { offset, limit }: { readonly offset: number; readonly limit: number },
) =>
  attachments.slice(offset, offset + limit).map((attachment, position) => {
    const { accountId } = mailbox
    const link = parts.createFileLink(app, FILES_PATH, { kind: 'mailbox', accountId, uuid, index: offset + position })
    return {
      ...parts.toAttachmentWire(attachment),
      url: link.url,
      expires_in_seconds: Math.floor((link.expiresAt - app.clock.now()) / 1000),
    }
  })

const NewReply = StrictObject(
  {
    text_body: OptionalNullable(Type.String(), { description: 'Text body; derived from the HTML if absent.' }),
    html_body: OptionalNullable(Type.String(), { description: 'HTML body.' }),
  },
  {
    description: 'At least one body.',
    examples: [{ text_body: 'Thank you for your message. Your order left our house today.' }],
  },
)

const ReplyRecord = Type.Object({
  id: Uuid({ description: 'Id of the email: GET /v1/emails/{id} returns its status.' }),
  status: Text('`queued`; for a repeated request, the current status.'),
  message_id: Text('Message-ID header, with angle brackets.'),
  to: Text('Recipients: Reply-To of the message, otherwise From; joined with ", ".'),
  subject: Text('"Re: " and the subject of the message.'),
  ...REPLAY_FIELDS,
})

export const conversationRoutes = (app: App) => {
  /** Counts replies separately from other sends. */
  const takeRate = createSendRateLimiter(app)

  return new Elysia({ prefix: '/v1/agent-mailboxes', tags })
    .use(authenticated)
    .post(
      '/:id/messages/:mid/reply',
      async ({ actor, params, body, headers, set, status }) => {
        const reply = await replyToMessage(app, actor, { mailboxId: params.id, messageId: params.mid }, body, {
          idempotencyHeader: headers['idempotency-key'],
          admit: () => void takeRate(actor),
        })
        if (reply.mismatch) set.headers['idempotency-mismatch'] = 'true'
        return status(201, dataBody(reply))
      },
      {
        params: Type.Object({ id: Type.String(), mid: Type.String() }),
        body: NewReply,
        response: { 201: DataBody(ReplyRecord) },
        detail: describeWith('mailboxes:write', 'emails:send')(
          'Reply to a message',
          'Sends an email from the mailbox in the thread of the message. The limits of sending apply; responds when the email is on disk.',
          {
            ...takesIdempotencyKey({ id: 'Id of the mailbox.', mid: 'Id of a received message.' }),
            ...locatedAt('/v1/emails'),
            ...responseHeaders('Idempotency-Mismatch'),
          },
        ),
      },
    )
    .get(
      '/:id/auto-responder',
      ({ actor, params }) =>
        dataBody(toAutoResponderWire(parseAutoResponder(getMailbox(app.db, actor.accountId, params.id).autoResponder))),
      {
        params: MailboxParams,
        response: DataBody(AutoResponderRecord),
        detail: reads(
          'Get the auto-responder of a mailbox',
          'Initially disabled, without rules; the mailbox then shows null.',
        ),
      },
    )
    .patch(
      '/:id/auto-responder',
      async ({ actor, params, body }) =>
        dataBody(toAutoResponderWire(await changeAutoResponder(app, actor, params.id, body))),
      {
        params: MailboxParams,
        body: AutoResponderChange,
        response: DataBody(AutoResponderRecord),
        detail: describeWith('mailboxes:write', 'emails:send')(
          'Change the auto-responder of a mailbox',
          'Each sender gets at most one reply per day; automatic messages, mailing lists and forged senders get none (RFC 3834). The mailbox shows the same settings as `auto_responder`.',
        ),
      },
    )
}
