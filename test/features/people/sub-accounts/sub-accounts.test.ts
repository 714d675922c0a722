import { expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { verifyAuditLog } from '#features/core/audit-logs/verify.ts'
import { aggregateStats } from '#features/reporting/analytics/aggregate.ts'
import { parsePeriod } from '#features/reporting/analytics/period.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { EMAIL, expectError, NOW, UUID } from '#test/support/email-api.ts'
import {
  CAPTURE_OPTIONS,
  createTestUser,
  findToken,
  post,
  postForm,
  readMailText,
  PASSWORD as USER_PASSWORD,
} from '#test/support/users.ts'
import { createFamily, PASSWORD, subAccount } from './fixture.ts'

/** The entries of an account's audit log, newest first, with action and actor. */
const toLogLines = (body: unknown): string[] =>
  (at(body, 'data') as { action: string; actor_type: string; ip_address: string | null }[]).map(
    ({ action, actor_type, ip_address }) => `${action} ${actor_type} ${ip_address}`,
  )

// Proves: sub-1
test('a sub-account is created with the plan of its parent, and listed, read and counted', async () => {
  await using service = await createFamily()
  const answer = await service.ask(
    'POST',
    '/v1/accounts',
    subAccount({ name: ' Shop ', email: 'Ada@Shop.test', monthly_quota: 40 }),
  )
  const record = {
    id: expect.stringMatching(UUID),
    name: 'Shop',
    email: 'ada@shop.test',
    plan: 'pro',
    monthly_quota: 40,
    emails_sent_this_month: 0,
    parent_account_id: service.parent.accountUuid,
    is_active: true,
    created_at: new Date(NOW).toISOString(),
  }
  expect({ status: answer.status, body: answer.body }).toEqual({ status: 201, body: { data: record } })
  const id = String(at(answer.body, 'data', 'id'))
  expect((await service.ask('GET', `/v1/accounts/${id}`)).body).toEqual({ data: record })
  expect((await service.ask('GET', '/v1/accounts')).body).toEqual({
    data: [record],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
})

test('a sub-account without a quota of its own has that of its parent', async () => {
  await using service = await createFamily({ quota: 777 })
  expect(await service.made()).toMatchObject({ monthly_quota: 777 })
  expect(await service.made({ monthly_quota: null })).toMatchObject({ monthly_quota: 777 })
})

// Proves: sub-2
test('a key of a sub-account acts only in it, with at most the scopes of its creator', async () => {
  await using service = await createFamily()
  const { id } = await service.made({ name: 'Shop' })
  const narrow = await service.newKey(['sub_accounts:manage', 'emails:send'], service.parent)
  const made = await service.api('POST', `/v1/accounts/${id}/api-keys`, { name: 'app' }, { key: narrow })
  expect({ status: made.status, scopes: at(made.body, 'data', 'scopes') }).toEqual({
    status: 201,
    scopes: ['emails:send', 'sub_accounts:manage'],
  })
  const tooMuch = { name: 'app', scopes: ['account:read'] }
  expectError(
    await service.api('POST', `/v1/accounts/${id}/api-keys`, tooMuch, { key: narrow }),
    422,
    'invalid_scope',
    'scopes',
  )
  const all = await service.ask('POST', `/v1/accounts/${id}/api-keys`, { name: 'all' })
  const key = String(at(all.body, 'data', 'key'))
  expect((await service.api('GET', '/v1/account', undefined, { key })).body).toMatchObject({
    data: { id, name: 'Shop' },
  })
  expect(at((await service.ask('GET', '/v1/api-keys')).body, 'pagination', 'total')).toBe(2)
})

test('the owner of a sub-account signs in with its password, and finds only that account', async () => {
  await using service = await createFamily()
  const { id } = await service.made({ email: 'owner@own.test' })
  const login = await service.api(
    'POST',
    '/v1/auth/login',
    { email: 'owner@own.test', password: PASSWORD },
    { key: null },
  )
  expect({ status: login.status, account: at(login.body, 'data', 'account', 'id') }).toEqual({
    status: 200,
    account: id,
  })
  expect((at(login.body, 'data', 'accounts') as unknown[]).length).toBe(1)
})

// Proves: sub-4
test('a sub-account cannot have sub-accounts', async () => {
  await using service = await createFamily()
  const { key } = await service.sender('shop')
  expectError(await service.api('POST', '/v1/accounts', subAccount(), { key }), 403, 'sub_accounts_not_allowed')
  expect((await service.api('GET', '/v1/accounts', undefined, { key })).body).toMatchObject({ data: [] })
})

// Proves: sub-1
test('requests about another account, the sub-account itself, and an invalid id are a 404 everywhere', async () => {
  await using service = await createFamily()
  const { id, key } = await service.sender('shop')
  const other = await service.newKey([], await createTestAccount(service.app))
  for (const [path, by] of [
    [id, other],
    [id, key],
    [service.parent.accountUuid, service.parentKey],
    ['nothing', service.parentKey],
  ] as const) {
    const asked = await Promise.all([
      service.api('GET', `/v1/accounts/${path}`, undefined, { key: by }),
      service.api('PATCH', `/v1/accounts/${path}`, { is_active: false }, { key: by }),
      service.api('DELETE', `/v1/accounts/${path}`, undefined, { key: by }),
      service.api('GET', `/v1/accounts/${path}/analytics`, undefined, { key: by }),
      service.api('POST', `/v1/accounts/${path}/api-keys`, { name: 'x' }, { key: by }),
    ])
    for (const answer of asked) expectError(answer, 404, 'account_not_found')
  }
  expect((await service.ask('GET', `/v1/accounts/${id}`)).body).toMatchObject({ data: { is_active: true } })
})

// Proves: sub-1
test.each([
  ['a weak password', { password: 'short' }, 422, 'weak_password', 'password'],
  ['an invalid address', { email: 'nobody' }, 422, 'validation_failed', 'email'],
  ['a name of spaces', { name: '  ' }, 422, 'validation_failed', 'name'],
  ['a quota over that of the parent', { monthly_quota: 1001 }, 422, 'validation_failed', 'monthly_quota'],
  ['a negative quota', { monthly_quota: -1 }, 422, 'validation_failed', 'monthly_quota'],
  ['an unknown field', { plan: 'unlimited' }, 422, 'validation_failed', 'plan'],
])('rejected, and nothing is stored: %s', async (_, request, status, code, field) => {
  await using service = await createFamily()
  const before = service.stored()
  expectError(await service.ask('POST', '/v1/accounts', subAccount(request)), status, code, field)
  expect(service.stored()).toEqual(before)
})

// Proves: sub-1
test('the response is the same if the address belongs to a user, who keeps the password and is invited to own the account', async () => {
  await using service = await createFamily(CAPTURE_OPTIONS)
  const { app, url } = service
  const other = await createTestAccount(app)
  await createTestUser(app, other, 'bob@people.test', 'owner')
  const made = async (email: string) => {
    const { status, body } = await service.ask('POST', '/v1/accounts', { name: 'Shop', email, password: PASSWORD })
    return [status, { ...Object(at(body, 'data')), id: '', email: '' }, String(at(body, 'data', 'id'))] as const
  }
  const [fresh, known] = [await made('new@people.test'), await made('Bob@people.test')]
  expect(known.slice(0, 2)).toEqual(fresh.slice(0, 2))
  expect(known[0]).toBe(201)
  // The password that the parent set does not sign the user in.
  const login = { email: 'bob@people.test', password: PASSWORD }
  expectError(await post(url, '/v1/auth/login', login), 401, 'invalid_login')
  const token = findToken(await readMailText(service, 1))
  const joined = await postForm(url, '/join', { token, password: USER_PASSWORD })
  const cookie = joined.headers.get('set-cookie')?.split(';')[0] ?? ''
  const session = await service.api('GET', '/v1/auth/session', undefined, { key: null, headers: { cookie } })
  expect(at(session.body, 'data')).toMatchObject({ role: 'owner', account: { id: known[2] } })
})

test('the invitation of an owner is invalid once the key that created the sub-account is deleted', async () => {
  await using service = await createFamily(CAPTURE_OPTIONS)
  const { app, url } = service
  await createTestUser(app, await createTestAccount(app), 'bob@people.test', 'owner')
  await service.made({ email: 'bob@people.test' })
  const token = findToken(await readMailText(service, 1))
  app.db.run('DELETE FROM api_keys WHERE account_id = ?', [service.parent.accountId])
  expect((await postForm(url, '/join', { token, password: USER_PASSWORD })).status).toBe(422)
})

test('of 12 concurrent requests on a plan with capacity for 4 sub-accounts, exactly 4 succeed', async () => {
  await using service = await createFamily({ settings: { TASSIS_PLANS: 'pro.max_sub_accounts=4' } })
  const answers = await Promise.all(Array.from({ length: 12 }, () => service.ask('POST', '/v1/accounts', subAccount())))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(4).fill(201), ...Array(8).fill(403)])
  expect(at((await service.ask('GET', '/v1/accounts')).body, 'pagination', 'total')).toBe(4)
})

// Proves: sub-1
test('keys and sessions of a disabled sub-account get a 401 immediately; once it is enabled, the same keys work again', async () => {
  await using service = await createFamily()
  const { id, key } = await service.sender('shop', { email: 'owner@own.test' })
  const login = await service.api(
    'POST',
    '/v1/auth/login',
    { email: 'owner@own.test', password: PASSWORD },
    { key: null },
  )
  const cookie = String(login.headers.get('set-cookie')).split(';')[0] ?? ''
  const asUser = () => service.api('GET', '/v1/account', undefined, { key: null, headers: { cookie } })
  const asKey = () => service.api('GET', '/v1/account', undefined, { key })
  expect([(await asKey()).status, (await asUser()).status]).toEqual([200, 200])
  const off = await service.ask('PATCH', `/v1/accounts/${id}`, { is_active: false })
  expect({ status: off.status, isActive: at(off.body, 'data', 'is_active') }).toEqual({ status: 200, isActive: false })
  expect([(await asKey()).status, (await asUser()).status]).toEqual([401, 401])
  await service.ask('PATCH', `/v1/accounts/${id}`, { is_active: true })
  expect((await asKey()).status).toBe(200)
})

// Proves: sub-1
test('a change of name or quota changes nothing else, and an empty change is a 422', async () => {
  await using service = await createFamily()
  const made = await service.made({ monthly_quota: 10 })
  const path = `/v1/accounts/${made.id}`
  expect((await service.ask('PATCH', path, { name: ' New ' })).body).toEqual({ data: { ...made, name: 'New' } })
  expect((await service.ask('PATCH', path, { monthly_quota: 0 })).body).toEqual({
    data: { ...made, name: 'New', monthly_quota: 0 },
  })
  // A sub-account without its own quota has its parent's.
  expect((await service.ask('PATCH', path, { monthly_quota: null })).body).toEqual({
    data: { ...made, name: 'New', monthly_quota: 1000 },
  })
  expectError(await service.ask('PATCH', path, {}), 422, 'validation_failed', 'body')
  expectError(await service.ask('PATCH', path, { monthly_quota: 1001 }), 422, 'validation_failed', 'monthly_quota')
})

// Proves: sub-1
test('a deleted sub-account is a 404 and its keys are a 401 immediately; of two concurrent deletions one succeeds', async () => {
  await using service = await createFamily()
  const { id, key } = await service.sender('shop')
  const both = await Promise.all([1, 2].map(() => service.ask('DELETE', `/v1/accounts/${id}`)))
  expect(both.map(({ status }) => status).toSorted()).toEqual([202, 404])
  expect(both.find(({ status }) => status === 202)?.body).toEqual({
    data: { message: expect.stringContaining('deleted'), account_id: id },
  })
  expect((await service.api('GET', '/v1/account', undefined, { key })).status).toBe(401)
  expectError(await service.ask('GET', `/v1/accounts/${id}`), 404, 'account_not_found')
  expect((await service.ask('GET', '/v1/accounts')).body).toMatchObject({ data: [], pagination: { total: 0 } })
})

test('every change is in the audit logs of parent and sub-account, with actor and address, and without the password', async () => {
  await using service = await createFamily()
  const { id, key } = await service.sender('shop', { email: 'somebody@own.test', name: 'Somebody & Sons' })
  await service.ask('PATCH', `/v1/accounts/${id}`, { name: 'Somebody' })
  const own = await service.api('GET', '/v1/audit-logs', undefined, { key })
  expect(toLogLines(own.body)).toEqual([
    'account.updated api_key 127.0.0.1',
    'domain.created operator null',
    'api_key.created api_key 127.0.0.1',
    'member.added api_key 127.0.0.1',
    'user.created api_key 127.0.0.1',
    'account.created api_key 127.0.0.1',
  ])
  await service.ask('DELETE', `/v1/accounts/${id}`)
  const ofParent = await service.ask('GET', '/v1/audit-logs?resource_type=sub_account')
  expect(toLogLines(ofParent.body)).toEqual([
    'sub_account.deleted api_key 127.0.0.1',
    'sub_account.updated api_key 127.0.0.1',
    'sub_account.api_key_created api_key 127.0.0.1',
    'sub_account.created api_key 127.0.0.1',
  ])
  expect(JSON.stringify([own.body, ofParent.body])).not.toContain(PASSWORD)
  // The parent's log outlives the sub-account, so it must contain none of the sub-account's data.
  expect(JSON.stringify((await service.ask('GET', '/v1/audit-logs')).body)).not.toMatch(/somebody/i)
  expect(verifyAuditLog(service.app.db).broken).toEqual([])
})

test('a sub-account cannot send more than its own quota', async () => {
  await using service = await createFamily()
  const shop = await service.sender('shop', { monthly_quota: 2 })
  expect((await shop.send()).status).toBe(202)
  expectError(await shop.send({ to: ['a@receiver.test', 'b@receiver.test'] }), 429, 'quota_exceeded')
  expect((await shop.send()).status).toBe(202)
  expectError(await shop.send(), 429, 'quota_exceeded')
  expect((await service.ask('GET', `/v1/accounts/${shop.id}`)).body).toMatchObject({
    data: { emails_sent_this_month: 2 },
  })
  expect((await service.sendAsParent()).status).toBe(202)
})

// Proves: sub-3
test("of 120 concurrent sends by a parent and two sub-accounts, exactly the parent's quota is accepted", async () => {
  await using service = await createFamily({ quota: 50 })
  const [one, two] = [await service.sender('one'), await service.sender('two', { monthly_quota: 5 })]
  const send = [() => one.send(), () => two.send(), () => service.sendAsParent()]
  const answers = await Promise.all(Array.from({ length: 120 }, (_, n) => send[n % 3]?.()))
  const statuses = answers.map((answer) => answer?.status)
  expect(statuses.filter((status) => status === 202).length).toBe(50)
  expect(statuses.filter((status) => status === 429).length).toBe(70)
  expect(service.used(service.parent) + service.used(one.actor) + service.used(two.actor)).toBe(50)
  expect(service.used(two.actor)).toBe(5)
})

// Proves: sub-3
test('quota returned by a sub-account is free for the others, quota used by a deleted one stays used, and a new month starts at zero', async () => {
  await using service = await createFamily({ quota: 3 })
  const [one, two] = [await service.sender('one'), await service.sender('two')]
  const later = { send_at: new Date(NOW + 3_600_000).toISOString() }
  const scheduled = await one.send({ ...later, to: ['a@receiver.test', 'b@receiver.test'] })
  expect((await two.send()).status).toBe(202)
  expectError(await service.sendAsParent(), 429, 'quota_exceeded')
  const cancelled = await service.api(
    'POST',
    `/v1/emails/${String(at(scheduled.body, 'data', 'id'))}/cancel`,
    {},
    { key: one.key },
  )
  expect(cancelled.status).toBe(200)
  await service.ask('DELETE', `/v1/accounts/${two.id}`)
  expect((await service.sendAsParent()).status).toBe(202)
  expect((await one.send()).status).toBe(202)
  expectError(await one.send(), 429, 'quota_exceeded')
  service.clock.advance(20 * 86_400_000)
  expect((await one.send()).status).toBe(202)
})

// Proves: analytics-5, sub-2
test('stats show one sub-account, or all together with a row for each', async () => {
  await using service = await createFamily()
  const [one, two] = [await service.sender('one'), await service.sender('two')]
  await Promise.all([
    one.send(),
    one.send(),
    one.send(),
    two.send({ to: ['a@x.test', 'b@y.test'] }),
    service.sendAsParent(),
  ])
  const own = await service.ask('GET', `/v1/accounts/${one.id}/analytics?period=7d`)
  expect(own.body).toMatchObject({ data: { sent: 3 }, period: { from: '2026-03-09', to: '2026-03-15', period: '7d' } })
  const overview = await service.api('GET', '/v1/analytics/overview?period=7d', undefined, { key: one.key })
  expect(own.body).toEqual(overview.body)
  const all = await service.ask('GET', '/v1/analytics/aggregate?period=7d')
  expect(all.body).toMatchObject({
    data: {
      sent: 6,
      total_sent: 6,
      total_accounts: 3,
      accounts: [
        { account_id: one.id, name: 'one', parent_account_id: service.parent.accountUuid, sent: 3 },
        { account_id: two.id, name: 'two', parent_account_id: service.parent.accountUuid, sent: 2 },
        { account_id: service.parent.accountUuid, name: 'Test', parent_account_id: null, sent: 1 },
      ],
    },
    period: { from: '2026-03-09', to: '2026-03-15', period: '7d' },
  })
  expect((await service.ask('GET', '/v1/analytics/aggregate?from=2026-03-01')).status).toBe(400)
})

test('an account may run a few aggregates at a time; the next is a 429', async () => {
  await using service = await createFamily()
  await service.made()
  const period = parsePeriod({ period: '7d' }, NOW)
  const ask = (actor: Actor) => aggregateStats(service.app, actor, period)
  const results = await Promise.allSettled([
    ...Array.from({ length: 9 }, () => ask(service.parent)),
    ask(service.actor),
  ])
  expect(results.filter(({ status }) => status === 'fulfilled').length).toBe(9)
  expect(results[8]).toMatchObject({ reason: { status: 429, code: 'too_many_requests' } })
})

test('mail of a sub-account is invisible to its parent', async () => {
  await using service = await createFamily()
  const shop = await service.sender('shop')
  const id = String(at((await shop.send(EMAIL_OF_SHOP)).body, 'data', 'id'))
  expect((await service.ask('GET', `/v1/emails/${id}`)).status).toBe(404)
  expect(at((await service.ask('GET', '/v1/emails')).body, 'pagination', 'total')).toBe(0)
})

const EMAIL_OF_SHOP = { ...EMAIL, from: 'ada@shop.test' }
