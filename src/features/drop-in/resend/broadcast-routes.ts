/** @module Broadcasts: newsletters to the contact list that a segment is, in the stream that a topic is. */
import type { App } from '#features/core/app/app.ts'
import { controlBroadcast } from '#features/sending/broadcasts/states.ts'
import * as newsletters from '#features/sending/newsletters/newsletters.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { conflict } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import type { JsonObject } from '#platform/json-object.ts'
import { listTopics, requireTopic } from './contact-routes.ts'
import { toMailboxes } from './email-routes.ts'
import { pageOfRows } from './list.ts'
import { toBroadcastSource, toBroadcastText } from './placeholders.ts'
import { type Call, deletes, missingField, on, readFlag, readText, readTexts, requireText } from './route.ts'
import type { SendRouteOptions } from './send-routes.ts'
import { toSendAt } from './translate.ts'

const READS = 'contacts:read'
const WRITES = 'contacts:write'
const SENDS = 'emails:send contacts:read'

const MAX_REPLY_TO = 50
/** Newsletters have no name and no preview text. */
const FIELDS = ['segment_id', 'audience_id', 'from', 'subject', 'reply_to', 'html', 'text', 'topic_id']

export function broadcastRoutes({ takeRate }: SendRouteOptions) {
  const send = ({ app, actor, headers, request }: Call, id: string, send_at: string | null) =>
    withoutTimeLimit(request, () =>
      newsletters.sendNewsletter(app, actor, id, { send_at }, () => Object.assign(headers, takeRate(actor))),
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
    on('POST /broadcasts', WRITES, async (call) => {
      const wanted = call.read([...FIELDS, 'send', 'scheduled_at'])
      const isSent = readFlag(wanted, 'send') === true
      if (isSent) requireScope(call.actor, 'emails:send', 'to send a broadcast')
      const sendAt = readSendAt(call, wanted)
      for (const field of ['from', 'subject']) requireText(wanted, field)
      const input = toInput(call, wanted)
      if (input.list_id === undefined) throw missingField('segment_id')
      const id = formatUuid((await newsletters.createNewsletter(call.app, call.actor, input as NewsletterInput)).uuid)
      if (isSent)
        await send(call, id, sendAt).catch(async (error: unknown) => {
          // A client that gets an error repeats the whole request.
          await newsletters.deleteNewsletter(call.app, call.actor, id)
          throw error
        })
      return toBroadcast(id)
    }),
    on('GET /broadcasts/:id', READS, ({ app, db, accountId, id }) =>
      toDetail(app, newsletters.getNewsletter(db, accountId, id)),
    ),
    on('PATCH /broadcasts/:id', WRITES, async (call) => {
      await newsletters.changeNewsletter(call.app, call.actor, call.id, toInput(call, call.read(FIELDS)))
      return toBroadcast(call.id)
    }),
    on('DELETE /broadcasts/:id', WRITES, deletes('broadcast', newsletters.deleteNewsletter)),
    on('POST /broadcasts/:id/send', SENDS, async (call) => {
      await send(call, call.id, readSendAt(call, call.read(['scheduled_at'])))
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

const readSendAt = ({ app }: Call, { scheduled_at }: JsonObject) => toSendAt(scheduled_at, app.clock.now()) ?? null

/** The fields of a newsletter; undefined for those that the client did not send. */
function toInput({ app, accountId }: Call, wanted: JsonObject): Partial<NewsletterInput> {
  const read = (field: string) => readText(wanted, field)
  const source = (field: string) => {
    const text = read(field)
    return text === undefined ? undefined : toBroadcastSource(text)
  }
  const { reply_to: reply, topic_id: topic } = wanted
  const input = {
    list_id: read('segment_id') ?? read('audience_id'),
    from_address: read('from'),
    subject: source('subject'),
    html_body: source('html'),
    text_body: source('text'),
    reply_to: Array.isArray(reply) ? readTexts(wanted, 'reply_to', MAX_REPLY_TO)?.join(', ') : read('reply_to'),
    stream: topic == null ? (topic as null | undefined) : requireTopic(app, accountId, read('topic_id') ?? '').slug,
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

export function toDetail(app: App, newsletter: newsletters.Newsletter) {
  const { accountId, from, replyTo, htmlBody, textBody, stream } = newsletter
  const topic = stream === null ? undefined : listTopics(app, accountId).find(({ slug }) => slug === stream)
  const listed = toListed(newsletter)
  return {
    ...{ object: 'broadcast' as const, ...listed, from, subject: listed.name, preview_text: null },
    reply_to: replyTo === null ? null : toMailboxes(replyTo),
    topic_id: topic ? formatUuid(topic.uuid) : null,
    html: htmlBody === null ? null : toBroadcastText(htmlBody),
    text: textBody === null ? null : toBroadcastText(textBody),
  }
}
