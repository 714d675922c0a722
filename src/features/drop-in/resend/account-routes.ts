/**
 * @module What is of the account itself: API keys and webhooks (create, list, change, delete), and its requests, as
 * `/v1/logs` has them. Contents of requests and responses are not stored.
 */
import * as log from '#features/reporting/logs/request-log.ts'
import { changeApiKey, createApiKey, listApiKeys, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import type { ApiKey } from '#features/setup/api-keys/model.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
import { RESEND_EVENTS, RESEND_NAMES } from '#features/webhooks/webhooks/event-names.ts'
import { changeWebhook, createWebhook, deleteWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { getWebhook, listWebhooks, type Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { OptionalNullable, StringEnum } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { type Call, Fields, on, takes } from '../dialects/routes.ts'
import { deletes, MAYBE_TEXT, pageOf, pageOfRows, shows, TEXT, TEXTS, toReference } from './route.ts'

const ADMIN = 'account:admin'
const READS_WEBHOOKS = 'webhooks:read'
const WRITES_WEBHOOKS = 'webhooks:write'

const NAMED = Fields({ name: TEXT })
const NEW_KEY = Fields({
  name: TEXT,
  permission: OptionalNullable(StringEnum(['full_access', 'sending_access'])),
  domain_id: MAYBE_TEXT,
})
const NEW_WEBHOOK = Fields({ endpoint: TEXT, events: TEXTS })
const WEBHOOK_CHANGE = Fields({
  endpoint: MAYBE_TEXT,
  events: OptionalNullable(TEXTS),
  status: OptionalNullable(StringEnum(['enabled', 'disabled'])),
})

/** Above the number of webhooks that an account may have. */
const MAX_WEBHOOKS = 1000

export const accountRoutes = [
  on('GET /api-keys', ADMIN, ({ db, accountId, query }) => pageOf(query, listApiKeys(db, accountId).map(toListedKey))),
  takes('POST /api-keys', ADMIN, NEW_KEY, async (call) => {
    const { name, permission, domain_id: domainId } = call.body
    // No scopes: all those of the calling key.
    const scopes = permission === 'sending_access' ? ['emails:send'] : []
    const limits = domainId ? { limits: { domains: [requireDomain(call, domainId)] } } : {}
    const { id, key } = await createApiKey(call.app, call.actor, { name, scopes, ...limits })
    return { id, token: key }
  }),
  takes('PATCH /api-keys/:id', ADMIN, NAMED, async ({ app, actor, id, body }) => {
    await changeApiKey(app, actor, id, { name: body.name })
    return { object: 'api_key', id: id.toLowerCase() }
  }),
  on('DELETE /api-keys/:id', ADMIN, deletes('api_key', revokeApiKey)),

  on('GET /webhooks', READS_WEBHOOKS, ({ db, accountId, query }) => {
    const { rows: webhooks } = listWebhooks(db, accountId, { limit: MAX_WEBHOOKS, offset: 0 })
    return pageOf(query, webhooks.map(toListedWebhook))
  }),
  takes('POST /webhooks', WRITES_WEBHOOKS, NEW_WEBHOOK, async ({ app, actor, body, ignored }) => {
    const input = { url: body.endpoint, events: translateEvents(body.events, ignored), format: 'resend' } as const
    const { webhook, secret } = await createWebhook(app, actor, input)
    return { ...toReference('webhook', webhook), signing_secret: secret }
  }),
  on(
    'GET /webhooks/:id',
    READS_WEBHOOKS,
    // The secret is shown at creation, and later only to signed-in users.
    shows('webhook', getWebhook, (webhook) => ({ ...toListedWebhook(webhook), signing_secret: '' })),
  ),
  takes('PATCH /webhooks/:id', WRITES_WEBHOOKS, WEBHOOK_CHANGE, async (call) => {
    const { app, db, actor, accountId, id, body, ignored } = call
    const before = getWebhook(db, accountId, id)
    const change = {
      url: body.endpoint ?? before.url,
      events: body.events ? translateEvents(body.events, ignored) : before.events,
      isActive: body.status ? body.status === 'enabled' : before.isActive,
    }
    return toReference('webhook', await changeWebhook(app, actor, id, change))
  }),
  on('DELETE /webhooks/:id', WRITES_WEBHOOKS, deletes('webhook', deleteWebhook)),

  on('GET /logs', 'account:read', async (call) => {
    await log.getRequestLog(call.app).flush()
    return pageOfRows(call, 'request_logs', log.findLogEntry, log.listNewestEntries, toListedLog)
  }),
  on('GET /logs/:id', 'account:read', async ({ app, db, accountId, id }) => {
    await log.getRequestLog(app).flush()
    const entry = log.findLogEntry(db, accountId, id)
    if (!entry) throw notFound('request_log_not_found', 'Log not found; it may be too old.')
    return toLog(entry)
  }),
]

function requireDomain({ db, accountId }: Call, id: string): string {
  const uuid = parseUuid(id)
  const domain = uuid && findDomain(db, accountId, uuid)
  if (!domain) throw invalid('domain_id', 'domain_id must be the id of a domain of this account.')
  return domain.domain
}

export const toListedKey = ({ id, name, createdAt, lastUsedAt }: ApiKey) => ({
  id,
  name,
  created_at: isoTime(createdAt),
  last_used_at: isoTimeOrNull(lastUsedAt),
})

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

export const toListedLog = (entry: log.StoredLogEntry) => ({
  id: String(entry.id),
  created_at: isoTime(log.toLogTime(entry.id)),
  // SMTP has no path.
  endpoint: entry.path ?? entry.method,
  method: entry.method,
  response_status: entry.status,
  user_agent: entry.userAgent,
})

/** Of a refused request: the shape of its body, and the error. */
export const toLog = (entry: log.StoredLogEntry) => ({
  ...{ object: 'log' as const, ...toListedLog(entry) },
  request_body: entry.body === null ? null : (JSON.parse(entry.body) as unknown),
  response_body: entry.errorCode === null ? null : { name: entry.errorCode, message: entry.errorMessage },
})
