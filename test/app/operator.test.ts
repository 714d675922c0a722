import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { createRoutes } from '#app/http.ts'
import { loadConfig } from '#app/settings.ts'
import { findAccount } from '#features/core/accounts/accounts.ts'
import { verifyAuditLog } from '#features/core/audit-logs/chain.ts'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { disableUserTotp, setUserOperator } from '#features/people/team/operator-routes.ts'
import { listOperatorMail, storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { addFinding } from '#features/reporting/abuse/pause.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { createMessage, sendMessage, startSubmissionFixture } from '#test/features/drop-in/submission/fixture.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { EMAIL } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createCode, setUpTotp, signInAsOperator } from '#test/support/operator.ts'
import { type BrowserSession, createTestUser, type HttpResponse, signIn } from '#test/support/users.ts'

// Some tests measure the disk in a Worker.
setDefaultTimeout(300_000)

let service: TestApi
let operator: BrowserSession & { readonly totpSecret: string }
const clock = new ManualClock(Date.UTC(2026, 10, 23, 9))
beforeAll(async () => {
  service = await createTestApi({
    clock,
    receives: true,
    settings: { TASSIS_OUTBOUND_IPS: '127.0.0.2, 127.0.0.3@news' },
  })
  operator = await signInAsOperator(service)
  await service.api('POST', '/v1/domains', { domain: 'sender.test' })
  service.app.db.run("UPDATE domains SET verified_at = 1 WHERE domain = 'sender.test'")
})
afterAll(() => service[Symbol.asyncDispose]())

const ID = '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24'
const BODIES: Readonly<Record<string, unknown>> = {
  '/v1/operator/accounts/:id/pause': { reason: 'Spam.' },
  '/v1/operator/accounts/:id/pool': { pool: null },
  '/v1/operator/queue/hold': { domain: 'one.test' },
  '/v1/operator/queue/redirect': { domain: 'one.test', to: 'two.test' },
  '/v1/operator/queue/release': { domain: 'one.test' },
  '/v1/operator/queue/retry': { domain: 'one.test' },
  '/v1/operator/queue/bounce': { domain: 'one.test', reason: 'A mistake.' },
  '/v1/operator/queue/drop': { domain: 'one.test' },
  '/v1/operator/fence/release': {},
  '/v1/operator/fence/drop': {},
}
/** The query that a path requires. */
const QUERIES: Readonly<Record<string, string>> = {
  '/v1/operator/queue/recipients': '?lane=1:example.com',
  '/v1/operator/queue/selection': '?domain=one.test',
}

/** Every route of the operator, with a path that can be requested and a valid body. */
const listRoutes = () =>
  createRoutes(service.opened)
    .flatMap((plugin) => plugin.routes)
    .filter(({ path }) => path.startsWith('/v1/operator/'))
    .map(({ method, path }) => ({
      method,
      path: `${path.replace(':id', ID)}${QUERIES[path] ?? ''}`,
      body: BODIES[path],
    }))

/** Newest first: action, resource and who. */
const listEntries = (action?: string) =>
  listNewestAuditEntries(service.app.db, undefined, { action }, 1000).map((entry) => ({
    action: entry.action,
    type: entry.resourceType,
    id: entry.resourceId,
    by: entry.actorType,
    account: entry.accountId,
    ip: entry.ipAddress,
  }))

async function send(to: string | string[], send_at?: string): Promise<string> {
  const email = { ...EMAIL, from: 'a@sender.test', to, ...(send_at !== undefined && { send_at }) }
  const { status, body } = await service.api('POST', '/v1/emails', email)
  expect(status).toBe(202)
  return String(at(body, 'data', 'id'))
}

/** The codes with which every route refuses a session; a route that does not is named. */
async function findRefusals(session: BrowserSession): Promise<string[]> {
  const found = new Set<string>()
  for (const { method, path, body } of listRoutes()) {
    const answer = await session.ask(method, path, body)
    found.add(answer.status === 403 ? String(at(answer.body, 'code')) : `${method} ${path}: ${answer.status}`)
  }
  return [...found]
}

// Proves: operator-1
test('every route refuses all but operators with a second factor in their session, and records nothing', async () => {
  const { app, actor, key, api, url } = service
  expect(listRoutes().length).toBeGreaterThanOrEqual(20)
  for (const role of ['viewer', 'owner'] as const) await createTestUser(app, actor, `${role}@people.test`, role)
  const before = listEntries().length
  const viewsBefore = listEntries('operator.viewed')
  for (const { method, path, body } of listRoutes()) {
    const byKey = await api(method, path, body, { key })
    expect([path, byKey.status, at(byKey.body, 'code')]).toEqual([path, 403, 'session_required'])
    const byNobody = await api(method, path, body, { key: null })
    expect([path, byNobody.status]).toEqual([path, 401])
  }
  expect(listEntries().length).toBe(before)
  for (const role of ['viewer', 'owner'] as const) {
    const session = await signIn({ url }, `${role}@people.test`)
    expect(await findRefusals(session)).toEqual(['operator_required'])
  }
  expect(listEntries('operator.viewed')).toEqual(viewsBefore)
})

// Proves: operator-1
test('an operator without an authenticator app is told to set one up; other sessions must sign in again', async () => {
  const { app, actor } = service
  const email = 'otto@people.test'
  await createTestUser(app, actor, email, 'viewer')
  await setUserOperator(app, email, true)
  const [first, second] = [await signIn(service, email), await signIn(service, email)]
  expect(await findRefusals(first)).toEqual(['authenticator_required'])
  const secret = await setUpTotp(service, first)
  expect((await first.ask('GET', '/v1/operator/health')).status).toBe(200)
  expect(await findRefusals(second)).toEqual(['second_factor_required'])
  clock.advance(minutes(1))
  const third = await signIn(service, email, { code: createCode(secret, clock.now()) })
  expect((await third.ask('GET', '/v1/operator/health')).status).toBe(200)
  expect(at((await third.ask('GET', '/v1/auth/session')).body, 'data', 'user', 'is_operator')).toBe(true)

  // Another app needs another code.
  await disableUserTotp(app, email)
  expect(await findRefusals(third)).toEqual(['authenticator_required'])
  clock.advance(minutes(1))
  await setUpTotp(service, second)
  expect(await findRefusals(third)).toEqual(['second_factor_required'])

  await setUserOperator(app, email, false)
  expect(await findRefusals(second)).toEqual(['operator_required'])
  expect(at((await second.ask('GET', '/v1/auth/session')).body, 'data', 'user', 'is_operator')).toBe(false)
  expect(listEntries('user.operator_removed')).toMatchObject([{ type: 'user', by: 'operator', account: null }])
})

// Proves: operator-2
test('each view is audited once in 15 minutes for a session, without an account, with who and from where', async () => {
  clock.advance(minutes(15))
  const countViews = (type: string) => listEntries('operator.viewed').filter((entry) => entry.type === type).length
  const before = countViews('queue')
  for (let i = 0; i < 5; i++) await operator.ask('GET', '/v1/operator/queue')
  expect(countViews('queue') - before).toBe(1)
  expect(listEntries()[0]).toEqual({
    action: 'operator.viewed',
    type: 'queue',
    id: null,
    by: 'user',
    account: null,
    ip: '127.0.0.1',
  })
  clock.advance(minutes(16))
  await operator.ask('GET', '/v1/operator/queue')
  expect(countViews('queue') - before).toBe(2)
  const account = `/v1/operator/accounts/${service.actor.accountUuid}`
  await operator.ask('GET', account)
  expect(listEntries()[0]).toMatchObject({ type: 'account', id: service.actor.accountUuid })
  expect(verifyAuditLog(service.app.db, undefined).brokenCount).toBe(0)
})

// Proves: operator-2, operator-3
test('an account is found, paused with a reason and resumed; both logs have it, and only one names the operator', async () => {
  const { app } = service
  const find = async (query: string) => {
    const { body } = await operator.ask('GET', `/v1/operator/accounts?${query}`)
    return (at(body, 'data') as { id: string }[]).map(({ id }) => id)
  }
  const ofOwners = await find('q=OWNER@tassis')
  const account = await service.newAccount()
  const path = `/v1/operator/accounts/${account.accountUuid}`
  expect(await find(`q=${account.accountUuid}`)).toEqual([account.accountUuid])
  expect(new Set(await find('q=OWNER@tassis'))).toEqual(new Set([...ofOwners, account.accountUuid]))
  expect(await find('q=%25')).toEqual([])
  expect(await find('state=paused')).toEqual([])
  for (const reason of ['', '   ', 'x'.repeat(301)])
    expect((await operator.ask('POST', `${path}/pause`, { reason })).status).toBe(422)
  const paused = await operator.ask('POST', `${path}/pause`, { reason: ' Phishing\n<script> was found. ' })
  expect(paused.status).toBe(200)
  expect(at(paused.body, 'data', 'stopped')).toBe('The account is paused: Phishing <script> was found.')
  expect(await find('state=paused')).toEqual([account.accountUuid])
  expect((await operator.ask('POST', `${path}/pause`, { reason: 'Again.' })).status).toBe(409)
  const [service0, tenant] = listEntries().filter(
    ({ action }) => action.endsWith('account_paused') || action === 'account.paused',
  )
  expect(service0).toMatchObject({
    action: 'operator.account_paused',
    by: 'user',
    account: null,
    id: account.accountUuid,
  })
  expect(tenant).toMatchObject({ action: 'account.paused', by: 'operator', account: account.accountId, ip: null })
  const { body } = await operator.ask('GET', `/v1/operator/findings?account_id=${account.accountUuid}`)
  expect(at(body, 'data', 0)).toMatchObject({ source: 'admin', paused: true, account_id: account.accountUuid })
  const resumed = await operator.ask('POST', `${path}/resume`)
  expect(at(resumed.body, 'data')).toMatchObject({ released: 0, still_stopped: null })
  expect((await operator.ask('POST', `${path}/resume`)).status).toBe(409)
  expect(findAccount(app.config, app.db, account.accountId)?.pausedAt).toBeNull()
  expect((await operator.ask('GET', `/v1/operator/accounts/${ID}`)).status).toBe(404)
  expect((await operator.ask('POST', '/v1/operator/accounts/x/resume')).status).toBe(404)
})

// Proves: operator-14
test('an operator chooses the pool of outgoing addresses of an account and of a stream, which the log says', async () => {
  const account = await service.newAccount()
  const path = `/v1/operator/accounts/${account.accountUuid}`
  const set = (body: unknown) => operator.ask('PUT', `${path}/pool`, body)
  expect(at((await set({ pool: 'news' })).body, 'data')).toEqual({ pool: 'news', stream_pools: [] })
  const ofStream = await set({ pool: 'news', stream: 'transactional' })
  const pools = { pool: 'news', stream_pools: [{ stream: 'transactional', pool: 'news' }] }
  expect([ofStream.status, at(ofStream.body, 'data')]).toEqual([200, pools])
  expect(at((await operator.ask('GET', path)).body, 'data')).toMatchObject(pools)
  expect(listEntries('operator.account_pool_set').slice(0, 2)).toEqual(
    Array(2).fill({
      action: 'operator.account_pool_set',
      type: 'account',
      id: account.accountUuid,
      by: 'user',
      account: null,
      ip: '127.0.0.1',
    }),
  )
  expect(at((await set({ pool: null, stream: 'transactional' })).body, 'data', 'stream_pools')).toEqual([])
  const before = listEntries('operator.account_pool_set').length
  const unknownPool = await set({ pool: 'typo' })
  expect([unknownPool.status, String(at(unknownPool.body, 'message'))]).toEqual([
    422,
    expect.stringContaining('No address of TASSIS_OUTBOUND_IPS is in the pool "typo"; there are news.'),
  ])
  expect((await set({ pool: 'news', stream: 'typo' })).status).toBe(404)
  expect((await set({})).status).toBe(422)
  expect((await set({ pool: 'news', streams: 'typo' })).status).toBe(422)
  expect((await operator.ask('PUT', `/v1/operator/accounts/${ID}/pool`, { pool: null })).status).toBe(404)
  expect(listEntries('operator.account_pool_set').length).toBe(before)
})

// Proves: operator-4
test('the queue has what waits, its account and its reason, and the recipients of a lane', async () => {
  const at10 = new Date(clock.now() + minutes(60)).toISOString()
  const countLanes = async () => at((await operator.ask('GET', '/v1/operator/queue')).body, 'pagination', 'total')
  const before = Number(await countLanes())
  await send(['x@eleven.test', 'y@eleven.test', 'z@twelve.test'], at10)
  clock.advance(minutes(1))
  expect(await countLanes()).toBe(before + 2)
  const filtered = await operator.ask(
    'GET',
    `/v1/operator/queue?domain=ELEVEN.test&account_id=${service.actor.accountUuid}`,
  )
  expect(at(filtered.body, 'data')).toEqual([
    {
      lane: `${service.actor.accountId}:eleven.test`,
      account_id: service.actor.accountUuid,
      account: 'Test',
      domain: 'eleven.test',
      label: 'eleven.test (Test)',
      is_broadcast: false,
      waiting: 2,
      first_due_at: at10,
      reason: 'scheduled',
    },
  ])
  expect(at((await operator.ask('GET', `/v1/operator/queue?account_id=${ID}`)).body, 'data')).toEqual([])
  const lane = await operator.ask('GET', `/v1/operator/queue/recipients?lane=${service.actor.accountId}:eleven.test`)
  expect((at(lane.body, 'data') as { recipient: string }[]).map(({ recipient }) => recipient).sort()).toEqual([
    'x@eleven.test',
    'y@eleven.test',
  ])
  expect(listEntries('operator.viewed')[0]).toMatchObject({
    type: 'queue_lane',
    id: `${service.actor.accountId}:eleven.test`,
  })
  expect((await operator.ask('GET', '/v1/operator/queue/recipients')).status).toBe(422)
  expect((await operator.ask('GET', '/v1/operator/queue?lanes=1')).status).toBe(422)
})

const changeQueue = async (verb: string, body: unknown) => {
  const { status, body: answer } = await operator.ask('POST', `/v1/operator/queue/${verb}`, body)
  const { data, code } = answer as { data?: unknown; code?: unknown }
  return { status, data, code }
}

const newestEntry = () => {
  const [entry] = listNewestAuditEntries(service.app.db, undefined, {}, 1)
  return [entry?.action, entry?.actorType, entry?.accountId, JSON.parse(entry?.metadata ?? 'null')]
}

// Proves: operator-13
test('an operator counts, holds, releases, redirects, retries, bounces and drops mail; each action is audited', async () => {
  const domain = 'ten.test'
  await send(['x@ten.test', 'y@ten.test'])
  const id = await send('z@ten.test')
  const selection = { waiting: 3, in_delivery: 0 }
  const counted = await operator.ask('GET', `/v1/operator/queue/selection?domain=${domain}`)
  expect(at(counted.body, 'data')).toEqual(selection)

  expect(await changeQueue('hold', { domain, reason: 'They asked' })).toMatchObject({ status: 200, data: selection })
  expect(newestEntry()).toEqual(['queue.held', 'user', null, { domain, reason: 'They asked' }])
  expect(await changeQueue('redirect', { account_id: service.actor.accountUuid, to: '[192.0.2.7]:26' })).toMatchObject({
    status: 200,
  })
  expect(newestEntry()).toEqual([
    'queue.redirected',
    'user',
    null,
    { account_id: service.actor.accountUuid, to: '[192.0.2.7]:26', reason: '' },
  ])
  const rules = at((await operator.ask('GET', '/v1/operator/queue/rules')).body, 'data')
  expect(rules).toMatchObject([
    { kind: 'hold', domain, account_id: null, email_id: null, to: null, reason: 'They asked' },
    { kind: 'redirect', domain: null, account: 'Test', to: '[192.0.2.7]:26' },
  ])
  service.app.db.run('UPDATE recipients SET next_at = ?', [clock.now() + minutes(60)])
  expect(await changeQueue('retry', { domain })).toMatchObject({ data: { changed: 0, held: 3, next_cursor: null } })
  expect((await changeQueue('release', { domain, kind: 'redirect' })).data).toEqual([])
  expect((await changeQueue('release', { domain })).data).toMatchObject([{ kind: 'hold', domain }])
  expect(newestEntry()).toEqual(['queue.released', 'user', null, { domain, rules: 1 }])
  expect((await changeQueue('release', { account_id: service.actor.accountUuid })).data).toHaveLength(1)
  expect(await changeQueue('retry', { domain })).toMatchObject({ data: { changed: 3, held: 0 } })
  expect(newestEntry()).toEqual(['queue.retried', 'user', null, { domain }])

  expect((await changeQueue('hold', { provider: 'gmail' })).data).toEqual({ waiting: 0, in_delivery: 0 })
  expect((await changeQueue('release', { provider: 'gmail' })).data).toMatchObject([
    { provider: 'gmail', domain: null },
  ])
  const change = { changed: 1, in_delivery: 0, held: 0, suspended: [], next_cursor: null }
  expect(await changeQueue('drop', { email_id: id })).toMatchObject({ status: 200, data: change })
  expect(newestEntry()).toMatchObject(['queue.dropped', 'user', null, { email_id: id }])
  expect(await changeQueue('bounce', { domain, reason: 'A mistake' })).toMatchObject({
    data: { ...change, changed: 2 },
  })
  expect(newestEntry()).toEqual(['queue.bounced', 'user', null, { domain, reason: 'A mistake' }])
  expect(await changeQueue('bounce', { domain, reason: 'A mistake' })).toMatchObject({ data: { changed: 0 } })
  expect(at((await service.api('GET', `/v1/emails/${id}`)).body, 'data', 'status')).toBe('cancelled')
})

test('the queue has pages by cursor, each lane once, the earliest first', async () => {
  for (let i = 0; i < 7; i++) await send(`ann@page${i}.test`)
  for (let i = 0; i < 7; i++)
    service.app.db.run('UPDATE recipients SET next_at = ? WHERE address = ?', [1000 + (i % 3), `ann@page${i}.test`])
  // The lanes are read again after some time.
  clock.advance(minutes(1))
  const domains: unknown[] = []
  let query = 'per_page=2'
  for (let page = 1; query !== ''; page++) {
    const { status, body } = await operator.ask(
      'GET',
      `/v1/operator/queue?account_id=${service.actor.accountUuid}&${query}`,
    )
    expect(status).toBe(200)
    domains.push(...(at(body, 'data') as { domain: string }[]).map(({ domain }) => domain))
    const { next_cursor: next } = at(body, 'pagination') as { next_cursor?: string }
    query = next !== undefined && page < 20 ? `per_page=2&cursor=${next}` : ''
  }
  const paged = domains.filter((domain) => String(domain).startsWith('page'))
  expect(paged).toEqual([0, 3, 6, 1, 4, 2, 5].map((i) => `page${i}.test`))
  expect(new Set(domains).size).toBe(domains.length)
})

// Proves: operator-5
test('health names the version, the disk and what waits; without delivery it says so', async () => {
  const { body } = await operator.ask('GET', '/v1/operator/health')
  expect(at(body, 'data')).toMatchObject({
    hostname: 'mail.tassis.test',
    is_delivering: false,
    problems: [],
    received: 0,
    queue: { lanes: expect.any(Number), in_flight: 0 },
    accounts: { paused: 0 },
  })
})

test('health counts the messages and logins of submission; without it there is none', async () => {
  expect(at((await operator.ask('GET', '/v1/operator/health')).body, 'data', 'submission')).toBeNull()
  await using submitting = await startSubmissionFixture()
  const { ask } = await signInAsOperator(submitting)
  await using client = await submitting.connectLoggedIn()
  await sendMessage(client, createMessage())
  await sendMessage(client, createMessage(['X-Tassis-None: x']))
  await expect(submitting.connectLoggedIn('wrong')).rejects.toThrow('535')
  submitting.clock.advance(10_000)
  const counts = await eventually(async () => {
    const submission = at((await ask('GET', '/v1/operator/health')).body, 'data', 'submission')
    // Messages and logins are counted by different threads.
    return Number(at(submission, 'rejected')) > 0 && Number(at(submission, 'failed_logins')) > 0 && submission
  })
  expect(counts).toEqual({
    addrs: ['127.0.0.1:0', '127.0.0.1:0'],
    sessions: expect.any(Number),
    accepted: 1,
    deferred: 0,
    rejected: 1,
    failed_logins: 1,
  })
})

// Proves: operator-6
test('the disk is measured in a Worker', async () => {
  const disk = await eventually(async () => {
    const { body } = await operator.ask('GET', '/v1/operator/disk')
    const data = at(body, 'data') as { use: { kinds: { kind: string }[]; total_bytes: number } | null }
    return data.use ? data : undefined
  })
  expect(disk.use?.kinds.map(({ kind }) => kind)).toEqual(['content', 'events', 'inbound', 'logs', 'audit'])
  expect(disk.use?.total_bytes).toBeGreaterThan(0)
})

// Proves: operator-7
test('findings are paged by cursor', async () => {
  const { app, actor } = service
  await app.commit.write((tx) => {
    for (let i = 0; i < 5; i++)
      addFinding(app, tx, {
        accountId: actor.accountId,
        source: 'reputation',
        reason: `Finding ${i}`,
        isPause: false,
        detail: { links: ['https://x.test'] },
      })
  })
  const first = await operator.ask('GET', `/v1/operator/findings?per_page=2&account_id=${actor.accountUuid}`)
  const cursor = String(at(first.body, 'pagination', 'next_cursor'))
  const second = await operator.ask(
    'GET',
    `/v1/operator/findings?per_page=2&account_id=${actor.accountUuid}&cursor=${cursor}`,
  )
  const reasons = (answer: HttpResponse) =>
    (at(answer.body, 'data') as { reason: string }[]).map(({ reason }) => reason)
  expect([...reasons(first), ...reasons(second)]).toEqual(['Finding 4', 'Finding 3', 'Finding 2', 'Finding 1'])
  expect(at((await operator.ask('GET', `/v1/operator/complaints?account_id=${ID}`)).body, 'data')).toEqual([])
})

// Proves: operator-8
test('mail for the operator is listed, shown with its text, and deleted; the deletion names the user', async () => {
  const { app } = service
  const raw =
    'From: Bob <bob@receiver.test>\r\nSubject: Hi\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n'
  const [rawRef = 0] = await app.rawMail.put([new TextEncoder().encode(raw)], clock.now())
  await app.commit.write((tx) =>
    storeOperatorMail(app, tx, {
      kind: 'abuse',
      envelope: {
        mailFrom: '',
        sourceIp: '192.0.2.9',
        helo: '',
        tls: null,
        receivedAt: clock.now(),
        rawRef,
        sizeBytes: raw.length,
      },
      rcptTo: ['abuse@mail.tassis.test'],
      from: 'Bob <bob@receiver.test>',
      subject: 'Hi',
      reason: 'The message is addressed to the operator.',
    }),
  )
  const listed = await operator.ask('GET', '/v1/operator/mail?kind=abuse')
  const id = String(at(listed.body, 'data', 0, 'id'))
  expect(at((await operator.ask('GET', '/v1/operator/mail?kind=bounce')).body, 'data')).toEqual([])
  const shown = await operator.ask('GET', `/v1/operator/mail/${id}`)
  expect(String(at(shown.body, 'data', 'text')).trim()).toBe('Hello')
  expect(at(shown.body, 'data', 'source')).toBe(raw)
  expect(listEntries()[0]).toMatchObject({ action: 'operator.viewed', type: 'operator_mail', id })
  expect((await operator.ask('POST', `/v1/operator/mail/${id}/retry`)).status).toBe(204)
  expect(listEntries()[0]).toMatchObject({ action: 'operator_mail.retried', by: 'user', account: null, id })
  // It is mail to abuse, so it comes back, with another id.
  const again = await eventually(() => listOperatorMail(app.db, { limit: 1 }).mail[0])
  const nextId = formatUuid(again.uuid)
  expect((await operator.ask('DELETE', `/v1/operator/mail/${nextId}`)).status).toBe(204)
  expect(listEntries()[0]).toMatchObject({ action: 'operator_mail.deleted', by: 'user', account: null, id: nextId })
  expect(listOperatorMail(app.db, { limit: 10 }).total).toBe(0)
  expect((await operator.ask('DELETE', `/v1/operator/mail/${id}`)).status).toBe(404)
  expect((await operator.ask('POST', `/v1/operator/mail/${id}/retry`)).status).toBe(404)
})

// Proves: operator-9
test('reports and unparsed messages: unknown ids are a 404, an invalid domain or cursor a 422', async () => {
  expect((await operator.ask('GET', `/v1/operator/reports/${ID}`)).status).toBe(404)
  expect((await operator.ask('GET', '/v1/operator/reports?domain=a..b')).status).toBe(422)
  expect(at((await operator.ask('GET', '/v1/operator/reports?domain=Example.com')).body, 'data')).toEqual([])
  expect((await operator.ask('GET', '/v1/operator/received/unparsed?after=x')).status).toBe(422)
  expect((await operator.ask('GET', '/v1/operator/received/unparsed?after=5-6')).body).toEqual({
    data: [],
    next_after: null,
  })
  expect((await operator.ask('POST', `/v1/operator/received/unparsed/${ID}/retry`)).status).toBe(404)
  expect(at((await operator.ask('GET', '/v1/operator/received')).body, 'data')).toEqual([])
})

// Proves: operator-10
test('settings have their source, and secrets are not shown', async () => {
  const settings = { TASSIS_STRIPE_KEY: 'sk_test_secret', TASSIS_LOG_LEVEL: 'silent' }
  await using other = await createTestApi({ serves: { settings: loadConfig(settings).report } })
  const session = await signInAsOperator(other)
  const { body } = await session.ask('GET', '/v1/operator/settings')
  const found = at(body, 'data') as { variable: string; value: string; source: string; topic: string }[]
  const find = (variable: string) => found.find((setting) => setting.variable === variable)
  expect(find('TASSIS_STRIPE_KEY')).toMatchObject({ value: '(set)', source: 'environment', topic: 'Take payments' })
  expect(find('TASSIS_LOG_LEVEL')).toMatchObject({ value: 'silent', source: 'environment' })
  expect(find('TASSIS_HTTP_ADDR')).toMatchObject({ source: 'default' })
  expect(JSON.stringify(body)).not.toContain('sk_test_secret')
})
