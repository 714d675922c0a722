/** @module Unmodified clients of the protocol connect by OAuth from nothing. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { TOOLS } from '#features/drop-in/mcp/tools.ts'
import { OFFERED_SCOPES } from '#features/people/team/oauth/routes.ts'
import { wrapClient } from '#test/features/drop-in/mcp/clients.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { ADA, askToken, createOauthApi, createProvider, openConsent } from './fixture.ts'

setDefaultTimeout(60_000)

let service: TestApi
beforeAll(async () => {
  service = await createOauthApi()
})
afterAll(() => service[Symbol.asyncDispose]())

const INFO = { name: 'test', version: '1.0.0' }
type Provider = ReturnType<typeof createProvider>
const CLIENTS = {
  'the current client': {
    open: (provider: Provider) =>
      new StreamableHTTPClientTransport(new URL('/mcp', service.url), { authProvider: provider as never }),
    finish: (transport: StreamableHTTPClientTransport, back: URL) => transport.finishAuth(back.searchParams),
    create: () => new Client(INFO, { versionNegotiation: { mode: 'auto' } }),
    isIssuerChecked: true,
  },
  'the earlier client': {
    open: (provider: Provider) =>
      new EarlierTransport(new URL('/mcp', service.url), { authProvider: provider as never }),
    finish: (transport: EarlierTransport, back: URL) => transport.finishAuth(back.searchParams.get('code') ?? ''),
    create: () => new EarlierClient(INFO),
    isIssuerChecked: false,
  },
}

test.each(Object.entries(CLIENTS))(
  '%s connects, lists, calls, renews and is revoked',
  async (_, { open, finish, create, isIssuerChecked }) => {
    const provider = createProvider()
    const transport = open(provider)
    const refused = await create()
      .connect(transport as never)
      .catch((error: Error) => error.constructor.name)
    expect(refused).toBe('UnauthorizedError')
    const authorizeAt = provider.stored.authorizeAt as URL
    expect(authorizeAt.searchParams.get('scope')).toBe(OFFERED_SCOPES.join(' '))

    const { to } = await (await openConsent(service, authorizeAt)).answer()
    // The client refuses a code that another server could have mixed in (RFC 9207).
    const mixed = new URL(to as URL)
    mixed.searchParams.set('iss', 'https://evil.test')
    if (isIssuerChecked)
      expect(await finish(transport as never, mixed).catch((error: Error) => error.constructor.name)).toBe(
        'IssuerMismatchError',
      )
    expect([to?.origin, to?.searchParams.get('state'), to?.searchParams.get('iss')]).toEqual([
      'http://127.0.0.1:33418',
      'state-1',
      service.url,
    ])
    await finish(transport as never, to as URL)
    // Nothing but reading was ticked.
    expect(provider.stored.tokens?.scope).toBe(OFFERED_SCOPES.filter((scope) => scope.endsWith(':read')).join(' '))

    const raw = create()
    await raw.connect(open(provider) as never)
    await using client = wrapClient(raw as never)
    expect(await client.names()).toEqual(
      TOOLS.filter(({ scopes }) => scopes.every((scope) => scope.endsWith(':read'))).map(({ name }) => name),
    )
    expect((await client.call('find_emails')).isError).toBe(false)

    // A wrong access token makes the client renew both.
    const before = provider.stored.tokens
    provider.stored.tokens = { ...(before as NonNullable<typeof before>), access_token: 'tassis_oauth_x' }
    expect((await client.call('list_domains')).isError).toBe(false)
    expect(provider.stored.tokens?.refresh_token).not.toBe(before?.refresh_token as string)

    const [key] = at((await service.api('GET', '/v1/api-keys')).body, 'data') as { id: string }[]
    expect(key).toMatchObject({ name: 'Helper', connected_by: ADA })
    await askToken(service.url, { token: provider.stored.tokens?.refresh_token ?? '' }, '/oauth/revoke')
    expect((await service.api('GET', '/v1/api-keys')).body).not.toMatchObject({ data: [{ id: key?.id }] })
    expect(await client.call('find_emails').catch((error: Error) => error.constructor.name)).not.toHaveProperty(
      'isError',
    )
  },
)

test('what is offered is what tools need', () => {
  expect(new Set(OFFERED_SCOPES)).toEqual(new Set(TOOLS.flatMap(({ scopes }) => [...scopes])))
})
