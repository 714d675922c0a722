/** API keys that expire, or are restricted to domains and networks; and how keys are changed. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { hours } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError, VERIFIED } from '#test/support/email-api.ts'

setDefaultTimeout(60_000)

type Json = Record<string, unknown>

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
  await service.addDomain(service.actor, 'other.test')
})
afterAll(() => service[Symbol.asyncDispose]())

const create = async (request: Json = {}, key?: string): Promise<ApiResponse> =>
  service.api('POST', '/v1/api-keys', { name: 'limited', ...request }, key === undefined ? {} : { key })

async function created(request: Json = {}): Promise<{ id: string; key: string }> {
  const { status, body } = await create(request)
  if (status !== 201) throw new Error(JSON.stringify(body))
  return { id: String(at(body, 'data', 'id')), key: String(at(body, 'data', 'key')) }
}

const patch = (id: string, request: Json, key?: string) =>
  service.api('PATCH', `/v1/api-keys/${id}`, request, key === undefined ? {} : { key })
const readAccount = (key: string, headers: Record<string, string> = {}) =>
  service.api('GET', '/v1/account', undefined, { key, headers })

describe('expires_at', () => {
  test('ends a key at that time, and another time brings it back', async () => {
    const { clock } = service
    const expiresAt = new Date(clock.now() + hours(1)).toISOString()
    const { id, key } = await created({ expires_at: expiresAt })
    expect((await readAccount(key)).status).toBe(200)
    clock.advance(hours(1))
    const refused = await readAccount(key)
    expectError(refused, 401, 'api_key_expired')
    expect(at(refused.body, 'message')).toContain(expiresAt)
    const listed = at((await service.api('GET', '/v1/api-keys')).body, 'data') as Json[]
    expect(listed.find((one) => one['id'] === id)).toMatchObject({ is_active: false, expires_at: expiresAt })
    expect((await patch(id, { expires_at: null })).status).toBe(200)
    expect((await readAccount(key)).status).toBe(200)
  })

  test.each([['2020-01-01T00:00:00Z'], ['tomorrow'], ['2030-01-01'], [''], [7]])('%p is a 422', async (time) => {
    expectError(await create({ expires_at: time }), 422, 'validation_failed', 'expires_at')
  })
})

describe('domains', () => {
  const ROUTES: readonly (readonly [path: string, body: (from: string) => Json])[] = [
    ['/v1/emails', (from) => ({ from, to: 'bob@receiver.test', subject: 'Hello', text_body: 'Hi.' })],
    [
      '/v1/emails/batch',
      (from) => ({ emails: [{ from, to: 'bob@receiver.test', subject: 'Hello', text_body: 'Hi.' }] }),
    ],
  ]
  test.each(ROUTES)('POST %s sends from them only', async (path, body) => {
    const { key } = await created({ domains: [' OTHER.test '] })
    const send = (from: string) => service.api('POST', path, body(from), { key })
    expect((await send('a@other.test')).status).toBe(202)
    const refused = await send(`a@${VERIFIED}`)
    if (path === '/v1/emails') expectError(refused, 403, 'domain_not_allowed')
    expect(JSON.stringify(refused.body)).toContain(`may send from other.test only, not from ${VERIFIED}`)
    expect(service.app.db.query('SELECT 1 FROM emails WHERE from_address = ?').all(`a@${VERIFIED}`)).toEqual([])
  })

  test('a welcome email needs a From address at one of them', async () => {
    const { key } = await created({ domains: ['other.test'] })
    const list = {
      welcome_email_enabled: true,
      welcome_email_subject: 'Welcome',
      welcome_email_text_body: 'Hello.',
    }
    const post = (name: string, from?: string) =>
      service.api(
        'POST',
        '/v1/contact-lists',
        { ...list, name, ...(from && { welcome_email_from_address: from }) },
        { key },
      )
    expectError(await post('a', `a@${VERIFIED}`), 403, 'domain_not_allowed')
    expectError(await post('b'), 422, 'validation_failed', 'welcome_email_from_address')
    expect((await post('c', 'a@other.test')).status).toBe(201)
  })

  test.each([[[]], [['a b']], [['localhost']], [[`${'a'.repeat(3000)}.test`]], [Array(51).fill('a.test')]])(
    '%p is a 422',
    async (domains) => {
      expect((await create({ domains })).status).toBe(422)
    },
  )
})

describe('networks', () => {
  test('refuse every other client, as trusted proxies name it', async () => {
    const { key } = await created({ networks: ['192.0.2.0/24', '2001:db8::7'] })
    const from = async (address: string) => (await readAccount(key, { 'x-forwarded-for': address })).status
    expect(await Promise.all(['192.0.2.9', '2001:db8::7', '198.51.100.1', '2001:db8::8'].map(from))).toEqual([
      200, 200, 403, 403,
    ])
  })

  test.each([[[]], [['10.0.0.0/33']], [['example.com']], [['fe80::1%eth0']], [['10.0.0.1 10.0.0.2']], [['']]])(
    '%p is a 422',
    async (networks) => {
      expect((await create({ networks })).status).toBe(422)
    },
  )
})

describe('PATCH', () => {
  // Proves: key-10
  test('changes name and scopes from the next request on, and leaves the rest', async () => {
    const { id, key } = await created({ scopes: ['account:read'], domains: ['other.test'] })
    expect((await readAccount(key)).status).toBe(200)
    const changed = await patch(id, { name: ' shop ', scopes: ['emails:send'] })
    expect(at(changed.body, 'data')).toMatchObject({
      id,
      name: 'shop',
      scopes: ['emails:send'],
      domains: ['other.test'],
    })
    expectError(await readAccount(key), 403, 'insufficient_scope')
    expectError(await patch(id, {}), 422, 'validation_failed', 'body')
    const log = at((await service.api('GET', '/v1/audit-logs?per_page=2')).body, 'data') as Json[]
    expect(log.map((entry) => [entry['action'], entry['resource_id']])).toContainEqual(['api_key.updated', id])
  })

  test.each<[Json, string]>([
    [{ name: ' ' }, 'name'],
    [{ scopes: ['emails:sing'] }, 'scopes'],
    [{ scopes: [] }, 'scopes'],
    [{ key: 'mine' }, 'key'],
  ])('%p is a 422', async (request, field) => {
    const { id } = await created()
    const { status, body } = await patch(id, request)
    expect([status, at(body, 'details', 0, 'field')]).toEqual([422, field])
  })
})

describe('a restricted key', () => {
  test('gives new keys its own restrictions, or narrower ones', async () => {
    const { clock } = service
    const own = {
      expires_at: new Date(clock.now() + hours(9)).toISOString(),
      domains: ['other.test', VERIFIED],
      networks: ['127.0.0.0/8', '2001:db8::/32'],
    }
    const { id, key } = await created(own)
    expect(at((await create({}, key)).body, 'data')).toMatchObject(own)
    const narrower = {
      expires_at: new Date(clock.now() + hours(8)).toISOString(),
      domains: [VERIFIED],
      networks: ['127.1.0.0/16', '2001:db8::1'],
    }
    expect(at((await create(narrower, key)).body, 'data')).toMatchObject(narrower)
    for (const [field, value] of [
      ['expires_at', null],
      ['expires_at', new Date(clock.now() + hours(10)).toISOString()],
      ['domains', null],
      ['domains', [VERIFIED, 'third.test']],
      ['networks', null],
      ['networks', ['126.0.0.0/7']],
      ['networks', ['::/0']],
    ] as const) {
      expectError(await create({ [field]: value }, key), 422, 'limit_exceeds_own', field)
      expectError(await patch(id, { [field]: value }, key), 422, 'limit_exceeds_own', field)
    }
    const other = await created({ scopes: ['account:read'] })
    expectError(await patch(other.id, { scopes: ['emails:send'] }, key), 422, 'limit_exceeds_own', 'expires_at')
    expect((await patch(other.id, { name: 'renamed' }, key)).status).toBe(200)
  })
})
