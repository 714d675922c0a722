/** @module Routes of /v1/api-keys. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { dataBody, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody } from '#platform/http/schemas.ts'
import { createApiKey, listApiKeys, revokeApiKey } from './keys.ts'
import { ApiKeyRecord, CreatedApiKey, NewApiKey, toApiKeyWire } from './model.ts'

const tags = ['API keys']

export const apiKeyRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/api-keys' })
    .use(authenticated)
    .get(
      '/',
      ({ actor }) => {
        const keys = listApiKeys(app.db, actor.accountId).map(toApiKeyWire)
        return pageBody(keys, { page: 1, perPage: Math.max(keys.length, 1), total: keys.length })
      },
      {
        response: PageBody(ApiKeyRecord),
        detail: {
          summary: 'List API keys',
          description: 'All keys on one page, newest first.',
          tags,
          ...requires('account:admin'),
        },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const created = await createApiKey(app, actor, { name: body.name, scopes: body.scopes ?? [] })
        return status(201, dataBody({ ...toApiKeyWire(created), key: created.key }))
      },
      {
        body: NewApiKey,
        response: { 201: DataBody(CreatedApiKey) },
        detail: { summary: 'Create an API key', tags, ...requires('account:admin') },
      },
    )
    .delete(
      '/:id',
      async ({ actor, params, set }) => {
        await revokeApiKey(app, actor, params.id)
        set.status = 204
      },
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the key.' }) }),
        detail: {
          summary: 'Delete an API key',
          description: 'Takes effect immediately; requests with the key then fail with 401.',
          tags,
          ...requires('account:admin'),
        },
      },
    )
