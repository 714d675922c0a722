/** @module Routes of /v1/api-keys. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute, describeWith } from '#features/core/app/http.ts'
import { dataBody, onePageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody } from '#platform/http/schemas.ts'
import { changeApiKey, createApiKey, listApiKeys, revokeApiKey } from './keys.ts'
import { ApiKeyPatch, ApiKeyRecord, CreatedApiKey, ImportedApiKey, NewApiKey, toApiKeyWire } from './model.ts'

const tags = ['API keys']
const params = Type.Object({ id: Type.String({ description: 'Id of the key.' }) })
const administers = describeWith('account:admin')

/** Who connected the programs of an account, by the ids of their keys. */
type ListConnectors = (db: App['db'], accountId: number) => ReadonlyMap<string, string>

export const apiKeyRoutes = (app: App, listConnectors: ListConnectors) =>
  new Elysia({ prefix: '/v1/api-keys', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor: { accountId } }) => {
        const connectors = listConnectors(app.db, accountId)
        return onePageBody(listApiKeys(app.db, accountId).map((key) => toApiKeyWire(key, app.clock.now(), connectors)))
      },
      {
        response: PageBody(ApiKeyRecord),
        detail: administers('List API keys', 'All keys on one page, newest first.'),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const { name, scopes, ...limits } = body
        const created = await createApiKey(app, actor, { name, scopes, limits })
        return status(201, dataBody({ ...toApiKeyWire(created, app.clock.now()), key: created.key }))
      },
      {
        body: NewApiKey,
        response: { 201: DataBody(CreatedApiKey) },
        detail: administers('Create an API key'),
      },
    )
    .patch(
      '/:id',
      async ({ actor, params, body }) => {
        const changed = await changeApiKey(app, actor, params.id, body)
        return dataBody(toApiKeyWire(changed, app.clock.now(), listConnectors(app.db, actor.accountId)))
      },
      {
        params,
        body: ApiKeyPatch,
        response: DataBody(ApiKeyRecord),
        detail: administers(
          'Change an API key',
          'Changes the fields that the body has, from the next request with the key on. A restricted key cannot give another key more than it has itself.',
        ),
      },
    )
    .delete('/:id', ({ actor, params }) => revokeApiKey(app, actor, params.id), {
      params,
      detail: administers('Delete an API key', 'Takes effect immediately; requests with the key then fail with 401.'),
    })

/** `POST /v1/operator/accounts/{id}/api-keys`: a key whose string the operator chooses. */
export const apiKeyImportRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).post(
    '/accounts/:id/api-keys',
    async ({ actor, params, body: { drafts = false, ...key }, status }) => {
      const created = await createApiKey(app, actForAccount(app, actor, params.id), { ...key, limits: { drafts } })
      return status(201, dataBody(toApiKeyWire(created, app.clock.now())))
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the account.' }) }),
      body: ImportedApiKey,
      response: { 201: DataBody(ApiKeyRecord) },
      detail: commandRoute('Import an API key', undefined, { 404: ['account_not_found', 'No account has this id.'] }),
    },
  )
