/**
 * @module What is of the account itself: API keys (create, list, rename, delete), and its requests, as `/v1/logs` has
 * them. Contents of requests and responses are not stored.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import * as log from '#features/reporting/logs/request-log.ts'
import { changeApiKey, createApiKey, listApiKeys, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import type { ApiKey } from '#features/setup/api-keys/model.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { parseUuid } from '#platform/ids.ts'
import { pageOf, pageOfRows } from './list.ts'
import { deletes, on, readText, requireText } from './route.ts'

const ADMIN = 'account:admin'

export const apiKeyRoutes = [
  on('GET /api-keys', ADMIN, ({ app, accountId, query }) =>
    pageOf(query, listApiKeys(app.db, accountId).map(toListedKey)),
  ),
  on('POST /api-keys', ADMIN, async ({ app, actor, read }) => {
    const wanted = read(['name', 'permission', 'domain_id'])
    const name = requireText(wanted, 'name')
    const scopes = toScopes(readText(wanted, 'permission'))
    const domainId = readText(wanted, 'domain_id')
    const limits = domainId && { domains: [requireDomain(app, actor, domainId)] }
    const { id, key } = await createApiKey(app, actor, { name, scopes, ...(limits && { limits }) })
    return { id, token: key }
  }),
  on('PATCH /api-keys/:id', ADMIN, async ({ app, actor, id, read }) => {
    await changeApiKey(app, actor, id, { name: requireText(read(['name']), 'name') })
    return { object: 'api_key', id: id.toLowerCase() }
  }),
  on('DELETE /api-keys/:id', ADMIN, deletes('api_key', revokeApiKey)),
]

function requireDomain(app: App, { accountId }: Actor, id: string): string {
  const uuid = parseUuid(id)
  const domain = uuid && findDomain(app.db, accountId, uuid)
  if (!domain) throw invalid('domain_id', 'domain_id must be the id of a domain of this account.')
  return domain.domain
}

/** No scopes: all those of the calling key. */
function toScopes(permission: string | undefined): readonly string[] {
  if (permission === undefined || permission === 'full_access') return []
  if (permission === 'sending_access') return ['emails:send']
  throw invalid('permission', 'permission must be full_access or sending_access.')
}

export const toListedKey = ({ id, name, createdAt, lastUsedAt }: ApiKey) => ({
  id,
  name,
  created_at: isoTime(createdAt),
  last_used_at: isoTimeOrNull(lastUsedAt),
})

export const logRoutes = [
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
