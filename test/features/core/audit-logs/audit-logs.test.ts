import { expect, test } from 'bun:test'
import { hashPassword } from '#features/people/team/passwords.ts'
import { createUserWithPassword } from '#features/people/team/users.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { NOW } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

// Proves: audit-1, audit-2, audit-4
test('a change over the API is logged with its actor and address, newest first', async () => {
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
    actor_name: 'test',
    resource_name: 'News',
    resource_exists: true,
    changes: [],
  })
  expect((at(log.body, 'data') as { action: string }[]).map(({ action }) => action)).toEqual([
    'stream.created',
    'api_key.created',
    'account.created',
  ])
  expect(at(log.body, 'pagination')).toEqual({ page: 1, per_page: 25, total: 3, total_pages: 1 })
})

// Proves: audit-9
test('an entry names who made the change and what was changed, also when these are deleted, and tells the difference', async () => {
  await using service = await createTestApi()
  const { api, newKey } = service
  const key = await newKey()
  const keyId = at((await api('GET', '/v1/api-keys')).body, 'data', 0, 'id')
  const id = at((await api('POST', '/v1/streams', { slug: 'news', name: 'News' }, { key })).body, 'data', 'id')
  await api('PUT', `/v1/streams/${id}`, { name: 'All news', slug: 'news', expires_in: 600 }, { key })
  await api('DELETE', `/v1/streams/${id}`, undefined, { key })
  await api('DELETE', `/v1/api-keys/${keyId}`)
  await api('PATCH', '/v1/account', { timezone: 'Europe/Berlin', tracking_privacy: false })
  const long = 'x'.repeat(600)
  const template = { alias: 'a', name: 'A', subject: long, text_body: 'secret body' }
  const templateId = at((await api('POST', '/v1/templates', template)).body, 'data', 'id')
  await api('PUT', `/v1/templates/${templateId}`, { subject: 'Short', text_body: 'other secret body' })

  const { body } = await api('GET', '/v1/audit-logs?per_page=100')
  const entries = at(body, 'data') as { action: string; actor_id: string }[]
  const entryOf = (action: string) => entries.find((entry) => entry.action === action)
  expect(entryOf('stream.updated')).toMatchObject({
    actor_id: keyId,
    actor_name: 'test',
    resource_name: 'All news',
    resource_exists: false,
    changes: [
      { field: 'name', from: 'News', to: 'All news' },
      { field: 'expires_in', from: null, to: 600 },
    ],
  })
  expect(entryOf('stream.updated')).not.toHaveProperty('metadata.changes')
  expect(entryOf('account.updated')).toMatchObject({
    resource_name: 'Test',
    resource_exists: true,
    changes: [{ field: 'timezone', from: 'UTC', to: 'Europe/Berlin' }],
  })
  expect(entryOf('account.created')).toMatchObject({ actor_name: expect.stringMatching(/^(?:Operator|Tassis)$/) })
  expect(entryOf('template.updated')).toMatchObject({
    changes: [
      { field: 'subject', from: `${'x'.repeat(500)}…`, to: 'Short' },
      { field: 'version', from: 1, to: 2 },
    ],
  })
  expect(JSON.stringify(body)).not.toContain('secret body')
  expect(JSON.stringify(body)).not.toContain(key.slice(-20))
})

// Proves: audit-9
test('a present name is shown only to those who may read the resource; without, the name that the log holds', async () => {
  await using service = await createTestApi()
  const { api, app, newKey } = service
  const id = at((await api('POST', '/v1/streams', { slug: 'news', name: 'News' })).body, 'data', 'id')
  app.db.run("UPDATE streams SET name = 'Unannounced' WHERE slug = 'news'")
  const readEntry = async (...scopes: string[]) =>
    at((await api('GET', `/v1/audit-logs?resource_id=${id}`, undefined, { key: await newKey(scopes) })).body, 'data', 0)
  expect(await readEntry('account:read')).toMatchObject({ resource_name: 'News', resource_exists: true })
  expect(await readEntry('account:read', 'emails:read')).toMatchObject({ resource_name: 'Unannounced' })
})

// Proves: audit-3
test('a rejected change leaves no entry', async () => {
  await using service = await createTestApi()
  const { api } = service
  expect((await api('POST', '/v1/streams', { slug: 'transactional', name: 'x' })).status).toBe(409)
  expect(at((await api('GET', '/v1/audit-logs')).body, 'pagination', 'total')).toBe(2)
})

test('the logged address is that of the client when it comes through a trusted proxy, else that of the peer, whatever headers it sends', async () => {
  for (const [proxies, expected] of [
    ['127.0.0.1', '203.0.113.9'],
    ['10.0.0.1', '127.0.0.1'],
  ] as const) {
    await using service = await createTestApi({ settings: { TASSIS_TRUSTED_PROXIES: proxies } })
    const headers = { 'x-forwarded-for': '198.51.100.1, 203.0.113.9' }
    await service.api('POST', '/v1/streams', { slug: 'news', name: 'News' }, { headers })
    const log = await service.api('GET', '/v1/audit-logs?action=stream.created')
    expect(at(log.body, 'data', 0, 'ip_address')).toBe(expected)
  }
})

/** A log of five days: each day, one key creates a stream and another renames it. */
async function createLogOfFiveDays() {
  const clock = new ManualClock(NOW)
  const service = await createTestApi({ clock })
  const { api } = service
  const other = await service.newKey()
  const streams: string[] = []
  for (let day = 0; day < 5; day++) {
    const made = await api('POST', '/v1/streams', { slug: `day-${day}`, name: 'Day' })
    streams.push(String(at(made.body, 'data', 'id')))
    await api('PUT', `/v1/streams/${streams.at(-1)}`, { name: `Day ${day}` }, { key: other })
    clock.advance(days(1))
  }
  const keys = at((await api('GET', '/v1/api-keys')).body, 'data') as { id: string }[]
  const list = async (query: string) => {
    const answer = await api('GET', `/v1/audit-logs?${query}`)
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
    return {
      total: at(answer.body, 'pagination', 'total'),
      actions: (at(answer.body, 'data') as { action: string }[]).map(({ action }) => action),
    }
  }
  return { ...service, streams, otherKeyId: keys[0]?.id ?? '', list }
}

// Proves: audit-5
test('filters narrow the log, alone and combined, and the total counts all matches', async () => {
  await using service = await createLogOfFiveDays()
  const { list, streams, otherKeyId } = service
  const of = (n: number, action: string) => Array<string>(n).fill(action)
  expect(await list('action=stream.created')).toEqual({ total: 5, actions: of(5, 'stream.created') })
  expect(await list(`actor_id=${otherKeyId}`)).toEqual({ total: 5, actions: of(5, 'stream.updated') })
  expect(await list(`resource_id=${streams[2]}`)).toEqual({ total: 2, actions: ['stream.updated', 'stream.created'] })
  expect(await list('resource_type=stream&per_page=3&page=4')).toEqual({ total: 10, actions: ['stream.created'] })
  expect(await list('actor_type=operator')).toEqual({
    total: 3,
    actions: ['api_key.created', 'api_key.created', 'account.created'],
  })
  expect(await list(`action=stream.created&actor_id=${otherKeyId}`)).toEqual({ total: 0, actions: [] })
  expect(await list(`resource_id=${streams[0]}&action=stream.updated&actor_type=api_key`)).toEqual({
    total: 1,
    actions: ['stream.updated'],
  })
  expect(await list('action=nothing.done')).toEqual({ total: 0, actions: [] })
})

// Proves: audit-5
test('a time range, of dates or times, includes its first and last day and combines with other filters', async () => {
  await using service = await createLogOfFiveDays()
  const { list } = service
  expect((await list('from_date=2026-03-16&to_date=2026-03-17')).total).toBe(4)
  expect((await list('from_date=2026-03-18T12:30:00Z')).total).toBe(4)
  expect((await list('from_date=2026-03-18T12:30:00.001Z')).total).toBe(2)
  expect((await list('to_date=2026-03-15T12:29:59Z')).total).toBe(0)
  expect((await list('to_date=2026-03-15&action=stream.created')).total).toBe(1)
  expect((await list('from_date=2027-01-01')).total).toBe(0)
  expect((await list('from_date=2020-01-01&to_date=2030-01-01')).total).toBe(13)
})

test('a filter that matches few of 100,000 entries lets other work run meanwhile', async () => {
  await using service = await createTestApi()
  const { app, actor, api } = service
  app.db.run(
    `WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 100099)
     INSERT INTO audit_logs (id, uuid, account_id, actor_type, actor_id, action, resource_type, created_at, digest, hash)
     SELECT i, randomblob(16), ?, 'system', 'system', 'suppression.created', iif(i = 200, 'rare', 'suppression'), ?, x'', x'' FROM n`,
    [actor.accountId, app.clock.now()],
  )
  let turns = 0
  let isOver = false
  const others = (async () => {
    while (!isOver) {
      turns++
      await yieldToEventLoop()
    }
  })()
  const answer = await api('GET', '/v1/audit-logs?resource_type=rare')
  isOver = true
  await others
  expect(answer.body).toMatchObject({ data: [{ resource_type: 'rare' }], pagination: { total: 1 } })
  expect(turns).toBeGreaterThan(50)
})

// Proves: audit-8
test('changes by a user are logged with the user and the address', async () => {
  await using service = await createTestApi()
  const { app, actor, api } = service
  const password = 'four words that fit'
  const passwordHash = await hashPassword(password, 'test')
  const user = await app.commit.write((tx) =>
    createUserWithPassword(app, tx, actor, { email: 'ada@x.test', passwordHash, role: 'admin' }),
  )
  const login = await api('POST', '/v1/auth/login', { email: 'ada@x.test', password }, { key: null })
  const headers = {
    cookie: String(login.headers.get('set-cookie')).split(';')[0] ?? '',
    'x-csrf-token': String(at(login.body, 'data', 'csrf_token')),
  }
  await api('POST', '/v1/streams', { slug: 'news', name: 'News' }, { key: null, headers })
  const log = await api('GET', '/v1/audit-logs?actor_type=user&action=stream.created')
  expect(at(log.body, 'data')).toMatchObject([
    { actor_type: 'user', actor_id: formatUuid(user.uuid), ip_address: '127.0.0.1', resource_type: 'stream' },
  ])
})
