/**
 * @module The routes of programs that consume a mailbox: the next message under a lease, ack, nack. Paths, schemas, one
 * call each.
 */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { changesByGet } from '#platform/http/access.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { wrongMethod } from '#platform/http/error-response.ts'
import { requestContext } from '#platform/http/request-context.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { seconds } from '#platform/units.ts'
import { ackMessage, formatToken, nackMessage } from './leases.ts'
import { createNoMessageError, type LongPolls } from './long-polls.ts'
import { getMailbox } from './mailboxes.ts'
import { findMessageById } from './messages.ts'
import {
  DEFAULT_TIMEOUT_SECONDS,
  LeaseEnd,
  MAX_TIMEOUT_SECONDS,
  NextMessage,
  NextQuery,
  toMessageWire,
} from './model.ts'
import { MailboxParams, MessageParams, tags } from './params.ts'

const LEASE_LOST = ['lease_lost', 'The lease has expired, so another consumer may have the message.'] as const
/** How much longer the connection timeout is than the wait. */
const RESPONSE_GRACE_SECONDS = 15

export const consumerRoutes = (app: App, longPolls: LongPolls) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/messages/next',
      async ({ actor, params, query, request }) => {
        // HEAD would lease a message without returning it.
        if (request.method === 'HEAD') throw wrongMethod('HEAD', ['GET'])
        const timeoutSeconds = parseQueryInteger('timeout', query.timeout, {
          fallback: DEFAULT_TIMEOUT_SECONDS,
          minimum: 0,
          maximum: MAX_TIMEOUT_SECONDS,
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
          data: toMessageWire(app, message, mailbox),
          lease_token: formatToken(lease.token),
          lease_expires_at: isoTime(lease.expiresAt),
        }
      },
      {
        params: MailboxParams,
        query: NextQuery,
        response: NextMessage,
        detail: {
          summary: 'Get the next message',
          description:
            'Leases the oldest available message to you for 5 minutes: no other consumer gets it until you nack it or the lease ends. Waits for a message; 408 when none arrives. Acknowledge it when done, otherwise it is delivered again. A lease changes the message, so both scopes are required.',
          tags,
          ...errorResponses({ 408: ['no_message', 'No message arrived in this time; ask again.'] }),
          ...requires('mailboxes:write', 'mailboxes:read'),
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
        params: MessageParams,
        body: LeaseEnd,
        detail: {
          summary: 'Acknowledge a message',
          description:
            'The message counts as read and no consumer gets it again. 409 when the lease has expired. The same ack may be repeated.',
          tags,
          ...errorResponses({ 409: LEASE_LOST }),
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
        params: MessageParams,
        body: LeaseEnd,
        detail: {
          summary: 'Return a message',
          description: 'The next consumer gets it immediately. 409 when the lease has expired.',
          tags,
          ...errorResponses({ 409: LEASE_LOST }),
          ...requires('mailboxes:write'),
        },
      },
    )

/** The response must arrive before the client times out. */
const toWaitMs = (timeoutSeconds: number): number => seconds(Math.max(timeoutSeconds - 2, timeoutSeconds / 2))
