/** @module The routes for replies and the auto-responder of agent mailboxes. Paths, schemas, one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { REPLAY_FIELDS, takesIdempotencyKey } from '#features/sending/accept/model.ts'
import { createSendRateLimiter } from '#features/sending/accept/sendable.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { locatedAt, responseHeaders } from '#platform/http/route-errors.ts'
import { DataBody, OptionalNullable, StrictObject, Text, Uuid } from '#platform/http/schemas.ts'
import {
  AutoResponderChange,
  AutoResponderRecord,
  changeAutoResponder,
  parseAutoResponder,
  toAutoResponderWire,
} from './auto-settings.ts'
import { getMailbox } from './mailboxes.ts'
import { tags } from './message-routes.ts'
import { replyToMessage } from './reply.ts'

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
        params: Type.Object({ id: Text('Id of the mailbox.') }),
        response: DataBody(AutoResponderRecord),
        detail: describeWith('mailboxes:read')(
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
        params: Type.Object({ id: Text('Id of the mailbox.') }),
        body: AutoResponderChange,
        response: DataBody(AutoResponderRecord),
        detail: describeWith('mailboxes:write', 'emails:send')(
          'Change the auto-responder of a mailbox',
          'Each sender gets at most one reply per day; automatic messages, mailing lists and forged senders get none (RFC 3834). The mailbox shows the same settings as `auto_responder`.',
        ),
      },
    )
}
