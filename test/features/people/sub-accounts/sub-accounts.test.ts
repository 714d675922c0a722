import { expect, test } from 'bun:test'
import { setSubscription } from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import { listOpenDeletions, startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { changeSubAccount } from '#features/people/sub-accounts/sub-accounts.ts'
import { hashPassword } from '#features/people/team/passwords.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { parsePeriod } from '#features/reporting/analytics/period.ts'
import { aggregateStats } from '#features/reporting/analytics/routes.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/verdict/held-mail.ts'
import { hours, seconds } from '#platform/units.ts'
import { createFamily, type Family, PASSWORD, subAccount } from '#test/features/people/sub-accounts/fixture.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { addContacts, createContacts, newList } from '#test/support/broadcasts.ts'
import { EMAIL, expectError, NOW, UUID } from '#test/support/email-api.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startSink } from '#test/support/sink.ts'
import {
  CAPTURE_OPTIONS,
  createTestUser,
  findToken,
  post,
  postForm,
  readMailText,
  PASSWORD as USER_PASSWORD,
} from '#test/support/users.ts'

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
test('what a sub-account cannot have is rejected, and nothing is stored', async () => {
  await using service = await createFamily()
  const before = service.stored()
  for (const [request, code, field] of [
    [{ password: 'short' }, 'weak_password', 'password'],
    [{ email: 'nobody' }, 'validation_failed', 'email'],
    [{ name: '  ' }, 'validation_failed', 'name'],
    [{ monthly_quota: 1001 }, 'validation_failed', 'monthly_quota'],
    [{ monthly_quota: -1 }, 'validation_failed', 'monthly_quota'],
    [{ plan: 'unlimited' }, 'validation_failed', 'plan'],
  ] as const)
    expectError(await service.ask('POST', '/v1/accounts', subAccount(request)), 422, code, field)
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
  const period = parsePeriod(service.app, service.parent.accountId, { period: '7d' })
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

const LATER = new Date(NOW + 3_600_000).toISOString()

/** Runs all deletions, moving the clock forward only when nothing can be done. */
async function deletionsEnd({ app, clock }: Family): Promise<void> {
  const removal = startAccountRemoval(app)
  await eventually(() => {
    const due = Math.min(...listOpenDeletions(app.db).map(({ dueAt }) => dueAt))
    if (Number.isFinite(due) && due > clock.now()) clock.advance(due - clock.now())
    removal.wake()
    return !Number.isFinite(due)
  })
  await removal.stop()
}

test("a send over the parent's quota stores nothing, for a sub-account and for the parent", async () => {
  await using service = await createFamily({ quota: 3 })
  const [one, other] = [await service.sender('one'), await service.sender('other')]
  expect((await one.send({ to: ['a@r.test', 'b@r.test', 'c@r.test'] })).status).toBe(202)
  const before = service.stored()
  expectError(await other.send({ text_body: 'never stored' }), 429, 'quota_exceeded')
  expectError(await service.sendAsParent({ text_body: 'not this either' }), 429, 'quota_exceeded')
  expect(service.stored()).toEqual(before)
})

test("quota of a deleted sub-account's unsent mail, scheduled or in waiting broadcasts, is returned to the parent", async () => {
  await using service = await createFamily({ quota: 30 })
  const shop = await service.sender('shop')
  expect((await shop.send({ to: ['a@r.test', 'b@r.test'] })).status).toBe(202)
  expect((await shop.send({ to: ['a@r.test', 'b@r.test', 'c@r.test'], send_at: LATER })).status).toBe(202)
  const list = await newList(service, 'readers', shop.key)
  await addContacts(service.app, list, createContacts(20))
  const broadcast = {
    contact_list_id: list,
    from_address: 'ada@shop.test',
    subject: 'S',
    text_body: 'T',
    send_at: LATER,
  }
  expect((await service.api('POST', '/v1/emails/broadcast', broadcast, { key: shop.key })).status).toBe(202)
  expect((await service.ask('DELETE', `/v1/accounts/${shop.id}`)).status).toBe(202)
  await deletionsEnd(service)
  // The two recipients of the first email count too: it waited for its first attempt and was not sent.
  const answers = await Promise.all(Array.from({ length: 32 }, () => service.sendAsParent()))
  expect(answers.filter(({ status }) => status === 202).length).toBe(30)
})

test('a sub-account does not outlive its parent if the parent is deleted while the sub-account is created', async () => {
  await using service = await createFamily()
  // The hash of the sub-account's password waits until these are computed.
  const before = Array.from({ length: 8 }, () => hashPassword(PASSWORD, 'somebody'))
  const making = service.ask('POST', '/v1/accounts', subAccount())
  const headers = { authorization: `Bearer ${service.parentKey}`, 'x-confirm-delete': 'DELETE' }
  const deletion = await fetch(`${service.url}/v1/account`, { method: 'DELETE', headers })
  expect(deletion.status).toBe(202)
  await making
  await Promise.all(before)
  expect(
    service.app.db.query('SELECT id FROM accounts WHERE parent_id IS NOT NULL AND deleted_at IS NULL').all(),
  ).toEqual([])
})

test('the quota shown to a sub-account never exceeds that of its parent', async () => {
  await using service = await createFamily({ quota: 500, settings: { TASSIS_PLANS: 'free.monthly_quota=20' } })
  const [none, own] = [await service.sender('none'), await service.sender('own', { monthly_quota: 400 })]
  const told = async () =>
    Promise.all(
      [none, own].map(async ({ key }) =>
        at((await service.api('GET', '/v1/account', undefined, { key })).body, 'data', 'monthly_quota'),
      ),
    )
  expect(await told()).toEqual([500, 400])
  // The parent has bought its plan and not paid yet.
  service.app.db.run('UPDATE accounts SET quota_held = 1 WHERE id = ?', [service.parent.accountId])
  expect(await told()).toEqual([20, 20])
  service.app.db.run('UPDATE accounts SET quota_held = 0, monthly_quota = 900 WHERE id = ?', [service.parent.accountId])
  expect(await told()).toEqual([900, 400])
})

const ZONE = {
  'many.test': { MX: [{ preference: 10, exchange: 'mx.many.test' }] },
  'mx.many.test': { A: ['127.0.0.1'] },
}

const lastError = (app: App): string | null | undefined =>
  app.db.query<{ error: string | null }, []>('SELECT last_error AS error FROM recipients').get()?.error

test('mail of a disabled sub-account is held, and sent when it is enabled', async () => {
  const clock = new ManualClock(NOW)
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const parent = await createTestAccount(app)
  app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, actor.accountId])
  const releaser = startHeldMailReleaser(app)
  await flow.send({ to: 'bob@many.test', send_at: new Date(clock.now() + hours(1)).toISOString() })
  await changeSubAccount(app, parent, actor.accountUuid, { is_active: false })
  clock.advance(hours(1))
  await eventually(() => lastError(app))
  expect({ lastError: lastError(app), received: sink.messages.length }).toEqual({
    lastError: 'Held: The account is disabled.',
    received: 0,
  })
  await changeSubAccount(app, parent, actor.accountUuid, { is_active: true })
  await eventually(() => sink.messages.length === 1)
  await releaser.stop()
})

test('the plan of a sub-account follows that of its parent; its own quota stays', async () => {
  await using service = await createFamily({ quota: 500 })
  const [own, none] = [await service.made({ monthly_quota: 10 }), await service.made()]
  await service.app.commit.write((tx) =>
    setSubscription(
      tx,
      service.parent.accountId,
      {
        plan: 'starter',
        quotaHeld: false,
        subscriptionId: 's',
        status: 'active',
        billingEmail: null,
        trialEndsAt: null,
      },
      NOW,
    ),
  )
  expect(at((await service.ask('GET', '/v1/accounts')).body, 'data')).toMatchObject([
    { id: none.id, plan: 'starter', monthly_quota: 10_000 },
    { id: own.id, plan: 'starter', monthly_quota: 10 },
  ])
})

test('creating many sub-accounts in an hour pauses the account that created them', async () => {
  await using service = await createFamily({
    settings: { TASSIS_PLANS: 'pro.max_sub_accounts=20' },
  })
  const watch = startAbuseWatch(service.app)
  for (let n = 0; n < 20; n++) await service.ask('POST', '/v1/accounts', subAccount())
  const refused = await eventually(async () => {
    service.clock.advance(seconds(5))
    const answer = await service.sendAsParent()
    return answer.status === 403 && answer
  })
  expect(at(refused.body, 'code')).toBe('account_paused')
  await watch.stop()
})
