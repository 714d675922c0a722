import { expect, test } from 'bun:test'
import { ManualClock } from '#platform/clock.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { NOW } from '#test/support/email-api.ts'

test('a change over the API is in the log with its actor and address, newest first', async () => {
  await using service = await createTestApi({ clock: new ManualClock(NOW) })
  const { api } = service
  const keyId = at((await api('GET', '/v1/api-keys')).body, 'data', 0, 'id')
  const stream = await api('POST', '/v1/streams', { slug: 'news', name: 'News' })
  const log = await api('GET', '/v1/audit-logs')
  expect(log.status).toBe(200)
  expect(at(log.body, 'data', 0)).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    account_id: service.actor.accountUuid,
    actor_type: 'api_key',
    actor_id: keyId,
    action: 'stream.created',
    resource_type: 'stream',
    resource_id: at(stream.body, 'data', 'id'),
    ip_address: '127.0.0.1',
    metadata: { slug: 'news', name: 'News' },
    created_at: at(stream.body, 'data', 'created_at'),
  })
  expect((at(log.body, 'data') as { action: string }[]).map(({ action }) => action)).toEqual([
    'stream.created',
    'api_key.created',
    'account.created',
  ])
  expect(at(log.body, 'pagination')).toEqual({ page: 1, per_page: 25, total: 3, total_pages: 1 })
})

test('the log is paged, and what the operator did has no address', async () => {
  await using service = await createTestApi()
  const last = await service.api('GET', '/v1/audit-logs?per_page=1&page=2')
  expect(last.body).toMatchObject({
    data: [{ action: 'account.created', actor_type: 'operator', actor_id: 'cli', ip_address: null }],
    pagination: { page: 2, per_page: 1, total: 2, total_pages: 2 },
  })
})

test('a refused change leaves no row', async () => {
  await using service = await createTestApi()
  const { api } = service
  expect((await api('POST', '/v1/streams', { slug: 'transactional', name: 'x' })).status).toBe(409)
  expect(at((await api('GET', '/v1/audit-logs')).body, 'pagination', 'total')).toBe(2)
})

test('an account sees its own log only, and needs account:read', async () => {
  await using service = await createTestApi()
  const { api } = service
  const other = await service.newAccount()
  const key = await service.newKey([], other)
  const log = await api('GET', '/v1/audit-logs', undefined, { key })
  expect(new Set((at(log.body, 'data') as { account_id: string }[]).map((entry) => entry.account_id))).toEqual(
    new Set([other.accountUuid]),
  )
  const sender = await service.newKey(['emails:send', 'emails:read'])
  expect((await api('GET', '/v1/audit-logs', undefined, { key: sender })).status).toBe(403)
})
