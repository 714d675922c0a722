/** @module API keys: create, list, rename, delete. */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { type ApiKey, changeApiKey, createApiKey, listApiKeys, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
import { invalid } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { parseUuid } from '#platform/ids.ts'
import { readBody, readText, requireText } from './body.ts'
import { RESEND_PREFIX } from './dialect.ts'
import { pageOf } from './list.ts'

export const resendApiKeyRoutes = (app: App) =>
  new Elysia({ prefix: `${RESEND_PREFIX}/api-keys` })
    .use(authenticated)
    .get('/', ({ actor, query }) => pageOf(query, listApiKeys(app.db, actor.accountId).map(toListedKey)), {
      detail: requires('account:admin'),
    })
    .post(
      '/',
      async ({ actor, body, set, status }) => {
        const wanted = readBody({ body, set }, ['name', 'permission', 'domain_id'])
        const name = requireText(wanted, 'name')
        const scopes = toScopes(readText(wanted, 'permission'))
        const domainId = readText(wanted, 'domain_id')
        const limits = domainId && { domains: [requireDomain(app, actor, domainId)] }
        const { id, key } = await createApiKey(app, actor, { name, scopes, ...(limits && { limits }) })
        return status(201, { id, token: key })
      },
      { detail: requires('account:admin') },
    )
    .patch(
      '/:id',
      async ({ actor, params: { id }, body, set }) => {
        await changeApiKey(app, actor, id, { name: requireText(readBody({ body, set }, ['name']), 'name') })
        return { object: 'api_key' as const, id: id.toLowerCase() }
      },
      { detail: requires('account:admin') },
    )
    .delete(
      '/:id',
      async ({ actor, params: { id } }) => {
        await revokeApiKey(app, actor, id)
        return { object: 'api_key' as const, id: id.toLowerCase(), deleted: true }
      },
      { detail: requires('account:admin') },
    )

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
