/** Idempotency keys of routes that create something other than an email. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { purgeExpired } from '#features/lifecycle/retention/run.ts'
import { createRequestKeys, eraseInStoredResponses, openStoredResponse } from '#features/sending/accept/idempotency.ts'
import { days } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'

setDefaultTimeout(120_000)

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi()
})
afterAll(() => service[Symbol.asyncDispose]())

let next = 0
const newName = (): string => `key-${++next}-${'x'.repeat(20)}`

const post = (path: string, body: unknown, key: string, apiKey?: string) =>
  service.api('POST', path, body, {
    headers: { 'idempotency-key': key },
    ...(apiKey !== undefined && { key: apiKey }),
  })
const count = (table: string): number =>
  service.app.db.query<{ n: number }, []>(`SELECT COUNT(*) AS n FROM "${table}"`).get()?.n ?? 0
/** What is stored for keys, as text. */
const storedText = (): string =>
  service.app.db
    .query<{ response: string }, []>('SELECT response FROM batch_replies')
    .all()
    .map(({ response }) => response)
    .join('\n')

describe('the same request with the same key', () => {
  const ROUTES: readonly (readonly [path: string, table: string, body: (name: string) => object])[] = [
    ['/v1/api-keys', 'api_keys', (name) => ({ name })],
    ['/v1/webhooks', 'webhooks', (name) => ({ url: `https://127.0.0.1/${name}`, events: ['sent'] })],
    ['/v1/domains', 'domains', (name) => ({ domain: `${name.slice(0, 8)}.test` })],
    ['/v1/streams', 'streams', (name) => ({ slug: name.slice(0, 8), name })],
    ['/v1/templates', 'templates', (name) => ({ name, alias: name, subject: 'Hi', text_body: 'Hi.' })],
    ['/v1/contact-lists', 'contact_lists', (name) => ({ name })],
    ['/v1/suppressions', 'suppressions', (name) => ({ email_address: `${name}@receiver.test`, reason: 'manual' })],
  ]
  test.each(ROUTES)('POST %s gives the first response and creates nothing new', async (path, table, body) => {
    const name = newName()
    const request = body(name)
    const first = await post(path, request, name)
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([201, null])
    const rows = count(table)
    const second = await post(path, request, name)
    expect([second.status, second.headers.get('idempotency-replayed')]).toEqual([201, 'true'])
    expect(second.body).toEqual(first.body)
    expect(second.headers.get('location')).toBe(first.headers.get('location'))
    expect(second.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'))
    expect(count(table)).toBe(rows)
    expectError(await post(path, body(newName()), name), 409, 'idempotency_conflict')
  })

  test('fifty at the same time create one', async () => {
    const name = newName()
    const rows = count('api_keys')
    const answers = await Promise.all(Array.from({ length: 50 }, () => post('/v1/api-keys', { name }, name)))
    expect(count('api_keys')).toBe(rows + 1)
    const codes = new Set(answers.map(({ status, body }) => (status === 201 ? 201 : at(body, 'code'))))
    expect([...codes].filter((code) => code !== 201 && code !== 'idempotency_in_progress')).toEqual([])
    expect(new Set(answers.filter(({ status }) => status === 201).map(({ body }) => at(body, 'data', 'id'))).size).toBe(
      1,
    )
  })
})

test('secrets are stored sealed', async () => {
  const name = newName()
  const { body } = await post('/v1/api-keys', { name }, name)
  const key = String(at(body, 'data', 'key'))
  expect(storedText()).not.toContain(key)
  expect(storedText()).not.toContain(Buffer.from(key).toString('base64').slice(0, 30))
  expect(storedText()).not.toContain(name)
  expect(at((await post('/v1/api-keys', { name }, name)).body, 'data', 'key')).toBe(key)
})

test('an erased person is taken out of sealed responses too', async () => {
  const { app, actor } = service
  const name = newName()
  const body = { name, description: 'for eve@receiver.test' }
  expect((await post('/v1/contact-lists', body, name)).status).toBe(201)
  await app.commit.write((tx) => {
    const erased = (text: string) => text.replaceAll('eve@receiver.test', 'gone')
    for (let after: number | undefined = 0; after !== undefined; )
      after = eraseInStoredResponses(app, tx, { accountId: actor.accountId, after, erased }).next
  })
  const row = app.db.query<{ response: string }, []>('SELECT response FROM batch_replies ORDER BY id DESC').get()
  const text = openStoredResponse(app.keys, actor.accountId, row?.response ?? '')
  expect([text.includes('for gone'), text.includes('eve@')]).toEqual([true, false])
})

test('a refused request leaves the key free', async () => {
  const name = newName()
  expect((await post('/v1/api-keys', { name, scopes: ['emails:sing'] }, name)).status).toBe(422)
  expect((await post('/v1/api-keys', { name }, name)).status).toBe(201)
})

test('a request that ended in an internal error is not repeated: nobody knows what it did', async () => {
  const name = newName()
  const { db } = service.app
  db.run("CREATE TEMP TRIGGER broken BEFORE INSERT ON contact_lists BEGIN SELECT RAISE(FAIL, 'no'); END")
  try {
    expect((await post('/v1/contact-lists', { name }, name)).status).toBe(500)
  } finally {
    db.run('DROP TRIGGER broken')
  }
  expectError(await post('/v1/contact-lists', { name }, name), 409, 'idempotency_outcome_unknown')
})

test('a key belongs to the one who used it, and to one route', async () => {
  const name = newName()
  expect((await post('/v1/api-keys', { name }, name)).status).toBe(201)
  expectError(await post('/v1/contact-lists', { name }, name), 409, 'idempotency_conflict')
  expectError(await post('/v1/api-keys', { name }, name, await service.newKey()), 409, 'idempotency_conflict')
  const reader = await service.newKey(['emails:read'])
  expectError(await post('/v1/api-keys', { name }, name, reader), 403, 'insufficient_scope')
  const stranger = await service.newKey([], await service.newAccount())
  const theirs = await post('/v1/api-keys', { name }, name, stranger)
  expect([theirs.status, theirs.headers.get('idempotency-replayed')]).toEqual([201, null])
})

test.each(['', 'x'.repeat(257)])('the key %p is a 422', async (key) => {
  const { status } = await post('/v1/contact-lists', { name: newName() }, key)
  // An empty value of a header is no header for some clients.
  expect(key === '' ? [201, 422] : [422]).toContain(status)
})

test('a request that a crash interrupted is not repeated', async () => {
  const name = newName()
  const { app, actor } = service
  const { id } = (at((await service.api('GET', '/v1/api-keys')).body, 'data') as { id: string }[]).at(-1) ?? { id: '' }
  const caller = { ...actor, type: 'api_key' as const, id }
  await createRequestKeys(app).begin(caller, { key: name, path: '/v1/api-keys', body: { name } })
  const rows = count('api_keys')
  expectError(await post('/v1/api-keys', { name }, name), 409, 'idempotency_outcome_unknown')
  expect(count('api_keys')).toBe(rows)
})

test('a response that is too long is not stored, and the repetition says where to read', async () => {
  const name = newName()
  const body = { name, alias: name, subject: 'Hi', text_body: 'x'.repeat(20_000) }
  const first = await post('/v1/templates', body, name)
  const second = await post('/v1/templates', body, name)
  expectError(second, 409, 'idempotency_response_not_kept')
  expect(at(second.body, 'message')).toContain(`/v1/templates/${at(first.body, 'data', 'id')}`)
})

test('keys are deleted after two days, and their number is limited', async () => {
  const { app, clock, actor } = service
  const name = newName()
  await post('/v1/api-keys', { name }, name)
  clock.advance(days(3))
  await purgeExpired(app)
  expect(count('batch_replies')).toBe(0)
  app.db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
     INSERT INTO batch_replies (account_id, key_hash, body_hash, response, created_at)
     SELECT ?, randomblob(16), zeroblob(16), '', ? FROM n`,
    [actor.accountId, clock.now()],
  )
  expectError(await post('/v1/api-keys', { name }, name), 429, 'too_many_idempotency_keys')
  expect((await service.api('POST', '/v1/api-keys', { name })).status).toBe(201)
  app.db.run('DELETE FROM batch_replies')
})
