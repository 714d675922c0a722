/** @module What programs that consume an agent mailbox call: the next message, under a lease, and its end. Paths, shapes and one call each. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { changesByGet } from '#platform/http/access.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { wrongMethod } from '#platform/http/error-response.ts'
import { refuses } from '#platform/http/refusals.ts'
import { requestContext } from '#platform/http/request-context.ts'
import { queryInteger } from '#platform/http/schemas.ts'
import { seconds } from '#platform/units.ts'
import { ackMessage, nackMessage, tokenText } from './leases.ts'
import { getMailbox } from './mailboxes.ts'
import { messageById } from './messages.ts'
import {
  DEFAULT_TIMEOUT_SECONDS,
  LeaseEnd,
  LONGEST_TIMEOUT_SECONDS,
  messageWire,
  NextMessage,
  NextQuery,
} from './model.ts'
import { ofMailbox, ofMessage, tags } from './params.ts'
import { nothingCame, type WaitingRooms } from './waiting.ts'

const LEASE_LOST = ['lease_lost', 'The lease is over, so another consumer may have the message.'] as const
/** What the connection of whoever waits has beyond the wait. */
const ANSWER_GRACE_SECONDS = 15

export const consumerRoutes = (app: App, rooms: WaitingRooms) =>
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
            'The oldest message that no consumer holds, leased to you for 5 minutes: no other consumer gets it until you nack it or the lease ends. Waits for one to come; 408 when none does. Acknowledge it when you are done, or it is given again. It changes who holds the message, hence the scopes.',
          tags,
          ...refuses({ 408: ['no_message', 'No message came in this time; ask again.'] }),
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

/** The answer has to be there before the client gives up. */
const waitMsOf = (timeoutSeconds: number): number => seconds(Math.max(timeoutSeconds - 2, timeoutSeconds / 2))
