/** @module Identity providers and browsers that lie: each ends on the sign-in page with a sentence, and without a session. */
import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { createUserResetLink } from '#features/people/team/operator-routes.ts'
import { hours, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import {
  CLIENT_ID,
  createJar,
  type IdentityProvider,
  type Lies,
  signOnBy,
  startIdentityProvider,
} from '#test/support/identity-provider.ts'
import { createTestUser, findToken, PASSWORD, postForm } from '#test/support/users.ts'

const ADA = { sub: 'ada-1', email: 'ada@example.com', email_verified: true, groups: ['admin'] }
const UNTRUSTED = 'cannot be trusted'
const DOWN = 'again in a minute'
const STALE = 'another browser or tab'

async function start(settings: Record<string, string> = {}) {
  const provider = startIdentityProvider()
  provider.person = ADA
  const service = await createEmailApi({ settings: { ...provider.settings, ...settings } })
  return {
    provider,
    service,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    },
  }
}

const countSessions = ({ app }: EmailApi): number =>
  app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM sessions').get()?.n ?? 0

/** What the person sees: the sign-in page with one sentence. */
async function seeAfter(service: EmailApi, provider: IdentityProvider) {
  const { status, body, jar } = await signOnBy(service, provider)
  const [, sentence] = /role="alert">([^<]*)</.exec(String(body)) ?? []
  return { status, sentence, isLoginPage: String(body).includes('<h1>Sign in</h1>'), cookies: [...jar.cookies.keys()] }
}

const NOW = Math.floor(Date.now() / 1000)
const LIES: readonly (readonly [string, Lies, number, string])[] = [
  ['another issuer in the token', { claims: { iss: 'https://evil.example' } }, 401, UNTRUSTED],
  ['another audience', { claims: { aud: 'another-client' } }, 401, UNTRUSTED],
  ['another party that may use it', { claims: { aud: [CLIENT_ID, 'b'], azp: 'b' } }, 401, UNTRUSTED],
  ['another nonce', { claims: { nonce: 'of another sign-in' } }, 401, UNTRUSTED],
  ['no nonce', { claims: { nonce: undefined } }, 401, UNTRUSTED],
  ['a token that has expired', { claims: { iat: NOW - 900, exp: NOW - 600 } }, 401, UNTRUSTED],
  ['a token of the future', { claims: { nbf: NOW + 3600 } }, 401, UNTRUSTED],
  ['no subject', { claims: { sub: undefined } }, 401, UNTRUSTED],
  ['no signature', { signature: 'none' }, 401, UNTRUSTED],
  [
    'no signature, which the metadata allow',
    { signature: 'none', metadata: { id_token_signing_alg_values_supported: ['none'] } },
    401,
    UNTRUSTED,
  ],
  ['a signature by another key', { signature: 'other-key' }, 401, UNTRUSTED],
  ['a MAC by the secret of the client', { signature: 'client-secret' }, 401, UNTRUSTED],
  ['a key that it does not publish', { header: { kid: 'unknown' } }, 401, UNTRUSTED],
  ['metadata of another issuer', { metadata: { issuer: 'https://evil.example' } }, 503, DOWN],
  ['metadata without a place to sign in', { metadata: { authorization_endpoint: undefined } }, 503, DOWN],
  ['no JSON', { token: () => new Response('<html>') }, 503, DOWN],
  ['an error of the server', { token: () => new Response('', { status: 500 }) }, 503, DOWN],
  ['a redirect', { token: () => Response.redirect('http://127.0.0.1:1/token', 307) }, 503, DOWN],
  ['a response without end', { token: () => new Response(new Uint8Array(300_000)) }, 503, DOWN],
]

describe('a provider', () => {
  for (const [what, lies, status, sentence] of LIES) {
    test(`that sends ${what} signs nobody in`, async () => {
      await using started = await start()
      started.provider.lies = lies
      const seen = await seeAfter(started.service, started.provider)
      expect(seen).toMatchObject({ status, isLoginPage: true, sentence: expect.stringContaining(sentence) })
      expect([seen.cookies.filter((name) => name === 'tassis_session'), countSessions(started.service)]).toEqual([
        [],
        0,
      ])
    })
  }

  test('that does not answer ends after five seconds, one that is down at once; password and provider work afterwards', async () => {
    await using started = await start()
    const { service, provider } = started
    await createTestUser(service.app, service.actor, 'ben@people.test', 'viewer')
    let asked = false
    provider.lies = {
      token: () => {
        asked = true
        return new Promise(() => undefined)
      },
    }
    const slow = seeAfter(service, provider)
    await eventually(() => asked)
    service.clock.advance(seconds(5))
    expect(await slow).toMatchObject({ status: 503, sentence: expect.stringContaining(DOWN) })
    provider.lies = {}
    expect((await signOnBy(service, provider)).status).toBe(303)
    await provider[Symbol.asyncDispose]()
    expect(await seeAfter(service, provider)).toMatchObject({ status: 503, isLoginPage: true })
    const form = { email: 'ben@people.test', password: PASSWORD }
    expect((await postForm(service.url, '/login', form)).status).toBe(303)
  })
})

describe('a browser', () => {
  // Proves: user-21
  test('that did not begin, begins elsewhere, is late, or comes twice is not signed in', async () => {
    await using started = await start()
    const { service, provider } = started
    const begin = async (jar = createJar(service.url)) => {
      const { headers } = await jar.get('/login/single-sign-on')
      return { jar, query: provider.authorize(headers.get('location') ?? '') }
    }
    const see = async (jar: ReturnType<typeof createJar>, query: string) => {
      const { status, body } = await jar.get(`/login/callback${query}`)
      return [status, String(body).includes(STALE)]
    }
    const [ada, eve] = [await begin(), await begin()]
    // Login CSRF: the link of an attacker in another browser.
    expect(await see(createJar(service.url), eve.query)).toEqual([401, true])
    // The state of another sign-in, which does not end that of this browser.
    expect(await see(ada.jar, eve.query)).toEqual([401, true])
    expect((await see(ada.jar, ada.query))[0]).toBe(303)
    const late = await begin()
    service.clock.advance(seconds(601))
    expect(await see(late.jar, late.query)).toEqual([401, true])
    const twice = await begin()
    const copy = createJar(service.url)
    for (const [name, value] of twice.jar.cookies) copy.cookies.set(name, value)
    expect([(await see(twice.jar, twice.query))[0], await see(copy, twice.query)]).toEqual([303, [401, true]])
    const refused = await begin()
    const state = new URLSearchParams(refused.query).get('state')
    const { status, body } = await refused.jar.get(
      `/login/callback?error=access_denied&state=${state}&error_description=<b>`,
    )
    expect([status, String(body).includes('did not let you in'), String(body).includes('<b>')]).toEqual([
      401,
      true,
      false,
    ])
  })

  test('is led to no other host afterwards', async () => {
    await using started = await start()
    for (const next of ['//evil.example', 'https://evil.example/app', '/app/../t/c/x', '/app\\@evil.example']) {
      const ended = await signOnBy(started.service, started.provider, { query: `?next=${encodeURIComponent(next)}` })
      expect([next, ended.headers.get('location')]).toEqual([next, '/app'])
    }
  })

  test('is signed out a day after it signed in, however much it is used', async () => {
    await using started = await start()
    const { service, provider } = started
    const { jar } = await signOnBy(service, provider)
    const seen: number[] = []
    for (let hour = 0; hour < 3; hour++) {
      service.clock.advance(hours(11))
      seen.push((await jar.get('/v1/auth/session')).status)
      await eventually(() => service.app.commit.barrier().then(() => true))
    }
    expect(seen).toEqual([200, 200, 401])
  })
})

describe('without passwords', () => {
  // Proves: user-23
  test('a password is no way in but for a day after `tassis users reset`, and the page says so', async () => {
    await using started = await start({ TASSIS_LOCAL_SIGN_IN: 'false' })
    const { service } = started
    const email = 'olga@people.test'
    await createTestUser(service.app, service.actor, email, 'owner')
    const signIn = async (password: string) => (await postForm(service.url, '/login', { email, password })).status
    expect([await signIn(PASSWORD), (await postForm(service.url, '/reset-password', { email })).status]).toEqual([
      401, 403,
    ])
    expect(String((await createJar(service.url).get('/login')).body)).toContain('tassis users reset')
    const token = findToken(await createUserResetLink(service.app, email))
    await postForm(service.url, '/reset-password', { token, password: 'other words that fit too' })
    expect(await signIn('other words that fit too')).toBe(303)
    service.clock.advance(hours(24))
    expect(await signIn('other words that fit too')).toBe(401)
  })

  test('an invitation is accepted with the provider, by the invited address alone', async () => {
    await using started = await start({ TASSIS_LOCAL_SIGN_IN: 'false', TASSIS_OIDC_ROLE_CLAIM: '' })
    const { service, provider } = started
    expect((await signOnBy(service, provider)).status).toBe(403)
    const token = 'x'.repeat(43)
    await service.api('POST', '/v1/team/invitations', { email: ADA.email, role: 'developer' })
    service.app.db.run('UPDATE invitations SET token_hash = ?', [createHash('sha256').update(token).digest()])
    const page = String((await createJar(service.url).get(`/join?token=${token}`)).body)
    expect(page).toContain(`/login/single-sign-on?invitation=${token}`)
    const query = `?invitation=${token}`
    provider.person = { ...ADA, sub: 'eve', email: 'eve@example.com' }
    expect((await signOnBy(service, provider, { query })).status).toBe(403)
    provider.person = ADA
    expect((await signOnBy(service, provider, { query })).status).toBe(303)
    expect((await signOnBy(service, provider)).status).toBe(303)
  })
})
