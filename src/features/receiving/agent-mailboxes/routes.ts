/**
 * @module The routes of /v1/agent-mailboxes: those of mailboxes, threads, contacts, analytics, and of programs that
 * consume a mailbox (the next message under a lease, ack, nack), combined with those of `message-routes.ts`. Paths,
 * schemas, one call each.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { changesByGet, errorResponses } from '#platform/http/access.ts'
import { dataBody, isoTime, pageBody, pageById, timeKey } from '#platform/http/envelope.ts'
import { wrongMethod } from '#platform/http/error-response.ts'
import { requestContext } from '#platform/http/request-context.ts'
import {
  DataBody,
  PageBody,
  parseQueryInteger,
  parseRowRange,
  RowRangeQuery,
  requireReachable,
  Text,
} from '#platform/http/schemas.ts'
import { seconds } from '#platform/units.ts'
import { listContacts } from './contacts.ts'
import { ackMessage, formatToken, nackMessage } from './leases.ts'
import { createNoMessageError, type LongPolls } from './long-polls.ts'
import { createMailbox, deleteMailbox, getMailbox, listMailboxes, setMailboxDrafts } from './mailboxes.ts'
import { MailboxParams, MessageParams, messageRoutes, tags } from './message-routes.ts'
import { findMessageById, listThreadMessages, readMailboxAnalytics, readNewestMessages } from './messages.ts'
import * as model from './model.ts'
import { getThread, listThreads } from './threads.ts'

const reads = describeWith('mailboxes:read')
const writes = describeWith('mailboxes:write')

const ThreadParams = Type.Object({
  id: Text('Id of the mailbox.'),
  tid: Text('Id of the thread, or of a message in it.'),
})

export const agentMailboxRoutes = (app: App, longPolls: LongPolls) =>
  new Elysia({ prefix: '/v1/agent-mailboxes', tags })
    .use(mailboxRoutes(app))
    .use(consumerRoutes(app, longPolls))
    .use(messageRoutes(app))
    .use(overviewRoutes(app))

const mailboxRoutes = (app: App) =>
  new Elysia({ tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const range = parseRowRange(query)
        const own = actor.limits?.mailboxId
        const { rows, total } = own
          ? { rows: [getMailbox(app.db, actor.accountId, own)].slice(range.offset), total: 1 }
          : listMailboxes(app.db, actor.accountId, range)
        return pageById(rows, { ...range, total }, model.toMailboxWire)
      },
      {
        query: RowRangeQuery,
        response: PageBody(model.MailboxRecord),
        detail: reads('List agent mailboxes', 'Newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) =>
        status(201, dataBody(model.toMailboxWire(await createMailbox(app, actor, body)))),
      {
        body: model.NewMailbox,
        response: { 201: DataBody(model.MailboxRecord) },
        detail: writes(
          'Create an agent mailbox',
          'An address of a verified domain that receives mail. After the domain is deleted the mailbox receives nothing but stays readable; registering the domain again does not reconnect it.',
          errorResponses({
            409: ['mailbox_exists', 'The address already has a mailbox, or the account has too many.'],
          }),
        ),
      },
    )
    .get('/:id', ({ actor, params }) => dataBody(model.toMailboxWire(getMailbox(app.db, actor.accountId, params.id))), {
      params: MailboxParams,
      response: DataBody(model.MailboxRecord),
      detail: reads('Get an agent mailbox'),
    })
    .patch(
      '/:id',
      async ({ actor, params, body }) =>
        dataBody(model.toMailboxWire(await setMailboxDrafts(app, actor, params.id, body.drafts))),
      {
        params: MailboxParams,
        body: model.MailboxPatch,
        response: DataBody(model.MailboxRecord),
        detail: writes(
          'Change an agent mailbox',
          'Sets whether replies wait for a release. Turning that off also requires the scope `drafts:release`.',
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteMailbox(app, actor, params.id), {
      params: MailboxParams,
      detail: writes(
        'Delete an agent mailbox',
        'Deletes it with its contents, immediately. From then on its address is treated like any other of the domain.',
      ),
    })

const overviewRoutes = (app: App) =>
  new Elysia({ tags })
    .use(authenticated)
    .get(
      '/:id/threads',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const range = parseRowRange(query)
        const { threads, total } = listThreads(app.db, mailbox, range)
        return pageBody(
          await model.toListedThreadsWire(app, readNewestMessages(app.db, threads), mailbox),
          { ...range, total },
          timeKey(threads, ({ lastMessageAt }) => lastMessageAt),
        )
      },
      {
        params: MailboxParams,
        query: RowRangeQuery,
        response: PageBody(model.ListedThread),
        detail: reads(
          'List the threads of a mailbox',
          'The newest message of each thread, newest first; `thread_id` is the id of the thread. Messages are grouped by In-Reply-To and References.',
        ),
      },
    )
    .get(
      '/:id/threads/:tid',
      async ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const thread = getThread(app.db, mailbox, params.tid)
        const range = parseRowRange(query)
        requireReachable(range, thread.messageCount)
        const messages = listThreadMessages(app.db, thread, range)
        const wires = await model.toListedMessagesWire(app, messages, mailbox, model.MAX_BODY_BYTES_IN_THREAD)
        return {
          ...pageBody(wires, { ...range, total: thread.messageCount }),
          thread: model.toThreadWire(thread, mailbox),
        }
      },
      {
        params: ThreadParams,
        query: RowRangeQuery,
        response: model.ThreadPage,
        detail: reads('Get a thread', 'Its received and sent messages, oldest first; limit and offset select a range.'),
      },
    )
    .get(
      '/:id/contacts',
      ({ actor, params, query }) => {
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        const range = parseRowRange(query)
        const { contacts, total } = listContacts(app.db, mailbox, range)
        const last = contacts.at(-1)
        return pageBody(
          contacts.map(model.toContactWire),
          { ...range, total },
          last && [last.lastMessageAt, last.address],
        )
      },
      {
        params: MailboxParams,
        query: RowRangeQuery,
        response: PageBody(model.ContactRecord),
        detail: reads('List the contacts of a mailbox', 'The senders of its messages, by newest message.'),
      },
    )
    .get(
      '/:id/analytics',
      ({ actor, params }) => dataBody(readMailboxAnalytics(app, getMailbox(app.db, actor.accountId, params.id))),
      {
        params: MailboxParams,
        response: DataBody(model.AnalyticsRecord),
        detail: reads('Get the analytics of a mailbox'),
      },
    )

const LEASE_LOST = ['lease_lost', 'The lease has expired, so another consumer may have the message.'] as const
/** How much longer the connection timeout is than the wait. */
const RESPONSE_GRACE_SECONDS = 15

const consumerRoutes = (app: App, longPolls: LongPolls) =>
  new Elysia({ tags })
    .use(authenticated)
    .get(
      '/:id/messages/next',
      async ({ actor, params, query, request }) => {
        // HEAD would lease a message without returning it.
        if (request.method === 'HEAD') throw wrongMethod('HEAD', ['GET'])
        const timeoutSeconds = parseQueryInteger('timeout', query.timeout, {
          fallback: model.DEFAULT_TIMEOUT_SECONDS,
          minimum: 0,
          maximum: model.MAX_TIMEOUT_SECONDS,
        })
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        // Never 0 (no timeout): the value stays in force after the response, so the idle connection would never be
        // closed.
        requestContext(request)?.setTimeout(timeoutSeconds + RESPONSE_GRACE_SECONDS)
        const lease = await longPolls.next(actor, mailbox, toWaitMs(timeoutSeconds), request.signal)
        const message = findMessageById(app.db, lease.messageId)
        // The message was deleted just after it was leased.
        if (!message) throw createNoMessageError()
        return {
          data: model.toMessageWire(app, message, mailbox),
          lease_token: formatToken(lease.token),
          lease_expires_at: isoTime(lease.expiresAt),
        }
      },
      {
        params: MailboxParams,
        query: model.NextQuery,
        response: model.NextMessage,
        detail: describeWith('mailboxes:write', 'mailboxes:read')(
          'Get the next message',
          'Leases the oldest available message to you for 5 minutes: no other consumer gets it until you nack it or the lease ends. Waits for a message; 408 when none arrives. Acknowledge it when done, otherwise it is delivered again. A lease changes the message, so both scopes are required.',
          {
            ...errorResponses({ 408: ['no_message', 'No message arrived in this time; ask again.'] }),
            ...changesByGet,
          },
        ),
      },
    )
    .post(
      '/:id/messages/:mid/ack',
      ({ actor, params, body }) => ackMessage(app, actor, params.id, params.mid, body.lease_token),
      {
        params: MessageParams,
        body: model.LeaseEnd,
        detail: writes(
          'Acknowledge a message',
          'The message counts as read and no consumer gets it again. 409 when the lease has expired. The same ack may be repeated.',
          errorResponses({ 409: LEASE_LOST }),
        ),
      },
    )
    .post(
      '/:id/messages/:mid/nack',
      ({ actor, params, body }) => nackMessage(app, actor, params.id, params.mid, body.lease_token),
      {
        params: MessageParams,
        body: model.LeaseEnd,
        detail: writes(
          'Return a message',
          'The next consumer gets it immediately. 409 when the lease has expired.',
          errorResponses({ 409: LEASE_LOST }),
        ),
      },
    )

/** The response must arrive before the client times out. */
const toWaitMs = (timeoutSeconds: number): number => seconds(Math.max(timeoutSeconds - 2, timeoutSeconds / 2))
