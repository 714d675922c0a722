/** @module Broadcasts: newsletters to the contact list that a segment is, in the stream that a topic is. */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { controlBroadcast } from '#features/sending/broadcasts/states.ts'
import * as newsletters from '#features/sending/newsletters/newsletters.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { conflict } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Call, Fields, on, takes } from '../dialects/routes.ts'
import { listTopics, requireTopic } from './contact-routes.ts'
import { missingField } from './dialect.ts'
import { toMailboxes } from './email-routes.ts'
import { toBroadcastSource, toBroadcastText } from './placeholders.ts'
import { deletes, MAYBE_FLAG, MAYBE_TEXT, pageOfRows, shows, TEXT } from './route.ts'
import type { SendRouteOptions } from './send-routes.ts'
import { toSendAt } from './translate.ts'

const READS = 'contacts:read'
const WRITES = 'contacts:write'
const SENDS = 'emails:send contacts:read'

/** Newsletters have no name and no preview text. */
const CHANGES = Fields({
  ...{ segment_id: MAYBE_TEXT, audience_id: MAYBE_TEXT, from: MAYBE_TEXT, subject: MAYBE_TEXT },
  ...{ html: MAYBE_TEXT, text: MAYBE_TEXT, topic_id: MAYBE_TEXT },
  reply_to: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 50 }), Type.Null()])),
})
const SENDING = Fields({ scheduled_at: MAYBE_TEXT })
const NEW = Fields({
  ...{ ...CHANGES.properties, ...SENDING.properties, from: TEXT, subject: TEXT, send: MAYBE_FLAG },
})

export function broadcastRoutes({ takeRate }: SendRouteOptions) {
  const send = ({ app, actor, set, request }: Call, id: string, send_at: string | null) =>
    withoutTimeLimit(request, () =>
      newsletters.sendNewsletter(app, actor, id, { send_at }, () => Object.assign(set.headers, takeRate(actor))),
    )
  return [
    on('GET /broadcasts', READS, (call) =>
      pageOfRows(
        call,
        'newsletters',
        newsletters.getNewsletter,
        (...of) => newsletters.listNewsletters(...of).newsletters,
        toListed,
      ),
    ),
    takes('POST /broadcasts', WRITES, NEW, async (call) => {
      const { app, actor, body } = call
      if (body.send) requireScope(actor, 'emails:send', 'to send a broadcast')
      const sendAt = readSendAt(call)
      const input = toInput(call)
      if (input.list_id === undefined) throw missingField('segment_id')
      const id = formatUuid((await newsletters.createNewsletter(app, actor, input as NewsletterInput)).uuid)
      if (body.send)
        await send(call, id, sendAt).catch(async (error: unknown) => {
          // A client that gets an error repeats the whole request.
          await newsletters.deleteNewsletter(app, actor, id)
          throw error
        })
      return toBroadcast(id)
    }),
    on('GET /broadcasts/:id', READS, shows('broadcast', newsletters.getNewsletter, toDetail)),
    takes('PATCH /broadcasts/:id', WRITES, CHANGES, async (call) => {
      await newsletters.changeNewsletter(call.app, call.actor, call.id, toInput(call))
      return toBroadcast(call.id)
    }),
    on('DELETE /broadcasts/:id', WRITES, deletes('broadcast', newsletters.deleteNewsletter)),
    takes('POST /broadcasts/:id/send', SENDS, SENDING, async (call) => {
      await send(call, call.id, readSendAt(call))
      return toBroadcast(call.id)
    }),
    on('POST /broadcasts/:id/cancel', SENDS, async ({ app, db, actor, accountId, id }) => {
      const { operationUuid } = newsletters.getNewsletter(db, accountId, id)
      if (operationUuid === null) throw conflict('broadcast_over', 'The broadcast is a draft; nothing of it is sent.')
      await controlBroadcast(app, actor, formatUuid(operationUuid), 'cancel', followBroadcast)
      return toBroadcast(id)
    }),
    on('POST /broadcasts/:id/duplicate', WRITES, async ({ app, db, actor, accountId, id }) => {
      const input = newsletters.toNewsletterWire(newsletters.getNewsletter(db, accountId, id), actor.accountUuid)
      return toBroadcast(formatUuid((await newsletters.createNewsletter(app, actor, input as NewsletterInput)).uuid))
    }),
  ]
}

type NewsletterInput = Parameters<typeof newsletters.createNewsletter>[2]

const toBroadcast = (id: string) => ({ object: 'broadcast' as const, id: id.toLowerCase() })

const readSendAt = ({ app, body }: Call<Static<typeof SENDING>>) => toSendAt(body.scheduled_at, app.clock.now()) ?? null

/** The fields of a newsletter; undefined for those that the client did not send. */
function toInput({ app, accountId, body }: Call<Static<typeof CHANGES>>): Partial<NewsletterInput> {
  const { segment_id, audience_id, from, reply_to: reply, topic_id: topic } = body
  const source = (text: string | null | undefined) => (text == null ? undefined : toBroadcastSource(text))
  const input = {
    list_id: segment_id ?? audience_id ?? undefined,
    from_address: from ?? undefined,
    subject: source(body.subject),
    html_body: source(body.html),
    text_body: source(body.text),
    reply_to: (Array.isArray(reply) ? reply.join(', ') : reply) ?? undefined,
    stream: topic == null ? topic : requireTopic(app, accountId, topic).slug,
  }
  return input as Partial<NewsletterInput>
}

/** One that failed may have been sent in part; it has no `sent_at`. */
const STATUSES = { draft: 'draft', scheduled: 'queued', sending: 'queued', sent: 'sent', failed: 'sent' } as const

export const toListed = (newsletter: newsletters.Newsletter) => ({
  id: formatUuid(newsletter.uuid),
  name: toBroadcastText(newsletter.subject),
  audience_id: formatUuid(newsletter.listUuid),
  segment_id: formatUuid(newsletter.listUuid),
  status: STATUSES[newsletter.status],
  created_at: isoTime(newsletter.createdAt),
  scheduled_at: isoTimeOrNull(newsletter.scheduledAt),
  sent_at: isoTimeOrNull(newsletter.sentAt),
})

export function toDetail(newsletter: newsletters.Newsletter, app: App) {
  const { accountId, from, replyTo, htmlBody, textBody, stream } = newsletter
  const topic = stream === null ? undefined : listTopics(app, accountId).find(({ slug }) => slug === stream)
  const listed = toListed(newsletter)
  return {
    ...{ ...listed, from, subject: listed.name, preview_text: null },
    reply_to: replyTo === null ? null : toMailboxes(replyTo),
    topic_id: topic ? formatUuid(topic.uuid) : null,
    html: htmlBody === null ? null : toBroadcastText(htmlBody),
    text: textBody === null ? null : toBroadcastText(textBody),
  }
}
