import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { addContacts, createContacts, newList, waitForOperation } from '#test/support/broadcasts.ts'

async function createStream({ api }: TestApi, slug: string): Promise<string> {
  return String(at((await api('POST', '/v1/streams', { slug, name: slug })).body, 'data', 'id'))
}

/** For requests that change nothing, or nothing that others see. */
let shared: Awaited<ReturnType<typeof createTestApi>>
beforeAll(async () => {
  shared = await createTestApi()
})
afterAll(() => shared[Symbol.asyncDispose]())

// Proves: stream-1
test('an account starts with the stream transactional', async () => {
  await using service = await createTestApi()
  const { status, body } = await service.api('GET', '/v1/streams')
  expect(status).toBe(200)
  expect(body).toMatchObject({
    data: [{ slug: 'transactional', name: 'Transactional', account_id: service.actor.accountUuid }],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
})

// Proves: stream-2, stream-3, stream-4, stream-5, stream-6
test('a stream is created, read, renamed and deleted, each change with an audit entry', async () => {
  await using service = await createTestApi()
  const { api } = service
  const created = await api('POST', '/v1/streams', { slug: 'news', name: ' News ' })
  expect(created.status).toBe(201)
  const id = String(at(created.body, 'data', 'id'))
  expect(created.body).toEqual({
    data: {
      id,
      account_id: service.actor.accountUuid,
      slug: 'news',
      name: 'News',
      expires_in: null,
      priority: 'normal',
      created_at: expect.any(String),
      updated_at: expect.any(String),
    },
  })
  expect((await api('GET', `/v1/streams/${id}`)).body).toEqual({
    data: { ...(at(created.body, 'data') as object), reputation: expect.any(Object) },
  })
  const changed = await api('PUT', `/v1/streams/${id}`, { name: 'Letters' })
  expect({ status: changed.status, body: changed.body }).toMatchObject({
    status: 200,
    body: { data: { id, slug: 'news', name: 'Letters' } },
  })
  expect((await api('PUT', `/v1/streams/${id}`, { slug: 'letters' })).body).toMatchObject({
    data: { slug: 'letters', name: 'Letters' },
  })
  const deleted = await api('DELETE', `/v1/streams/${id}`)
  expect({ status: deleted.status, body: deleted.body }).toEqual({ status: 204, body: undefined })
  for (const method of ['GET', 'DELETE'] as const) expect((await api(method, `/v1/streams/${id}`)).status).toBe(404)
  expect(at((await api('GET', '/v1/streams')).body, 'pagination', 'total')).toBe(1)
  const log = await api('GET', '/v1/audit-logs?per_page=4')
  expect(
    (at(log.body, 'data') as { action: string; resource_id: string }[]).map((e) => [e.action, e.resource_id]),
  ).toEqual([
    ['stream.deleted', id],
    ['stream.updated', id],
    ['stream.updated', id],
    ['stream.created', id],
  ])
})

// Proves: stream-9
test('a stream has a priority, normal by default, that a change sets and others keep', async () => {
  await using service = await createTestApi()
  const { api } = service
  const created = await api('POST', '/v1/streams', { slug: 'codes', name: 'Codes', priority: 'high' })
  expect(created.body).toMatchObject({ data: { slug: 'codes', priority: 'high' } })
  const path = `/v1/streams/${at(created.body, 'data', 'id')}`
  expect((await api('PUT', path, { priority: 'low' })).body).toMatchObject({ data: { name: 'Codes', priority: 'low' } })
  expect((await api('PUT', path, { name: 'Digests' })).body).toMatchObject({ data: { priority: 'low' } })
  const refused = await api('PUT', path, { priority: 'urgent' })
  expect({ status: refused.status, field: at(refused.body, 'details', 0, 'field') }).toEqual({
    status: 422,
    field: 'priority',
  })
})

// Proves: stream-2
test('a slug is unique in an account; after a deletion a new stream may use it', async () => {
  await using service = await createTestApi()
  const { api } = service
  const first = await createStream(service, 'news')
  const second = await createStream(service, 'offers')
  const taken = await api('POST', '/v1/streams', { slug: 'news', name: 'Again' })
  expect({ status: taken.status, code: at(taken.body, 'code') }).toEqual({ status: 409, code: 'stream_exists' })
  expect((await api('PUT', `/v1/streams/${second}`, { slug: 'news' })).status).toBe(409)
  const other = await service.newKey([], await service.newAccount())
  expect((await api('POST', '/v1/streams', { slug: 'news', name: 'Theirs' }, { key: other })).status).toBe(201)
  await api('DELETE', `/v1/streams/${first}`)
  expect(await createStream(service, 'news')).not.toBe(first)
})

// Proves: stream-5
test('the stream transactional can be renamed, but not deleted, and its slug cannot change', async () => {
  await using service = await createTestApi()
  const { api } = service
  const id = at((await api('GET', '/v1/streams')).body, 'data', 0, 'id')
  const moved = await api('PUT', `/v1/streams/${id}`, { slug: 'main' })
  expect({ status: moved.status, code: at(moved.body, 'code') }).toEqual({ status: 409, code: 'stream_protected' })
  expect((await api('DELETE', `/v1/streams/${id}`)).status).toBe(409)
  const named = await api('PUT', `/v1/streams/${id}`, { slug: 'transactional', name: 'Receipts' })
  expect({ status: named.status, name: at(named.body, 'data', 'name') }).toEqual({ status: 200, name: 'Receipts' })
})

// Proves: stream-5
test('a stream can be deleted only once its mail is final; the email still refers to it', async () => {
  await using service = await createTestApi()
  const { api, app, actor } = service
  await createDomain(app, actor, 'sender.test')
  const stream = await createStream(service, 'news')
  const sent = await api('POST', '/v1/emails', {
    from: 'ada@sender.test',
    to: 'bob@x.test',
    subject: 'Hi',
    text_body: 'Hi',
    stream: 'news',
    send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
  })
  const email = `/v1/emails/${at(sent.body, 'data', 'id')}`
  const refused = await api('DELETE', `/v1/streams/${stream}`)
  expect({ status: refused.status, code: at(refused.body, 'code') }).toEqual({ status: 409, code: 'stream_in_use' })
  expect((await api('POST', `${email}/cancel`)).status).toBe(200)
  expect((await api('DELETE', `/v1/streams/${stream}`)).status).toBe(204)
  expect(at((await api('GET', email)).body, 'data', 'stream_id')).toBe(stream)
  const late = await api('POST', '/v1/emails', {
    from: 'ada@sender.test',
    to: 'bob@x.test',
    subject: 'Hi',
    text_body: 'Hi',
    stream: 'news',
  })
  expect({ status: late.status, code: at(late.body, 'code') }).toEqual({ status: 422, code: 'stream_not_found' })
})

// Proves: stream-5
test('a stream can be deleted only once its broadcast has ended, even if no email of it exists yet', async () => {
  await using service = await createTestApi({ runsTasks: true })
  const { api, app, actor } = service
  await createDomain(app, actor, 'sender.test')
  const stream = await createStream(service, 'news')
  const list = await newList(service, 'News')
  await addContacts(app, list, createContacts(2))
  const begun = await api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: 'ada@sender.test',
    subject: 'Hi',
    text_body: 'Hi',
    stream: 'news',
    send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
  })
  const operation = String(at(begun.body, 'data', 'operation_id'))
  const refused = async () => {
    const { status, body } = await api('DELETE', `/v1/streams/${stream}`)
    return { status, code: at(body, 'code') }
  }
  expect(await refused()).toEqual({ status: 409, code: 'stream_in_use' })
  expect((await api('POST', `/v1/operations/${operation}/pause`)).status).toBe(200)
  expect(await refused()).toEqual({ status: 409, code: 'stream_in_use' })
  expect((await api('POST', `/v1/operations/${operation}/cancel`)).status).toBe(200)
  await waitForOperation(service, operation, 'cancelled')
  expect((await api('DELETE', `/v1/streams/${stream}`)).status).toBe(204)
})

// Proves: stream-2
test.each(['News', '-news', '', 'a'.repeat(64), 'new s', 'ünews', 'news\n'])(
  'the invalid slug %j fails with 422',
  async (slug) => {
    const service = shared
    const refused = await service.api('POST', '/v1/streams', { slug, name: 'News' })
    expect({ status: refused.status, field: at(refused.body, 'details', 0, 'field') }).toEqual({
      status: 422,
      field: 'slug',
    })
  },
)
