import { expect, test } from 'bun:test'
import { createApiKey, listApiKeys } from '#features/setup/api-keys/keys.ts'
import { at, createTestApi } from '#test/support/api.ts'

const ISO_TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const UUID = expect.stringMatching(/^[0-9a-f-]{36}$/)

// Proves: list-25, auth-1, auth-2, auth-13, key-1, key-2, key-8
test('a created key is shown once, works, and is listed without its secret', async () => {
  await using service = await createTestApi()
  const { api } = service
  const created = await api('POST', '/v1/api-keys', { name: ' CI ', scopes: ['emails:read', 'account:admin'] })
  const key = String(at(created.body, 'data', 'key'))
  expect(created.status).toBe(201)
  expect(created.body).toEqual({
    data: {
      id: UUID,
      name: 'CI',
      key,
      key_prefix: key.slice(0, 16),
      scopes: ['emails:read', 'account:admin'],
      is_active: true,
      expires_at: null,
      domains: null,
      networks: null,
      ...{ drafts: false, allowed_recipients: [], daily_limit: null, mailbox_id: null, connected_by: null },
      last_used_at: null,
      created_at: ISO_TIME,
    },
  })
  expect(key).toMatch(/^tassis_live_[0-9A-Za-z]{32}$/)

  const listed = await api('GET', '/v1/api-keys', undefined, { key })
  expect(listed.status).toBe(200)
  expect(at(listed.body, 'pagination')).toEqual({ page: 1, per_page: 2, total: 2, total_pages: 1 })
  const { key: _, ...withoutKey } = at(created.body, 'data') as Record<string, unknown>
  expect(at(listed.body, 'data', 0)).toEqual(withoutKey)
  expect(JSON.stringify(listed.body)).not.toContain(key)
})

// Proves: auth-10, key-6, key-7
test('a deleted key fails with 401 from the next request on, and is no longer listed', async () => {
  await using service = await createTestApi()
  const { api } = service
  const created = await api('POST', '/v1/api-keys', { name: 'short-lived' })
  const key = String(at(created.body, 'data', 'key'))
  const path = `/v1/api-keys/${at(created.body, 'data', 'id')}`
  expect((await api('GET', '/v1/account', undefined, { key })).status).toBe(200)
  const deleted = await api('DELETE', path)
  expect({ status: deleted.status, body: deleted.body }).toEqual({ status: 204, body: undefined })
  expect((await api('GET', '/v1/account', undefined, { key })).status).toBe(401)
  expect((await api('DELETE', path)).status).toBe(404)
  expect(at((await api('GET', '/v1/api-keys')).body, 'pagination', 'total')).toBe(1)
})

// Proves: auth-49, key-3
test('a key created without scopes gets those of its creator, and an unknown scope fails with 422', async () => {
  await using service = await createTestApi()
  const { api } = service
  const all = await api('POST', '/v1/api-keys', { name: 'all', scopes: null })
  expect(at(all.body, 'data', 'scopes')).toContain('domains:write')

  const unknown = await api('POST', '/v1/api-keys', { name: 'x', scopes: ['emails:sing'] })
  expect({
    status: unknown.status,
    code: at(unknown.body, 'code'),
    field: at(unknown.body, 'details', 0, 'field'),
  }).toEqual({
    status: 422,
    code: 'invalid_scope',
    field: 'scopes',
  })
  expect(at(unknown.body, 'message')).toContain('emails:send')
})

// Proves: auth-46, auth-47
test('a key never gets scopes that its creator lacks', async () => {
  await using service = await createTestApi()
  const { app, actor } = service
  const reader = { ...actor, scopes: new Set(['emails:read', 'domains:read']) }
  expect(await createApiKey(app, reader, { name: 'x' })).toMatchObject({ scopes: ['emails:read', 'domains:read'] })
  await expect(
    createApiKey(app, reader, { name: 'x', scopes: ['emails:read', 'account:admin'] }),
  ).rejects.toMatchObject({
    status: 422,
    code: 'invalid_scope',
  })
  expect(listApiKeys(app.db, actor.accountId)).toHaveLength(2)
})

// Proves: key-4
test('the API does not accept a key chosen by the client, and requires a name', async () => {
  await using service = await createTestApi()
  const { api } = service
  const chosen = await api('POST', '/v1/api-keys', { name: 'x', key: 'a-key-that-i-would-like-to-have' })
  expect({ status: chosen.status, field: at(chosen.body, 'details', 0, 'field') }).toEqual({
    status: 422,
    field: 'key',
  })
  const unnamed = await api('POST', '/v1/api-keys', { name: '  ' })
  expect({ status: unnamed.status, field: at(unnamed.body, 'details', 0, 'field') }).toEqual({
    status: 422,
    field: 'name',
  })
})
