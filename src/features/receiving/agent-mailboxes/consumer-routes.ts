/** @module What programs that consume an agent mailbox call: the next message, under a lease, and its end. Paths, shapes and one call each. */
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

const LEASE_LOST = ['lease_lost', 'The lease is over, so another consumer may have the message.'] as const
/** What the connection of whoever waits has beyond the wait. */
const RESPONSE_GRACE_SECONDS = 15

export const consumerRoutes = (app: App, longPolls: LongPolls) =>
  new Elysia()
    .use(authenticated)
    .get(
      '/:id/messages/next',
      async ({ actor, params, query, request }) => {
        // It would take a message and show it to nobody.
        if (request.method === 'HEAD') throw wrongMethod('HEAD', ['GET'])
        const timeoutSeconds = parseQueryInteger('timeout', query.timeout, {
          fallback: DEFAULT_TIMEOUT_SECONDS,
          minimum: 0,
          maximum: MAX_TIMEOUT_SECONDS,
        })
        const mailbox = getMailbox(app.db, actor.accountId, params.id)
        // Not without a limit: it stays on the connection, which would then be kept for good after the answer.
        requestContext(request)?.setTimeout(timeoutSeconds + RESPONSE_GRACE_SECONDS)
        const lease = await longPolls.next(actor, mailbox, toWaitMs(timeoutSeconds), request.signal)
        const message = findMessageById(app.db, lease.messageId)
        // Deleted in the moment after it was leased.
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
            'The oldest message that no consumer holds, leased to you for 5 minutes: no other consumer gets it until you nack it or the lease ends. Waits for one to come; 408 when none does. Acknowledge it when you are done, or it is given again. It changes who holds the message, hence the scopes.',
          tags,
          ...errorResponses({ 408: ['no_message', 'No message came in this time; ask again.'] }),
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
            'It counts as read and is given to no consumer any more. 409 when the lease is over. Repeating the ack that did it is fine.',
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
          summary: 'Give a message back',
          description: 'The next consumer that asks gets it, at once. 409 when the lease is over.',
          tags,
          ...errorResponses({ 409: LEASE_LOST }),
          ...requires('mailboxes:write'),
        },
      },
    )

/** The answer has to be there before the client gives up. */
const toWaitMs = (timeoutSeconds: number): number => seconds(Math.max(timeoutSeconds - 2, timeoutSeconds / 2))
