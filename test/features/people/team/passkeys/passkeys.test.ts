/** @module Passkeys over the API: adding, signing in, confirming, and what is refused. */
import { expect, test } from 'bun:test'
import { setUserOperator } from '#features/people/team/operator-routes.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { type Authenticator, createAuthenticator } from '#test/support/authenticator.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createJar, signOnBy, startIdentityProvider } from '#test/support/identity-provider.ts'
import { createCode, signInAsOperator } from '#test/support/operator.ts'
import { ask, type BrowserSession, createTestUser, PASSWORD, signIn } from '#test/support/users.ts'

const ORIGIN = 'https://mail.example.test'
const ADA = 'ada@people.test'

const createService = (settings: Record<string, string> = {}): Promise<EmailApi> =>
  createEmailApi({ settings: { TASSIS_PUBLIC_URL: ORIGIN, TASSIS_LOGINS_PER_MINUTE: '1000', ...settings } })

type Options = { challenge: string; rpId: string; rp: { id: string }; user: { id: string } }

/** Makes the first request of a ceremony; resolves with the options, and the cookies for the second. */
async function begin({ url }: EmailApi, path: string, session?: BrowserSession) {
  const { status, body, headers } = await ask(url, 'POST', path, undefined, session?.headers ?? {})
  if (status !== 200) return { status, options: {} as Options, headers: { cookie: '' } }
  const cookie = (headers.get('set-cookie') ?? '').split(';')[0] ?? ''
  const cookies = session ? `${session.cookie}; ${cookie}` : cookie
  return { status, options: at(body, 'data', 'options') as Options, headers: { ...session?.headers, cookie: cookies } }
}

async function addPasskey(
  service: EmailApi,
  session: BrowserSession,
  authenticator = createAuthenticator(),
  name = 'Key',
) {
  const { options, headers } = await begin(service, '/v1/auth/passkeys/options', session)
  const credential = authenticator.create(options, { origin: ORIGIN })
  return { authenticator, ...(await ask(service.url, 'POST', '/v1/auth/passkeys', { name, credential }, headers)) }
}

async function useAt(
  service: EmailApi,
  path: string,
  authenticator: Authenticator,
  {
    session,
    origin = ORIGIN,
    rpId,
    isVerified = true,
  }: { session?: BrowserSession; origin?: string; rpId?: string; isVerified?: boolean } = {},
) {
  const { options, headers } = await begin(service, '/v1/auth/passkeys/challenge', session)
  const credential = authenticator.use({ ...options, ...(rpId && { rpId }) }, { origin, isVerified })
  const again = () => ask(service.url, 'POST', path, { credential }, headers)
  const { status, body } = await again()
  return { status, body, code: status >= 400 ? at(body, 'code') : undefined, again }
}

const LOGIN = '/v1/auth/passkeys/login'

// Proves: user-24, user-25
test('a passkey signs its user in alone, as both factors; names, uses and removal are shown', async () => {
  await using service = await createService()
  await createTestUser(service.app, service.actor, ADA, 'owner')
  await setUserOperator(service.app, ADA, true)
  const session = await signIn(service, ADA)
  const { authenticator, status, body } = await addPasskey(service, session)
  expect([status, at(body, 'data')]).toEqual([201, expect.objectContaining({ name: 'Key', last_used_at: null })])
  expect((await addPasskey(service, session, authenticator)).status).toBe(409)
  const used = await useAt(service, LOGIN, authenticator)
  expect([used.status, at(used.body, 'data', 'user', 'email'), at(used.body, 'data', 'user', 'passkeys')]).toEqual([
    200,
    ADA,
    1,
  ])
  // An operator needs no code.
  expect((await session.ask('GET', '/v1/operator/health')).status).toBe(200)
  const [passkey] = at((await session.ask('GET', '/v1/auth/passkeys')).body, 'data') as {
    id: string
    last_used_at: string
  }[]
  expect(passkey?.last_used_at).toBeString()
  const other = await signIn(service, ADA)
  service.clock.advance(minutes(11))
  const remove = (by: BrowserSession) => by.ask('DELETE', `/v1/auth/passkeys/${passkey?.id}`)
  expect(at((await remove(session)).body, 'code')).toBe('password_required')
  expect((await begin(service, '/v1/auth/passkeys/options', session)).status).toBe(403)
  expect((await useAt(service, '/v1/auth/session/passkey', authenticator, { session })).status).toBe(204)
  expect([(await remove(session)).status, (await remove(session)).status]).toEqual([204, 404])
  expect((await useAt(service, LOGIN, authenticator)).code).toBe('invalid_passkey')
  expect(at((await other.ask('GET', '/v1/operator/health')).body, 'code')).toBe('authenticator_required')
})

// Proves: user-24
test('a passkey of another origin or host, one without its user, a replay and a clone are refused', async () => {
  await using service = await createService()
  await createTestUser(service.app, service.actor, ADA, 'owner')
  const session = await signIn(service, ADA)
  const { authenticator } = await addPasskey(service, session)
  const see = async (options: Parameters<typeof useAt>[3]) => (await useAt(service, LOGIN, authenticator, options)).code
  expect([
    await see({ origin: 'https://mail.example.evil' }),
    await see({ origin: 'http://mail.example.test' }),
    await see({ rpId: 'example.test' }),
    await see({ isVerified: false }),
    (await useAt(service, LOGIN, createAuthenticator())).code,
  ]).toEqual(Array(5).fill('invalid_passkey'))
  const used = await useAt(service, LOGIN, authenticator)
  expect([used.status, at((await used.again()).body, 'code')]).toEqual([200, 'invalid_passkey'])
  // A copy has signed less often.
  authenticator.counter = 1
  expect(await see({})).toBe('invalid_passkey')
  const log = at((await service.api('GET', '/v1/audit-logs')).body, 'data') as { action: string }[]
  expect(log[0]?.action).toBe('user.passkey_clone_refused')
  authenticator.counter = 100
  expect(await see({})).toBeUndefined()
})

// Proves: user-24
test('a challenge belongs to one session, one purpose and five minutes', async () => {
  await using service = await createService()
  await createTestUser(service.app, service.actor, ADA, 'owner')
  const session = await signIn(service, ADA)
  const { authenticator } = await addPasskey(service, session)
  const finish = async (headers: object, options: Options, path = LOGIN) => {
    const credential = authenticator.use(options, { origin: ORIGIN })
    const answer = await ask(service.url, 'POST', path, { credential }, headers as Record<string, string>)
    return [answer.status, answer.status >= 400 ? at(answer.body, 'code') : undefined]
  }
  const refused = [401, 'invalid_passkey']
  const ofStranger = await begin(service, '/v1/auth/passkeys/challenge')
  const inSession = { ...session.headers, cookie: `${session.cookie}; ${ofStranger.headers.cookie}` }
  expect(await finish(inSession, ofStranger.options, '/v1/auth/session/passkey')).toEqual([422, 'invalid_passkey'])
  expect(await finish({}, ofStranger.options)).toEqual(refused)
  const ofSession = await begin(service, '/v1/auth/passkeys/challenge', session)
  const [, cookie] = ofSession.headers.cookie.split('; ')
  expect(await finish({ cookie }, ofSession.options)).toEqual(refused)
  const adding = await begin(service, '/v1/auth/passkeys/options', session)
  expect(await finish(adding.headers, { ...adding.options, rpId: 'mail.example.test' })).toEqual(refused)
  // Without its cookie there is no challenge, not an empty one.
  const credential = createAuthenticator().create({ ...adding.options, challenge: '' }, { origin: ORIGIN })
  const added = await ask(service.url, 'POST', '/v1/auth/passkeys', { name: 'Key', credential }, session.headers)
  expect([added.status, at(added.body, 'details', 0, 'field')]).toEqual([422, 'credential'])
  const late = await begin(service, '/v1/auth/passkeys/challenge')
  service.clock.advance(minutes(5))
  expect(await finish(late.headers, late.options)).toEqual(refused)
})

// Proves: user-26
test('an operator who is signed in confirms with a code; somebody else’s passkey confirms nothing', async () => {
  await using service = await createService()
  await createTestUser(service.app, service.actor, ADA, 'owner')
  const { authenticator } = await addPasskey(service, await signIn(service, ADA))
  const operator = await signInAsOperator(service)
  service.app.db.run('UPDATE sessions SET second_factor_at = NULL')
  const status = async () => (await operator.ask('GET', '/v1/operator/health')).status
  expect([
    await status(),
    (await useAt(service, '/v1/auth/session/passkey', authenticator, { session: operator })).code,
  ]).toEqual([403, 'invalid_passkey'])
  service.clock.advance(minutes(1))
  const wrong = await operator.ask('POST', '/v1/auth/session/code', { code: '000000' })
  const right = await operator.ask('POST', '/v1/auth/session/code', {
    code: createCode(operator.totpSecret, service.clock.now()),
  })
  expect([wrong.status, right.status, await status()]).toEqual([422, 204, 200])
})

test('there are no passkeys under an IP address, nor as a way in where only the provider is one', async () => {
  await using plain = await createService({ TASSIS_PUBLIC_URL: 'http://127.0.0.1:8080' })
  await createTestUser(plain.app, plain.actor, ADA, 'owner')
  const session = await signIn(plain, ADA)
  const { body } = await session.ask('POST', '/v1/auth/passkeys/options')
  expect(at(body, 'code')).toBe('passkeys_unavailable')
  const provider = { TASSIS_OIDC_ISSUER: 'https://id.example.test', TASSIS_OIDC_CLIENT_ID: 'tassis' }
  await using closed = await createService({ ...provider, TASSIS_LOCAL_SIGN_IN: 'false' })
  expect((await useAt(closed, LOGIN, createAuthenticator())).code).toBe('local_sign_in_off')
})

// Proves: user-25
test('who has a second factor must show it before another is added or one is removed', async () => {
  await using service = await createService()
  await createTestUser(service.app, service.actor, ADA, 'owner')
  const session = await signIn(service, ADA)
  const { authenticator, body } = await addPasskey(service, session)
  // The password alone, as somebody has who saw it typed.
  const thief = await signIn(service, ADA)
  const remove = (by: BrowserSession) => by.ask('DELETE', `/v1/auth/passkeys/${at(body, 'data', 'id')}`)
  const codes = [
    await thief.ask('POST', '/v1/auth/passkeys/options'),
    await remove(thief),
    await thief.ask('POST', '/v1/auth/totp', { password: PASSWORD }),
  ].map((answer) => [answer.status, at(answer.body, 'code')])
  expect(codes).toEqual(Array(3).fill([403, 'second_factor_required']))
  // A secret, and options, of the session that has shown the passkey are of no use in the other.
  const secret = String(at((await session.ask('POST', '/v1/auth/totp', { password: PASSWORD })).body, 'data', 'secret'))
  const confirm = (by: BrowserSession) =>
    by.ask('POST', '/v1/auth/totp/confirm', { code: createCode(secret, service.clock.now()) })
  expect([(await confirm(thief)).status, (await addPasskey(service, session)).status]).toEqual([403, 201])
  expect((await useAt(service, '/v1/auth/session/passkey', authenticator, { session: thief })).status).toBe(204)
  service.clock.advance(minutes(1))
  expect([(await confirm(thief)).status, (await remove(session)).status]).toEqual([200, 403])
  service.clock.advance(minutes(1))
  const code = createCode(secret, service.clock.now())
  expect((await session.ask('POST', '/v1/auth/session/code', { code })).status).toBe(204)
  expect((await remove(session)).status).toBe(204)
})

// Proves: user-24, user-26
test('whom only the provider lets in confirms with a passkey, but neither signs in with it nor sets a password', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider.settings)
  provider.person = { sub: 'ada-1', email: ADA, email_verified: true, groups: ['owner'] }
  const { jar } = await signOnBy(service, provider, { jar: createJar(service.url), query: '?fresh=1' })
  const cookie = [...jar.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  const csrfToken = String(at((await jar.get('/v1/auth/session')).body, 'data', 'csrf_token'))
  const headers = { cookie, 'x-csrf-token': csrfToken }
  const session: BrowserSession = {
    cookie,
    csrfToken,
    headers,
    setCookie: '',
    ask: (method, path, body) => ask(service.url, method, path, body, headers),
  }
  const { authenticator, status } = await addPasskey(service, session)
  expect([status, (await useAt(service, LOGIN, authenticator)).code]).toEqual([201, 'local_sign_in_off'])
  const set = await session.ask('PUT', '/v1/auth/password', { current_password: '', password: 'other words that fit' })
  expect([set.status, at(set.body, 'code')]).toEqual([403, 'local_sign_in_off'])
  expect((await useAt(service, '/v1/auth/session/passkey', authenticator, { session })).status).toBe(204)
})
