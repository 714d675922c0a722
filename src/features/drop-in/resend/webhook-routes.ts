/** @module Webhooks: create, read, list, change, delete. */
import { RESEND_EVENTS, RESEND_NAMES } from '#features/webhooks/webhooks/event-names.ts'
import { changeWebhook, createWebhook, deleteWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { getWebhook, listWebhooks, type Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { pageOf } from './list.ts'
import { type Call, deletes, missingField, on, readText, readTexts, requireText, toReference } from './route.ts'

/** Above the number of webhooks that an account may have. */
const MAX_WEBHOOKS = 1000
const MAX_EVENT_NAMES = 100

const READS = 'webhooks:read'
const WRITES = 'webhooks:write'

export const webhookRoutes = [
  on('GET /webhooks', READS, ({ app, accountId, query }) => {
    const { rows: webhooks } = listWebhooks(app.db, accountId, { limit: MAX_WEBHOOKS, offset: 0 })
    return pageOf(query, webhooks.map(toListedWebhook))
  }),
  on('POST /webhooks', WRITES, async ({ app, actor, read, ignored }) => {
    const wanted = read(['endpoint', 'events'])
    const url = requireText(wanted, 'endpoint')
    const names = readTexts(wanted, 'events', MAX_EVENT_NAMES)
    if (!names || names.length === 0) throw missingField('events')
    const events = translateEvents(names, ignored)
    const { webhook, secret } = await createWebhook(app, actor, { url, events, format: 'resend' })
    return { ...toReference('webhook', webhook), signing_secret: secret }
  }),
  on('GET /webhooks/:id', READS, ({ app, accountId, id }) => ({
    object: 'webhook',
    ...toListedWebhook(getWebhook(app.db, accountId, id)),
    // Shown at creation, and later only to signed-in users.
    signing_secret: '',
  })),
  on('PATCH /webhooks/:id', WRITES, async ({ app, actor, accountId, id, read, ignored }) => {
    const before = getWebhook(app.db, accountId, id)
    const wanted = read(['endpoint', 'events', 'status'])
    const names = readTexts(wanted, 'events', MAX_EVENT_NAMES)
    const events = names ? translateEvents(names, ignored) : before.events
    const isActive = parseStatus(readText(wanted, 'status')) ?? before.isActive
    const url = readText(wanted, 'endpoint') ?? before.url
    return toReference('webhook', await changeWebhook(app, actor, id, { url, events, isActive }))
  }),
  on('DELETE /webhooks/:id', WRITES, deletes('webhook', deleteWebhook)),
]

export const toListedWebhook = (webhook: Webhook) => ({
  id: formatUuid(webhook.uuid),
  endpoint: webhook.url,
  created_at: isoTime(webhook.createdAt),
  status: webhook.isActive ? ('enabled' as const) : ('disabled' as const),
  events: webhook.events.flatMap((event) => RESEND_NAMES.get(event) ?? []),
})

type EventName = keyof typeof RESEND_EVENTS

const isEventName = (name: string): name is EventName => Object.hasOwn(RESEND_EVENTS, name)

/** Our names of events. Those that do not exist here are ignored; throws a 422 when no other remains. */
function translateEvents(names: readonly string[], ignored: Call['ignored']): string[] {
  const events = names.filter(isEventName).map((name) => RESEND_EVENTS[name])
  if (events.length === 0)
    throw invalid(
      'events',
      `events must name at least one of ${Object.keys(RESEND_EVENTS).join(', ')}.`,
      'unknown_event',
    )
  for (const name of names) if (!isEventName(name)) ignored.add(`events.${name}`)
  return events
}

function parseStatus(text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined
  if (text !== 'enabled' && text !== 'disabled') throw invalid('status', 'status must be enabled or disabled.')
  return text === 'enabled'
}
