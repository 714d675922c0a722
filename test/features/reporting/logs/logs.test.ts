/** @module The request log, as the account sees it by /v1/logs. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { getRequestLog } from '#features/reporting/logs/request-log.ts'
import { days } from '#platform/units.ts'
import { connect } from '#test/features/drop-in/mcp/clients.ts'
import {
  createMessage,
  encodePlain,
  idOf,
  type SubmissionFixture,
  sendMessage,
  startSubmissionFixture,
} from '#test/features/drop-in/submission/fixture.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError } from '#test/support/email-api.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

type Json = Record<string, unknown>

const list = async ({ api }: Pick<EmailApi, 'api'>, query = '', options?: ApiOptions): Promise<Json[]> =>
  at((await api('GET', `/v1/logs${query}`, undefined, options)).body, 'data') as Json[]

/** Status and path of each request, newest first. */
const brief = async (service: Pick<EmailApi, 'api'>, query = '', options?: ApiOptions) =>
  (await list(service, query, options)).map(({ kind, status, method, path }) => `${kind} ${status} ${method} ${path}`)

let service: SubmissionFixture
beforeAll(async () => {
  service = await startSubmissionFixture()
})
afterAll(() => service[Symbol.asyncDispose]())

// Proves: logs-1
test('a send and a refused one are found, the refused one by its request id, with why', async () => {
  const id = (await service.accepted()).id
  const refused = await service.send({ to: 'bob@', headers: { 'X-Secret': 'horse' } })
  const requestId = at(refused.body, 'request_id')
  const [sent] = await list(service, '?status=2xx&path=/v1/emails')
  expect(sent).toMatchObject({ kind: 'api', method: 'POST', path: '/v1/emails', status: 202, email_id: id, body: null })
  expect(sent).toMatchObject({ error_code: null, actor_type: 'api_key', actor_name: 'test', ip_address: '127.0.0.1' })
  const [found, ...others] = await list(service, `?request_id=${requestId}`)
  expect(others).toEqual([])
  expect(found).toMatchObject({ status: refused.status, request_id: requestId, email_id: null })
  expect(found).toMatchObject({ error_code: at(refused.body, 'code'), error_message: at(refused.body, 'message') })
  expect(at((await service.api('GET', `/v1/logs/${found?.['id']}`)).body, 'data')).toEqual(found)
})

// Proves: logs-3
test('a refused body is kept as its shape, without contents, data or secrets', async () => {
  const body = {
    ...EMAIL,
    to: ['bob@receiver.test', 'bob@'],
    subject: 'Code 123456',
    html_body: '<p>horse battery</p>',
    template_data: { name: 'horse', code: 123456, is_new: true },
    attachments: [{ filename: 'a.txt', content: 'aG9yc2U=' }],
    password: 'horse',
    re_secret: 1,
    'Dear Ada Lovelace': 1,
  }
  const refused = await service.api('POST', '/v1/emails', body)
  const [found] = await list(service, `?request_id=${at(refused.body, 'request_id')}`)
  expect(found?.['body']).toEqual({
    from: EMAIL.from,
    to: ['bob@receiver.test', 'bob@'],
    subject: '[11 characters]',
    text_body: '[11 characters]',
    html_body: '[20 characters]',
    template_data: { name: '[5 characters]', code: '[number]', is_new: true },
    attachments: [{ filename: 'a.txt', content: '[8 characters]' }],
    password: '[5 characters]',
    re_secret: '[number]',
    '[unknown field]': '[number]',
  })
  expect(found?.['error_message']).toContain('password is not a known field; re_secret is not a known field')
  const huge = await service.api('POST', '/v1/emails', { ...EMAIL, to: Array(1000).fill('bob@receiver.test'), x: 1 })
  const [cut] = await list(service, `?request_id=${at(huge.body, 'request_id')}`)
  expect(JSON.stringify(cut?.['body']).length).toBeLessThan(2200)
  expect(at(cut, 'body', 'to', 5)).toBe('[995 more]')
  const unnamed = await service.api('POST', '/v1/emails', ['horse', { to: 'bob@', text: 'horse' }])
  const [nameless] = await list(service, `?request_id=${at(unnamed.body, 'request_id')}`)
  expect(nameless?.['body']).toEqual(['[5 characters]', { to: 'bob@', text: '[5 characters]' }])
})

// Proves: logs-2
test('filters and cursors select', async () => {
  await using own = await createEmailApi()
  for (let at = 0; at < 5; at++) await own.send({ to: 'bob@' })
  await own.api('GET', '/v1/domains')
  await own.api('DELETE', '/v1/domains/none')
  const all = await brief(own)
  expect(all.slice(0, 2)).toEqual(['api 404 DELETE /v1/domains/none', 'api 200 GET /v1/domains'])
  expect(all).toHaveLength(7)
  expect(await brief(own, '?status=404')).toHaveLength(1)
  expect(await brief(own, '?status=4xx')).toHaveLength(6)
  expect(await brief(own, '?method=get')).toEqual(['api 200 GET /v1/domains'])
  expect(await brief(own, '?path=/v1/dom')).toHaveLength(2)
  expect(await brief(own, '?path=/V1/%25')).toEqual([])
  expect(await brief(own, '?q=DOMAIN_not')).toEqual(['api 404 DELETE /v1/domains/none'])
  expect(await brief(own, '?kind=smtp')).toEqual([])
  expect(await brief(own, `?actor_id=${own.actor.id}`)).toEqual([])
  expect(await brief(own, '?to_date=2026-03-14')).toEqual([])
  expect(await brief(own, '?from_date=2026-03-15&to_date=2026-03-15')).toHaveLength(7)
  const seen: string[] = []
  for (let cursor = ''; ; ) {
    const { body } = await own.api('GET', `/v1/logs?status=4xx&per_page=2${cursor}`)
    seen.push(...(at(body, 'data') as Json[]).map(({ id }) => String(id)))
    const { next_cursor } = at(body, 'pagination') as { next_cursor?: string }
    if (next_cursor === undefined) break
    cursor = `&cursor=${next_cursor}`
  }
  expect(new Set(seen).size).toBe(6)
  expectError(await own.api('GET', '/v1/logs?status=4x'), 422, 'validation_failed', 'status')
  expectError(await own.api('GET', '/v1/logs?kind=ftp'), 422, 'validation_failed', 'kind')
  expectError(await own.api('GET', '/v1/logs/0198f0c0'), 404, 'request_log_not_found')
})

// Proves: logs-4
describe('is logged for its account alone', () => {
  test('other accounts, keys without the scope and unknown keys', async () => {
    const other = await service.newAccount()
    const key = await service.newKey([], other)
    const [entry] = await list(service)
    expect(await list(service, '', { key })).toEqual([])
    expectError(await service.api('GET', `/v1/logs/${entry?.['id']}`, undefined, { key }), 404, 'request_log_not_found')
    const sender = await service.newKey(['emails:send'])
    expectError(await service.api('GET', '/v1/logs', undefined, { key: sender }), 403, 'insufficient_scope')
    const unknown = await service.send({}, { key: 'tassis_live_unknown' })
    expect(unknown.status).toBe(401)
    expect(await list(service, `?request_id=${at(unknown.body, 'request_id')}`)).toEqual([])
  })

  test('a key that was revoked, with its name, by every interface', async () => {
    const created = at((await service.api('POST', '/v1/api-keys', { name: 'old app' })).body, 'data') as Json
    const key = String(created['key'])
    await service.api('DELETE', `/v1/api-keys/${created['id']}`)
    expect((await service.send({}, { key })).status).toBe(401)
    const login = await (await service.connectSecure()).say(`AUTH PLAIN ${encodePlain('apikey', key)}`)
    expect(login).toStartWith('535')
    const found = await list(service, `?actor_id=${created['id']}`)
    expect(found.map(({ kind, status, method }) => `${kind} ${status} ${method}`)).toEqual([
      'smtp 535 AUTH',
      'api 401 POST',
    ])
    expect(found.map(({ actor_name }) => actor_name)).toEqual(['old app', 'old app'])
  })

  test('what people change in the dashboard, not what they read there', async () => {
    await createTestUser(service.app, service.actor, 'ada@team.test', 'admin')
    const session = await signIn(service, 'ada@team.test')
    await session.ask('GET', '/v1/domains')
    await session.ask('POST', '/v1/domains', { domain: 'x.test' })
    await session.ask('POST', '/v1/templates/render', { subject: 'Hello' })
    const [newest] = await list(service)
    expect(newest).toMatchObject({ method: 'POST', path: '/v1/domains', actor_type: 'user' })
    const reads = await list(service, '?path=/v1/domains&method=GET')
    expect(reads.filter(({ actor_type }) => actor_type === 'user')).toEqual([])
    service.app.db.run("UPDATE users SET uuid = randomblob(16) WHERE email = 'ada@team.test'")
    expect((await list(service, `?actor_id=${newest?.['actor_id']}`))[0]).toMatchObject({ actor_type: 'user' })
  })
})

// Proves: logs-5
test('SMTP, MCP and drop-in interfaces are named', async () => {
  const client = await service.connectLoggedIn()
  const sent = idOf(await sendMessage(client, createMessage()))
  const refused = await sendMessage(client, createMessage().replace(/From: .*/, 'From: ada@'))
  const [failed, submitted] = await list(service, '?kind=smtp')
  expect(submitted).toMatchObject({
    method: 'DATA',
    status: 250,
    path: null,
    email_id: sent,
    user_agent: 'client.test',
  })
  expect(failed).toMatchObject({ method: 'DATA', status: Number(refused.slice(0, 3)), request_id: null })
  expect(refused).toContain(String(failed?.['error_message']))
  await using model = await connect(service.url, service.key)
  const { body } = await model.call('send_email', { ...EMAIL, to: ['bob@receiver.test'] })
  await model.call('send_email', { ...EMAIL, to: ['bob@'] })
  const calls = await list(service, '?kind=mcp')
  expect(calls.map(({ status, path }) => `${status} ${path}`)).toEqual(['422 /v1/emails', '202 /v1/emails'])
  expect(calls[1]?.['email_id']).toBe(at(body, 'data', 'id'))
  await model.call('send_email', { ...EMAIL, to: Array(11).fill('bob@receiver.test') })
  const [invalid] = await list(service, '?kind=mcp')
  expect(invalid).toMatchObject({ status: 422, path: '/mcp', error_message: expect.stringContaining('at most 10') })
  await using reader = await connect(service.url, await service.newKey(['emails:read']))
  await expect(reader.call('send_email', { ...EMAIL, to: ['bob@receiver.test'] })).rejects.toThrow('emails:send')
  expect((await list(service, '?kind=mcp'))[0]).toMatchObject({ status: 403, error_code: 'insufficient_scope' })
  const resend = await service.api('POST', '/resend/emails', { ...EMAIL, text: 'Hello' })
  const postmark = await service.api(
    'POST',
    '/postmark/email',
    { From: EMAIL.from, To: EMAIL.to, Subject: 'Hi', TextBody: 'Hi' },
    { key: null, headers: { 'x-postmark-server-token': service.key } },
  )
  const [byPostmark] = await list(service, '?kind=postmark')
  expect(byPostmark).toMatchObject({ status: 200, path: '/postmark/email', email_id: at(postmark.body, 'MessageID') })
  expect((await list(service, '?kind=resend'))[0]).toMatchObject({ status: resend.status, path: '/resend/emails' })
})

// Proves: logs-6
test('the oldest requests make way for new ones, and old ones go', async () => {
  await using own = await createEmailApi({ settings: { TASSIS_REQUEST_LOG_ROWS: '3', TASSIS_REQUEST_LOG_DAYS: '7' } })
  for (let at = 0; at < 5; at++) await own.api('GET', `/v1/emails/${at}`)
  expect(await brief(own)).toEqual([4, 3, 2].map((at) => `api 404 GET /v1/emails/${at}`))
  expect(at((await own.api('GET', '/v1/logs?per_page=1')).body, 'pagination', 'total')).toBe(3)
  await runRetention(own.app)
  own.clock.advance(days(5))
  await own.api('GET', '/v1/domains')
  own.clock.advance(days(3))
  await runRetention(own.app)
  expect(await brief(own)).toEqual(['api 200 GET /v1/domains'])
  expect(own.app.db.query('SELECT rows, bytes FROM request_log_totals').get()).toEqual(
    own.app.db.query('SELECT count(*) AS rows, sum(size) AS bytes FROM request_logs').get(),
  )
})

// Proves: logs-6
test('a request that cannot be logged has its response nevertheless', async () => {
  await using own = await startSubmissionFixture()
  const client = await own.connectLoggedIn()
  getRequestLog(own.app).add = () => {
    throw new Error('broken')
  }
  expect((await own.send()).status).toBe(202)
  expect(await sendMessage(client, createMessage())).toStartWith('250')
})

// Proves: logs-6
test('a full disk drops entries and fails no request', async () => {
  let isFull = false
  await using own = await createEmailApi({
    disk: createTestDisk(
      () => false,
      () => !isFull,
    ),
  })
  await own.api('GET', '/v1/domains')
  isFull = true
  expect((await own.api('GET', '/v1/domains')).status).toBe(200)
  expect(await brief(own)).toHaveLength(0)
  isFull = false
  expect((await own.api('GET', '/v1/streams')).status).toBe(200)
  expect(await brief(own)).toEqual(['api 200 GET /v1/streams'])
})

// Proves: logs-6
test('one account cannot fill the memory, and leaves others their part of it', async () => {
  await using own = await createEmailApi()
  const other = await own.newAccount()
  const log = getRequestLog(own.app)
  const entry = {
    kind: 'api',
    method: 'GET',
    path: '/v1/emails',
    status: 404,
    durationMs: 1,
    ipAddress: undefined,
    userAgent: 'x'.repeat(300),
    requestId: null,
  } as const
  for (let at = 0; at < 10_000; at++) log.add({ ...entry, accountId: own.actor.accountId, actorId: own.actor.id })
  log.add({ ...entry, accountId: other.accountId, actorId: other.id })
  const total = at((await own.api('GET', '/v1/logs?per_page=1')).body, 'pagination', 'total') as number
  expect(total).toBeGreaterThan(1000)
  expect(total).toBeLessThan(10_000)
  expect(await list(own, '', { key: await own.newKey([], other) })).toHaveLength(1)
})

// Proves: logs-7
test('erasure replaces the address of a person', async () => {
  await using own = await createEmailApi()
  await own.send({ to: ['ada@victim.test', 'bob@'] })
  await own.api('GET', '/v1/suppressions/ada%40victim.test')
  await own.api('DELETE', '/v1/gdpr/erase?email=ada%40victim.test')
  const text = JSON.stringify(await list(own))
  expect(text).not.toContain('victim.test')
  expect(text).toContain('erased@erased.invalid')
})
