/**
 * @module Identity providers on loopback, for tests: a small one of our own, which can lie about everything, and the
 * package `oidc-provider`, which checks what we send.
 */
import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestApi } from './api.ts'
import { ask, type HttpResponse } from './users.ts'

export const CLIENT_ID = 'tassis'
export const CLIENT_SECRET = 'a secret of the client'
const KEY_ID = 'key-1'

type Claims = Record<string, unknown>

/** What it says instead of the truth. */
export interface Lies {
  /** Changes the claims of the ID token. */
  claims?: Claims
  header?: Claims
  signature?: 'none' | 'other-key' | 'client-secret'
  metadata?: Claims
  /** Replaces the response of the token endpoint. */
  token?: () => Response | Promise<Response>
}

export interface IdentityProvider extends AsyncDisposable {
  readonly issuer: string
  /** Settings of a service that trusts it. */
  readonly settings: Record<string, string>
  /** Who signs in, as claims of the ID token. */
  person: Claims
  lies: Lies
  /** Claims that only the userinfo endpoint says. */
  userinfo: Claims | undefined
  /** Query of the callback after the person signed in at the URL to which the service led. */
  authorize(url: string): string
}

const toPart = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

function signToken(header: Claims, claims: Claims, key: KeyObject, signature: Lies['signature']): string {
  const alg = { none: 'none', 'client-secret': 'HS256', 'other-key': 'RS256' }[signature ?? 'other-key']
  const text = `${toPart({ alg, kid: KEY_ID, ...header })}.${toPart(claims)}`
  if (signature === 'none') return `${text}.`
  const mac = createHmac('sha256', CLIENT_SECRET).update(text).digest()
  return `${text}.${(signature === 'client-secret' ? mac : sign('RSA-SHA256', Buffer.from(text), key)).toString('base64url')}`
}

/** Starts the provider that can lie. */
export function startIdentityProvider(): IdentityProvider {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const codes = new Map<string, URLSearchParams>()
  const server: Bun.Server<undefined> = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    routes: {
      '/.well-known/openid-configuration': () => Response.json({ ...metadata(), ...provider.lies.metadata }),
      '/jwks': () =>
        Response.json({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: KEY_ID, alg: 'RS256', use: 'sig' }] }),
      '/userinfo': () => Response.json({ sub: provider.person['sub'], ...provider.userinfo }),
      '/token': {
        async POST(request) {
          if (provider.lies.token) return provider.lies.token()
          const given = new URLSearchParams(await request.text())
          const asked = codes.get(given.get('code') ?? '')
          codes.delete(given.get('code') ?? '')
          const challenge = createHash('sha256')
            .update(given.get('code_verifier') ?? '')
            .digest('base64url')
          const [, secret] = Buffer.from(request.headers.get('authorization')?.slice(6) ?? '', 'base64')
            .toString()
            .split(':')
          const isRight = decodeURIComponent((secret ?? '').replaceAll('+', ' ')) === CLIENT_SECRET
          if (!asked || !isRight || challenge !== asked.get('code_challenge'))
            return Response.json({ error: 'invalid_grant' }, { status: 400 })
          const now = Math.floor(Date.now() / 1000)
          const claims = {
            iss: issuer,
            aud: CLIENT_ID,
            iat: now,
            exp: now + 300,
            nonce: asked.get('nonce'),
            ...(asked.has('max_age') && { auth_time: now }),
            ...provider.person,
            ...provider.lies.claims,
          }
          const key = provider.lies.signature === 'other-key' ? other.privateKey : privateKey
          const idToken = signToken(provider.lies.header ?? {}, claims, key, provider.lies.signature)
          return Response.json({ access_token: 'access', token_type: 'Bearer', expires_in: 300, id_token: idToken })
        },
      },
    },
    fetch: () => new Response('not found', { status: 404 }),
  })
  const issuer: string = `http://127.0.0.1:${server.port}`
  const metadata = (): Claims => ({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
  })
  const provider: IdentityProvider = {
    issuer,
    settings: {
      TASSIS_OIDC_ISSUER: issuer,
      TASSIS_OIDC_CLIENT_ID: CLIENT_ID,
      TASSIS_OIDC_CLIENT_SECRET: CLIENT_SECRET,
      TASSIS_OIDC_NAME: 'Example ID',
      TASSIS_OIDC_ROLE_CLAIM: 'groups',
      TASSIS_LOGINS_PER_MINUTE: '100000',
    },
    person: {},
    lies: {},
    userinfo: undefined,
    authorize(url) {
      const asked = new URL(url).searchParams
      const code = `code-${codes.size}-${Math.random()}`
      codes.set(code, asked)
      return `?${new URLSearchParams({ code, state: asked.get('state') ?? '' })}`
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  }
  return provider
}

/** A browser with a jar of cookies, which follows nothing by itself. */
export function createJar(url: string) {
  const cookies = new Map<string, string>()
  return {
    cookies,
    async get(path: string): Promise<HttpResponse> {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const response = await ask(url, 'GET', path, undefined, { cookie, accept: 'text/html' })
      for (const set of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
        if (value === '') cookies.delete(name)
        else cookies.set(name, value)
      }
      return response
    },
  }
}

/** Signs in by the provider in a browser; resolves with the response of the callback. */
export async function signOnBy(
  { url }: Pick<TestApi, 'url'>,
  provider: Pick<IdentityProvider, 'authorize'>,
  { jar = createJar(url), query = '' } = {},
) {
  const begun = await jar.get(`/login/single-sign-on${query}`)
  const location = begun.headers.get('location')
  if (begun.status !== 303 || location === null) return { ...begun, jar }
  return { ...(await jar.get(`/login/callback${provider.authorize(location)}`)), jar }
}

/** Starts `oidc-provider`, whose pages sign in whom the form names; one person has these claims. */
export async function startRealProvider(claims: Claims, redirectUri: string) {
  const { Provider } = await import('oidc-provider')
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT_ID, client_secret: CLIENT_SECRET, redirect_uris: [redirectUri] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
    pkce: { required: () => true },
    cookies: { keys: ['a key'] },
    jwks: { keys: [generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })] },
    findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: async () => ({ sub, ...claims }) }),
  })
  server.on('request', provider.callback())
  return {
    issuer,
    /** Signs in as a person at the URL to which the service led; resolves with the query of the callback. */
    async authorize(url: string, sub: string): Promise<string> {
      const jar = new Map<string, string>()
      const visit = async (to: string, form?: Record<string, string>): Promise<string> => {
        const response = await fetch(to, {
          redirect: 'manual',
          headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
          ...(form && { method: 'POST', body: new URLSearchParams(form) }),
        })
        for (const set of response.headers.getSetCookie()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
          jar.set(name, value)
        }
        const location = response.headers.get('location')
        if (location === null) throw new Error(`${response.status} ${(await response.text()).slice(0, 500)}`)
        return new URL(location, issuer).href
      }
      const login = await visit(url)
      const consent = await visit(await visit(login, { prompt: 'login', login: sub, password: 'any' }))
      const back = await visit(await visit(consent, { prompt: 'consent' }))
      return new URL(back).search
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
