/** @module `POST /v1/operator/accounts/{id}/api-keys`: a key whose string the operator chooses. For commands only. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated } from '#features/core/app/http.ts'
import { commandsOnly, describeRoute } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, StrictObject } from '#platform/http/schemas.ts'
import { createApiKey } from './keys.ts'
import { ApiKeyRecord, NewApiKey, toApiKeyWire } from './model.ts'

const ImportedApiKey = StrictObject({
  name: NewApiKey.properties.name,
  scopes: Type.Optional(Type.Array(Type.String(), { maxItems: 100, description: 'Scopes of the key; default: all.' })),
  key: Type.String({ minLength: 1, maxLength: 512, description: 'The key.' }),
})

export const apiKeyImportRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator', tags: ['Operator'] }).use(authenticated).post(
    '/accounts/:id/api-keys',
    async ({ actor, params, body, status }) => {
      const created = await createApiKey(app, actForAccount(app, actor, params.id), {
        ...body,
        scopes: body.scopes ?? [],
      })
      return status(201, dataBody(toApiKeyWire(created, app.clock.now())))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the account.' }) }),
      body: ImportedApiKey,
      response: { 201: DataBody(ApiKeyRecord) },
      detail: describeRoute(
        'Import an API key',
        commandsOnly,
        undefined,
        errorResponses({ 404: ['account_not_found', 'No account has this id.'] }),
      ),
    },
  )
