/** @module API keys: create, list, rename, delete. */
import type { Actor, App } from '#features/core/app/app.ts'
import { type ApiKey, changeApiKey, createApiKey, listApiKeys, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { parseUuid } from '#platform/ids.ts'
import { readText, requireText } from './body.ts'
import { pageOf } from './list.ts'
import { on, toDeleted } from './route.ts'

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
  on('DELETE /api-keys/:id', ADMIN, ({ app, actor, id }) =>
    revokeApiKey(app, actor, id).then(() => toDeleted('api_key', id)),
  ),
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
