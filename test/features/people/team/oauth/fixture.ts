/** @module A service with a person, a browser played over HTTP, and what an MCP client stores, for tests of OAuth. */
import { createTestApi, type TestApi, type TestApiOptions } from '#test/support/api.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createTestUser, postForm, signIn } from '#test/support/users.ts'

export const ADA = 'ada@people.test'
/** Where the program of the tests waits for its code. */
export const CALLBACK = 'http://127.0.0.1:33418/callback'

/** A service whose public URL is the one at which it listens, with an owner. */
export async function createOauthApi(options: TestApiOptions = {}): Promise<TestApi> {
  const port = await findFreePort()
  const settings = { TASSIS_PUBLIC_URL: `http://127.0.0.1:${port}`, TASSIS_LOGINS_PER_MINUTE: '1000' }
  const service = await createTestApi({ port, ...options, settings: { ...settings, ...options.settings } })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  return service
}

/** What a client of the protocol stores between its steps. */
export function createProvider(redirectUrl = CALLBACK) {
  const stored: { client?: unknown; tokens?: Tokens; verifier?: string; authorizeAt?: URL; discovery?: unknown } = {}
  const store =
    (name: keyof typeof stored) =>
    (value: unknown): void =>
      void Object.assign(stored, { [name]: value })
  return {
    stored,
    redirectUrl,
    clientMetadata: { client_name: 'Helper', redirect_uris: [redirectUrl], token_endpoint_auth_method: 'none' },
    state: () => 'state-1',
    clientInformation: () => stored.client as never,
    saveClientInformation: store('client'),
    tokens: () => stored.tokens as never,
    saveTokens: store('tokens'),
    redirectToAuthorization: store('authorizeAt'),
    saveCodeVerifier: store('verifier'),
    codeVerifier: () => stored.verifier ?? '',
    discoveryState: () => stored.discovery as never,
    saveDiscoveryState: store('discovery'),
  }
}

export interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
  readonly scope: string
  readonly expires_in: number
}

export interface OpenConsent {
  readonly status: number
  readonly html: string
  /** Sends the form as it is, with these boxes changed; resolves with where it leads. */
  answer(change?: Record<string, string | undefined>, headers?: Record<string, string>): Promise<Answer>
}
export interface Answer {
  readonly status: number
  readonly to: URL | undefined
  readonly html: string
}

/** Opens the page to which a program sends the browser of a signed-in person. */
export async function openConsent(
  service: Pick<TestApi, 'url'>,
  authorizeAt: string | URL,
  email = ADA,
  query = '',
): Promise<OpenConsent> {
  const { cookie } = await signIn(service, email)
  const begun = await fetch(authorizeAt, { redirect: 'manual', headers: { cookie } })
  const set = begun.headers.get('set-cookie')?.split(';')[0]
  if (begun.status !== 303 || set === undefined)
    throw new Error(`${begun.status} ${begun.headers.get('location')} ${await begun.text()}`)
  const cookies = `${cookie}; ${set}`
  const path = begun.headers.get('location') ?? ''
  const shown = await fetch(new URL(`${path}${query}`, service.url), {
    redirect: 'manual',
    headers: { cookie: cookies },
  })
  const html = await shown.text()
  const fields = Object.fromEntries(
    [...html.matchAll(/<input type="(?:hidden|checkbox)" name="([^"]+)" value="([^"]*)"( checked)?/g)]
      .filter(([tag, , , checked]) => tag.includes('hidden') || checked)
      .map(([, name = '', value = '']) => [name, value]),
  )
  return {
    status: shown.status,
    html,
    async answer(change = {}, headers = {}) {
      const chosen = Object.entries({ ...fields, decision: 'allow', ...change }).filter(
        ([, value]) => value !== undefined,
      )
      const sent = await postForm(service.url, path, Object.fromEntries(chosen) as Record<string, string>, {
        cookie: cookies,
        ...headers,
      })
      const location = sent.headers.get('location')
      return {
        status: sent.status,
        to: location === null ? undefined : new URL(location, service.url),
        html: String(sent.body),
      }
    },
  }
}

export interface JsonAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

async function readJson(response: Response): Promise<JsonAnswer> {
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, unknown>,
  }
}

export const register = async (url: string, redirect_uris: unknown, name = 'Helper'): Promise<JsonAnswer> =>
  readJson(
    await fetch(`${url}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ client_name: name, redirect_uris }),
    }),
  )

export const askToken = async (
  url: string,
  fields: Record<string, string>,
  path = '/oauth/token',
): Promise<JsonAnswer> => readJson(await fetch(`${url}${path}`, { method: 'POST', body: new URLSearchParams(fields) }))

export const VERIFIER = 'v'.repeat(43)
export const CHALLENGE = new Bun.CryptoHasher('sha256').update(VERIFIER).digest('base64url')

/** The URL to which a program sends the browser; a change of undefined leaves a parameter out. */
export function authorizeUrl(url: string, clientId: string, change: Record<string, string | undefined> = {}): string {
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: CALLBACK,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 's',
    resource: `${url}/mcp`,
    ...change,
  }
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return `${url}/oauth/authorize?${new URLSearchParams(given)}`
}

/** A registered client with a code that was not exchanged. */
export async function getCode(
  service: Pick<TestApi, 'url'>,
  change: Record<string, string | undefined> = {},
  email = ADA,
) {
  const clientId = String((await register(service.url, [CALLBACK])).body['client_id'])
  const { to } = await (await openConsent(service, authorizeUrl(service.url, clientId), email)).answer(change)
  const code = to?.searchParams.get('code') ?? ''
  const exchange = {
    grant_type: 'authorization_code',
    code,
    client_id: clientId,
    redirect_uri: CALLBACK,
    code_verifier: VERIFIER,
  }
  return { clientId, code, exchange }
}

/** A connected client with its tokens. */
export async function connectClient(
  service: Pick<TestApi, 'url'>,
  change: Record<string, string | undefined> = {},
  email = ADA,
) {
  const { clientId, exchange } = await getCode(service, change, email)
  const { status, body } = await askToken(service.url, exchange)
  if (status !== 200) throw new Error(JSON.stringify(body))
  return { clientId, exchange, tokens: body as unknown as Tokens }
}

/** The status of a call at /mcp, or elsewhere. */
export async function callMcp(
  { url }: Pick<TestApi, 'url'>,
  token: string,
  method = 'tools/list',
  params: object = {},
) {
  const response = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return readJson(response)
}
