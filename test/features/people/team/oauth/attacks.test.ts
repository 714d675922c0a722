/** @module What strangers, other programs and former members try against OAuth. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { endOldGrants } from '#features/people/team/oauth/grants.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { ask, createTestUser, signIn } from '#test/support/users.ts'
import {
  ADA,
  askToken,
  authorizeUrl,
  CALLBACK,
  callMcp,
  connectClient,
  createOauthApi,
  getCode,
  type JsonAnswer,
  openConsent,
  register,
} from './fixture.ts'

setDefaultTimeout(60_000)
const BEN = 'ben@people.test'
const EVE = 'eve@people.test'
const clock = new ManualClock()
let service: TestApi
let documents: HttpsReceiver
beforeAll(async () => {
  documents = await startHttpsReceiver({ names: ['127.0.0.1'] })
  service = await createOauthApi({ clock, settings: { TASSIS_EXTRA_CA_FILE: documents.caFile } })
  for (const [email, role] of [
    [BEN, 'developer'],
    [EVE, 'viewer'],
  ] as const)
    await createTestUser(service.app, service.actor, email, role)
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await documents.close()
})
// The limits of requests fill up again.
beforeEach(() => clock.advance(minutes(3)))

const refused = (error: string) => expect.objectContaining({ status: 400, body: expect.objectContaining({ error }) })
const status = async (token: string) => (await callMcp(service, token)).status
const refresh = (clientId: string, token: string, more: Record<string, string> = {}): Promise<JsonAnswer> =>
  askToken(service.url, { grant_type: 'refresh_token', refresh_token: token, client_id: clientId, ...more })
const registered = async (...uris: string[]): Promise<string> =>
  String((await register(service.url, uris)).body['client_id'])
const authorize = (clientId: string, change: Record<string, string | undefined> = {}) =>
  fetch(authorizeUrl(service.url, clientId, change), { redirect: 'manual' })
const findKey = async (email: string) =>
  (at((await service.api('GET', '/v1/api-keys')).body, 'data') as { id: string; connected_by: string | null }[]).find(
    ({ connected_by: by }) => by === email,
  )

// Proves: user-29
describe('where codes go', () => {
  test.each([
    'http://evil.test/callback',
    'http://127.0.0.1@evil.test/callback',
    'https://user:word@good.test/',
    'https://good.test/#part',
    'https://good.test\\@evil.test/',
    'https://good.test/ ',
    'javascript:alert(1)',
    'javascript://good.test/%0aalert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'blob:https://good.test/x',
    'intent://x',
    '//good.test',
    'https:good.test',
    'https:///good.test',
    'http:127.0.0.1/x',
    'https://аррӏе.test/',
    `https://good.test/${'x'.repeat(400)}`,
    7,
  ])('is never %p', async (uri) => {
    expect(await register(service.url, [uri])).toEqual(refused('invalid_redirect_uri'))
  })

  test('is an address that the client has registered, as text; only the port of this device differs', async () => {
    const clientId = await registered('https://good.test/cb', CALLBACK, 'cursor://cursor.mcp/cb', 'com.example.app:/cb')
    const cases: [string | undefined, number][] = [
      ['https://good.test/cb', 303],
      ['cursor://cursor.mcp/cb', 303],
      ['com.example.app:/cb', 303],
      ['http://127.0.0.1:50123/callback', 303],
      ['http://127.0.0.1:50123/other', 400],
      ['http://localhost:33418/callback', 400],
      ['https://good.test/cb/', 400],
      ['https://good.test/cb2', 400],
      ['https://good.test.evil.test/cb', 400],
      ['https://good.test/cb?next=https://evil.test', 400],
      ['https://good.test:8443/cb', 400],
      ['https://GOOD.test/cb', 400],
      ['cursor://evil/cb', 400],
      [undefined, 400],
    ]
    for (const [redirect_uri, expected] of cases) {
      const answer = await authorize(clientId, { redirect_uri })
      expect([redirect_uri, answer.status]).toEqual([redirect_uri, expected])
      // A wrong address is told to the user, and never used.
      if (expected === 400) expect(answer.headers.get('location')).toBeNull()
    }
  })

  test('is not asked of a client that this service does not know', async () => {
    const clientId = await registered(CALLBACK)
    const tampered = `${clientId.slice(0, 60)}${clientId[60] === 'A' ? 'B' : 'A'}${clientId.slice(61)}`
    await using other = await createOauthApi()
    const foreign = String((await register(other.url, [CALLBACK])).body['client_id'])
    for (const id of [tampered, foreign, '', 'x', 'https://10.0.0.1/client.json', 'http://127.0.0.1/client.json'])
      expect([id, (await authorize(id)).status]).toEqual([id, 400])
  })

  // A link to this service must lead nobody to an address that a stranger registered.
  test.each([
    [{ code_challenge: undefined }, 'PKCE is missing or not S256'],
    [{ code_challenge_method: 'plain' }, 'PKCE is missing or not S256'],
    [{ code_challenge_method: undefined }, 'PKCE is missing or not S256'],
    [{ response_type: 'token' }, 'response_type is not code'],
    [{ resource: 'https://other.test/mcp' }, 'resource is not'],
  ])('is not where a request with %p leads', async (change, problem) => {
    const answer = await authorize(await registered(CALLBACK), change)
    expect([answer.status, answer.headers.get('location')]).toEqual([400, null])
    expect(await answer.text()).toContain(problem)
  })
})

test('a state that cannot be given back is refused; one of 1,000 characters comes back', async () => {
  const clientId = await registered(CALLBACK)
  for (const state of ['x'.repeat(10_000), 'x'.repeat(1001), '\u20ac'])
    expect((await authorize(clientId, { state })).status).toBe(400)
  const state = '{"a":1}~'.repeat(125)
  const { to } = await (await openConsent(service, authorizeUrl(service.url, clientId, { state }))).answer()
  expect(to?.searchParams.get('state')).toBe(state)
})

test('a client may be an https URL whose metadata name it', async () => {
  const url = `https://127.0.0.1:${documents.port}/client.json`
  const answers = (metadata: unknown) => documents.answer({ body: JSON.stringify(metadata) })
  answers({ client_id: `${url}x`, redirect_uris: [CALLBACK] })
  expect((await authorize(url)).status).toBe(400)
  answers({ client_id: url, client_name: 'Remote', redirect_uris: [CALLBACK] })
  expect(await (await openConsent(service, authorizeUrl(service.url, url))).html).toContain('Connect Remote?')
  for (const answer of [
    { body: 'x'.repeat(20_000) },
    { body: '<html>' },
    { body: '[]' },
    { body: JSON.stringify({ client_id: url, redirect_uris: ['https://evil.test/#x'] }) },
    { status: 302, headers: { location: url } },
  ]) {
    documents.answer(answer)
    expect((await authorize(url)).status).toBe(400)
  }
  await using strict = await createOauthApi({ settings: { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' } })
  const page = await fetch(authorizeUrl(strict.url, url), { redirect: 'manual' })
  expect([page.status, await page.text()]).toEqual([400, expect.stringContaining('127.0.0.1')])
})

test('10,000 registrations store nothing, and one network is limited', async () => {
  const count = () =>
    service.app.db.query('SELECT count(*) AS n FROM api_keys UNION ALL SELECT count(*) FROM oauth_grants').all()
  const before = count()
  const heap = process.memoryUsage().rss
  const statuses = new Map<number, number>()
  for (let batch = 0; batch < 100; batch++) {
    const answers = await Promise.all(Array.from({ length: 100 }, () => register(service.url, [CALLBACK])))
    for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  expect([count(), statuses.get(201), statuses.get(429)]).toEqual([before, 200, 9800])
  expect(process.memoryUsage().rss - heap).toBeLessThan(300e6)
})

// Proves: user-29
describe('consent', () => {
  test('is given only by the page that was shown, to the browser that was asked', async () => {
    const clientId = await registered(CALLBACK)
    const open = () => openConsent(service, authorizeUrl(service.url, clientId))
    const forged = await (await open()).answer({ csrf_token: 'x' })
    expect([forged.status, forged.to]).toEqual([400, undefined])
    expect((await (await open()).answer({ request: 'x' })).status).toBe(400)
    for (const headers of [{ origin: 'https://evil.test' }, { 'sec-fetch-site': 'cross-site' }] as Record<
      string,
      string
    >[])
      expect((await (await open()).answer({}, headers)).status).toBe(403)
    // A second click gets another code, since the browser drops the first answer.
    const page = await open()
    const codes = await Promise.all([page.answer(), page.answer()])
    expect(new Set(codes.map(({ to }) => to?.searchParams.get('code') ?? '')).size).toBe(2)
    expect(codes.map(({ to }) => to?.pathname)).toEqual(['/callback', '/callback'])
    const denied = (await (await open()).answer({ decision: 'deny' })).to?.searchParams
    expect([denied?.get('error'), denied?.get('code')]).toEqual(['access_denied', null])
  })

  test.each([
    ['<b>A</b>\u202e', '&lt;b&gt;A&lt;/b&gt;'],
    ['C\u200bla\u2066ude\n(claude.ai)', 'C la ude (claude.ai)'],
    ['\u3164\u2800\u00a0', 'A program without a name'],
    ['\u{1f600}'.repeat(1000), '\u{1f600}'.repeat(60)],
  ])('shows the name %p as %p', async (name, shown) => {
    const redirect_uri = 'https://xn--80ak6aa92e.test:8443/cb'
    const clientId = String((await register(service.url, [redirect_uri], name)).body['client_id'])
    const { html } = await openConsent(service, authorizeUrl(service.url, clientId, { redirect_uri }))
    expect(html).toContain(`<h1>Connect ${shown}?</h1>`)
    expect(html).toContain(`<bdi>${shown}</bdi>`)
    expect(html).toContain('goes to <strong>xn--80ak6aa92e.test:8443</strong>')
  })

  test('cannot be framed, and needs a box', async () => {
    const clientId = await registered(CALLBACK)
    const page = await openConsent(service, authorizeUrl(service.url, clientId))
    const none = Object.fromEntries([...page.html.matchAll(/name="(\w+:\w+)"/g)].map(([, name]) => [name, undefined]))
    expect(await page.answer(none)).toMatchObject({ status: 422, html: expect.stringContaining('Tick at least one') })
    const shown = await fetch(authorizeUrl(service.url, clientId), {
      headers: { cookie: (await signIn(service, ADA)).cookie },
    })
    expect(shown.headers.get('content-security-policy') ?? '').toContain("frame-ancestors 'none'")
  })

  test('gives no scope that the role lacks or that no tool needs', async () => {
    const { tokens } = await connectClient(
      service,
      { 'emails:send': 'yes', 'account:admin': 'yes', 'contacts:read': 'yes' },
      EVE,
    )
    expect(tokens.scope.split(' ').filter((scope) => !scope.endsWith(':read') || scope === 'contacts:read')).toEqual([])
    const { tokens: ofBen } = await connectClient(service, { 'emails:send': 'yes', 'account:admin': 'yes' }, BEN)
    expect([ofBen.scope.includes('emails:send'), ofBen.scope.includes('admin')]).toEqual([true, false])
    await createTestUser(service.app, service.actor, 'sue@people.test', 'support')
    const page = await openConsent(service, authorizeUrl(service.url, await registered(CALLBACK)), 'sue@people.test')
    expect(page.html).toContain('Your role here allows nothing')
  })

  test('makes drafts of what the program sends, unless the user lets it leave', async () => {
    const keyOf = async (change: Record<string, string | undefined>) => {
      await connectClient(service, { 'emails:send': 'yes', ...change })
      return at((await service.api('GET', '/v1/api-keys')).body, 'data', 0) as Record<string, unknown>
    }
    expect(await keyOf({})).toMatchObject({ drafts: true, scopes: expect.arrayContaining(['emails:send']) })
    expect(await keyOf({ drafts: undefined, 'domains:write': 'yes' })).toMatchObject({ drafts: false })
    // Without emails there is nothing to wait for.
    expect(await keyOf({ 'emails:send': undefined, 'domains:write': 'yes' })).toMatchObject({ drafts: false })
    const page = await openConsent(service, authorizeUrl(service.url, await registered(CALLBACK)))
    const both = { 'emails:send': 'yes', 'domains:write': 'yes' }
    expect(await page.answer(both)).toMatchObject({
      status: 422,
      html: expect.stringContaining('it cannot also: Verify domains.'),
    })
  })

  test('is for the account that the user chooses', async () => {
    const other = await service.newAccount()
    const both = await createTestUser(service.app, other, 'both@people.test', 'viewer')
    service.app.db.run("INSERT INTO members SELECT ?, id, 'owner', 0, 1 FROM users WHERE email = ?", [
      service.actor.accountId,
      both.email,
    ])
    const url = authorizeUrl(service.url, await registered(CALLBACK))
    const first = await openConsent(service, url, both.email)
    const [, query = ''] = /consent(\?account=[\w-]+)/.exec(first.html) ?? []
    expect([first.html.includes('emails:send'), query]).toEqual([true, `?account=${other.accountUuid}`])
    const second = await openConsent(service, url, both.email, query)
    expect([second.html.includes('emails:send'), second.html.includes(other.accountUuid)]).toEqual([false, true])
    // It is not for another one when the user has left that account meanwhile.
    service.app.db.run('DELETE FROM members WHERE account_id = ?', [other.accountId])
    expect((await second.answer()).status).toBe(400)
  })
})

// Proves: user-28
describe('codes', () => {
  test('belong to a client, an address and a verifier, and are valid for a minute', async () => {
    const { exchange } = await getCode(service)
    for (const change of [
      { client_id: await registered(CALLBACK, 'https://other.test/') },
      { redirect_uri: 'http://127.0.0.1:1/callback' },
      { code_verifier: 'w'.repeat(43) },
      { code_verifier: '' },
      { code: `${exchange.code.slice(0, -4)}AAAA` },
      { code: '' },
    ])
      expect(await askToken(service.url, { ...exchange, ...change })).toEqual(refused('invalid_grant'))
    expect(await askToken(service.url, { ...exchange, resource: 'https://other.test/mcp' })).toEqual(
      refused('invalid_target'),
    )
    clock.advance(minutes(1))
    expect(await askToken(service.url, exchange)).toEqual(refused('invalid_grant'))
  })

  test('count once: a second use ends what the first one gave', async () => {
    const { exchange } = await getCode(service)
    const use = () => askToken(service.url, exchange)
    const [won, ...others] = (await Promise.all([use(), use(), use()])).toSorted((a, b) => a.status - b.status)
    for (const answer of [...others, await use()]) expect(answer).toEqual(refused('invalid_grant'))
    expect(await status(String(won?.body['access_token']))).toBe(401)
    const later = await getCode(service)
    const { access_token: token } = (await askToken(service.url, later.exchange)).body
    expect(await askToken(service.url, later.exchange)).toEqual(refused('invalid_grant'))
    expect(await status(String(token))).toBe(401)
  })

  test('end with the session in which the user agreed, also one that made tokens', async () => {
    for (const isUsed of [false, true]) {
      const { exchange } = await getCode(service, {}, BEN)
      if (isUsed) expect((await askToken(service.url, exchange)).status).toBe(200)
      await (await signIn(service, BEN)).ask('DELETE', '/v1/auth/sessions')
      // One of these sessions gets the row id of that one.
      service.app.db.run('DELETE FROM sessions WHERE user_id = (SELECT id FROM users WHERE email = ?)', [BEN])
      for (const _ of [1, 2, 3]) await signIn(service, BEN)
      expect(await askToken(service.url, exchange)).toEqual(refused('invalid_grant'))
      expect(await findKey(BEN)).toBeUndefined()
    }
  })

  test('are nothing else, and nothing else is a code or token', async () => {
    const { exchange, clientId, tokens } = await connectClient(service)
    const unsealed = (token: string): string => token.replace('tassis_oauth_', '')
    for (const code of [clientId, unsealed(tokens.access_token), unsealed(tokens.refresh_token)])
      expect(await askToken(service.url, { ...exchange, code })).toEqual(refused('invalid_grant'))
    for (const sealed of [clientId, exchange.code, unsealed(tokens.access_token)])
      expect(await refresh(clientId, `tassis_oauth_${sealed}`)).toEqual(refused('invalid_grant'))
    for (const sealed of [clientId, exchange.code, unsealed(tokens.refresh_token)])
      expect(await status(`tassis_oauth_${sealed}`)).toBe(401)
    expect((await authorize(exchange.code)).status).toBe(400)
    // Revoked by several requests at the same time, of which none fails.
    const revoke = () => askToken(service.url, { token: tokens.access_token }, '/oauth/revoke')
    expect((await Promise.all([revoke(), revoke(), revoke()])).map((answer) => answer.status)).toEqual([200, 200, 200])
    expect(await status(tokens.access_token)).toBe(401)
  })

  test('of another service are not accepted', async () => {
    await using other = await createOauthApi()
    expect(await askToken(other.url, (await getCode(service)).exchange)).toEqual(refused('invalid_grant'))
  })
})

// Proves: user-28, user-30
describe('tokens', () => {
  test('count at /mcp only, which says where to get one', async () => {
    const { tokens } = await connectClient(service)
    expect(await status(tokens.access_token)).toBe(200)
    for (const [path, method, error] of [
      ['/v1/emails', 'GET', { status: 401 }],
      ['/v1/api-keys', 'GET', { status: 401 }],
      ['/emails', 'POST', { status: 403, body: { name: 'invalid_api_key' } }],
    ] as const)
      expect(await service.api(method, path, undefined, { key: tokens.access_token })).toMatchObject(error)
    for (const token of [tokens.refresh_token, 'tassis_oauth_x', 'wrong'])
      expect((await callMcp(service, token)).headers.get('www-authenticate')).toMatch(
        new RegExp(
          `^Bearer resource_metadata="${service.url}/.well-known/oauth-protected-resource/mcp", error="invalid_token"`,
        ),
      )
    expect((await fetch(`${service.url}/mcp`, { method: 'POST' })).headers.get('www-authenticate')).toBe(
      `Bearer resource_metadata="${service.url}/.well-known/oauth-protected-resource/mcp"`,
    )
    clock.advance(hours(1))
    expect(await status(tokens.access_token)).toBe(401)
  })

  test('are renewed; a lost answer is repeated, and an old token ends the grant', async () => {
    const { clientId, tokens } = await connectClient(service)
    const second = await refresh(clientId, tokens.refresh_token, { scope: 'emails:send account:admin' })
    expect(second).toMatchObject({ status: 200 })
    expect(String(second.body['scope']).split(' ').sort()).toEqual(tokens.scope.split(' ').sort())
    const replicas = [refresh(clientId, tokens.refresh_token), refresh(clientId, tokens.refresh_token)]
    expect((await Promise.all(replicas)).map((answer) => answer.status)).toEqual([200, 200])
    expect(await refresh(await registered(CALLBACK), String(second.body['refresh_token']))).toEqual(
      refused('invalid_grant'),
    )
    expect(await refresh(clientId, tokens.access_token)).toEqual(refused('invalid_grant'))
    clock.advance(minutes(1))
    expect(await status(String(second.body['access_token']))).toBe(200)
    expect(await refresh(clientId, tokens.refresh_token)).toEqual(refused('invalid_grant'))
    expect(await status(String(second.body['access_token']))).toBe(401)
    expect(await refresh(clientId, String(second.body['refresh_token']))).toEqual(refused('invalid_grant'))
  })

  test('end at once when the key is deleted, the account disabled, or the member removed or demoted', async () => {
    const owner = await signIn(service, ADA)
    const members = at((await owner.ask('GET', '/v1/team')).body, 'data') as { id: string; email: string }[]
    const benId = members.find(({ email }) => email === BEN)?.id

    const revoked = await connectClient(service)
    await owner.ask('DELETE', `/v1/api-keys/${(await findKey(ADA))?.id}`)
    expect(await status(revoked.tokens.access_token)).toBe(401)
    expect(await refresh(revoked.clientId, revoked.tokens.refresh_token)).toEqual(refused('invalid_grant'))

    const forgotten = await connectClient(service, {}, BEN)
    await (await signIn(service, BEN)).ask('DELETE', '/v1/auth/sessions')
    expect([await status(forgotten.tokens.access_token), await findKey(BEN)]).toEqual([401, undefined])

    const { clientId, tokens } = await connectClient(service, { 'emails:send': 'yes' }, BEN)
    const names = async () =>
      (at((await callMcp(service, tokens.access_token)).body, 'result', 'tools') as { name: string }[]).map(
        ({ name }) => name,
      )
    expect(await names()).toContain('send_email')
    await owner.ask('PATCH', `/v1/team/members/${benId}`, { role: 'viewer' })
    expect(await names()).not.toContain('send_email')

    service.app.db.run('UPDATE accounts SET disabled_at = 1 WHERE id = ?', [service.actor.accountId])
    expect(await status(tokens.access_token)).toBe(401)
    expect(await refresh(clientId, tokens.refresh_token)).toEqual(refused('invalid_grant'))
    service.app.db.run('UPDATE accounts SET disabled_at = NULL WHERE id = ?', [service.actor.accountId])

    expect(await status(tokens.access_token)).toBe(200)
    expect((await owner.ask('DELETE', `/v1/team/members/${benId}`)).status).toBe(204)
    expect([await status(tokens.access_token), await findKey(BEN)]).toEqual([401, undefined])
    await createTestUser(service.app, service.actor, BEN, 'developer')
    expect(await status(tokens.access_token)).toBe(401)
  })

  test('end after 60 days without use', async () => {
    await connectClient(service, {}, EVE)
    clock.advance(days(60))
    await endOldGrants(service.app)
    expect(service.app.db.query('SELECT count(*) AS n FROM oauth_grants').get()).toEqual({ n: 0 })
    expect(await findKey(EVE)).toBeUndefined()
  })
})

test('pages of other origins may register and ask for tokens, without cookies', async () => {
  const headers = { origin: 'https://inspector.test', 'access-control-request-method': 'POST' }
  for (const path of ['/oauth/register', '/oauth/token', '/.well-known/oauth-authorization-server']) {
    const { status, headers: got } = await ask(service.url, 'OPTIONS', path, undefined, headers)
    expect([path, status, got.get('access-control-allow-origin')]).toEqual([path, 204, '*'])
    expect(got.get('access-control-allow-credentials')).toBeNull()
  }
})

test('without https there are no tokens, except on this machine', async () => {
  await using plain = await createOauthApi({ settings: { TASSIS_PUBLIC_URL: 'http://mail.example.com' } })
  expect((await fetch(`${plain.url}/.well-known/oauth-protected-resource`)).status).toBe(404)
  expect((await fetch(`${plain.url}/mcp`, { method: 'POST' })).headers.get('www-authenticate')).toBe('Bearer')
})
