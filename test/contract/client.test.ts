/** @module Every route of accounts and people through the method that the client library has for it. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { API } from '#client/api.ts'
import { createClient, parseRequests } from '#client/client.ts'
import { Tassis } from '#client/index.ts'
import { OPERATOR_API, type OperatorApi } from '#client/operator-api.ts'
import { seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createAuthenticator } from '#test/support/authenticator.ts'
import { createCode } from '#test/support/operator.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'
import { readDescriptions } from '../../scripts/client.ts'
import {
  agePastLimits,
  buildPath,
  type ContractApi,
  createContractApi,
  createForeignKey,
  type Resource,
  ROUTES,
  type Route,
  routeName,
} from './routes.ts'

type Arguments = readonly unknown[]

interface ClientMethod {
  readonly name: string
  /** Method and path with `{id}`. */
  readonly route: string
  readonly traits: readonly string[]
}

const listMethods = (table: Readonly<Record<string, string>>): ClientMethod[] =>
  Object.entries(table).flatMap(([resource, line]) =>
    Object.entries(parseRequests(line)).map(([name, { method, path, traits }]) => ({
      name: `${resource}.${name}`,
      route: `${method} ${path}`,
      traits,
    })),
  )

const METHODS = listMethods(API)

/** What only signed-in users may call; ROUTES has the others that need a key. */
const OF_PEOPLE: readonly (readonly [route: string, resource: Resource | undefined, input?: unknown])[] = [
  ['POST /v1/domains/{id}/test-email', undefined, {}],
  ['POST /v1/newsletters/{id}/test-email', 'newsletter', {}],
  ['POST /v1/inbound-routes/secret/reveal', undefined],
  ['POST /v1/inbound-routes/secret/rotate', undefined],
  ['POST /v1/webhooks/{id}/secret/reveal', 'webhook'],
  ['POST /v1/webhooks/{id}/secret/rotate', 'webhook', {}],
]

let service: ContractApi
let lastStatus = 0
beforeAll(async () => {
  service = await createContractApi({ TASSIS_PUBLIC_URL: 'http://localhost:8080' })
})
afterAll(() => service[Symbol.asyncDispose]())

const connect = (options: { readonly key?: string; readonly headers?: Readonly<Record<string, string>> }): Tassis =>
  new Tassis({
    url: service.url,
    retries: 0,
    ...options,
    async fetch(url, init) {
      const response = await fetch(url, init)
      lastStatus = response.status
      return response
    },
  })

/** Calls a method by its name. */
async function call(tassis: Tassis, name: string, args: Arguments): Promise<unknown> {
  const [resource = '', method = ''] = name.split('.')
  const methods = (tassis as unknown as Record<string, Record<string, (...given: Arguments) => unknown>>)[resource]
  const result = await methods?.[method]?.(...args)
  return result instanceof Response ? result.text() : result
}

/** The arguments with which a method makes the request of a route. */
async function buildArguments(route: Route, { traits, route: template }: ClientMethod): Promise<Arguments> {
  const [path = '', search] = buildPath(route, route.resource ? await service.make(route.resource) : '').split('?')
  const pattern = template.replace(/^\S+ /, '').replace(/\{\w+\}/g, '([^/]+)')
  const ids = new RegExp(`^${pattern}$`).exec(path)?.slice(1).map(decodeURIComponent) ?? []
  const query = Object.fromEntries(new URLSearchParams(search))
  const body = typeof route.csv === 'function' ? route.csv() : route.body?.()
  const input = traits.includes('body') ? [body] : traits.includes('query') || traits.includes('pages') ? [query] : []
  return [...ids, ...input, { headers: route.headers }]
}

describe.each(ROUTES.map((route) => [routeName(route), route] as const))('%s', (name, route) => {
  test('has a method that makes a valid request', async () => {
    const method = METHODS.find((known) => known.route === name)
    if (!method) throw new Error(`no method makes ${name}`)
    await agePastLimits(service)
    const key = route.endsAccount ? await createForeignKey(service) : service.key
    const result = await call(connect({ key }), method.name, await buildArguments(route, method))
    expect(lastStatus).toBe(route.status)
    const isText = route.csv === 'answer'
    const keys = { one: ['data'], list: ['data', 'pagination'], none: undefined }[String(route.shape)] ?? route.shape
    if (isText) expect(result).toBeString()
    else expect(result && Object.keys(result).sort()).toEqual(route.shape === 'none' ? undefined : keys)
  })
})

test('what signed-in users alone may call is called through the client in a session', async () => {
  await createTestUser(service.app, service.actor, 'ada@people.test', 'owner')
  const { headers } = await signIn(service, 'ada@people.test')
  const tassis = connect({ headers })
  const verified = (await tassis.domains.list()).data.find(({ domain }) => domain === 'sender.test')
  for (const [route, resource, ...input] of OF_PEOPLE) {
    const ids = route.includes('{id}') ? [resource ? await service.make(resource) : verified?.id] : []
    const method = METHODS.find((known) => known.route === route)
    expect([route, at(await call(tassis, method?.name ?? '', [...ids, ...input]), 'data')]).toEqual([
      route,
      expect.any(Object),
    ])
  }
  expect((await new Tassis({ url: service.url }).billing.listPlans()).data.length).toBeGreaterThan(0)
})

test('a person signs in, manages sessions, password and authenticator app, and signs out through the client', async () => {
  const email = 'grace@people.test'
  await createTestUser(service.app, service.actor, email, 'owner')
  let session: Record<string, string> = {}
  const called = new Set<string>()
  const cookies = new Map<string, string>()
  const { auth } = createClient<OperatorApi>(OPERATOR_API, {
    url: service.url,
    async fetch(url, init) {
      called.add(`${init.method} ${new URL(url).pathname.replace(/[0-9a-f-]{36}/, '{id}')}`)
      const response = await fetch(url, {
        ...init,
        headers: { ...(init.headers as Record<string, string>), ...session },
      })
      for (const set of response.headers.getSetCookie()) {
        const [name = '', value = ''] = (set.split(';')[0] ?? '').split('=')
        cookies.set(name, value)
      }
      session = { ...session, cookie: [...cookies].map((pair) => pair.join('=')).join('; ') }
      return response
    },
  })
  const createNextCode = (secret: string): string => {
    service.clock.advance(seconds(30))
    return createCode(secret, service.clock.now())
  }
  const { csrf_token: token } = (await auth.login({ email, password: PASSWORD })).data
  session = { ...session, 'x-csrf-token': token }
  const { account } = (await auth.getSession()).data
  await auth.setSession({ account_id: account.id })
  await auth.confirmSessionPassword({ password: PASSWORD })
  await signIn(service, email)
  const other = (await auth.listSessions()).data.find(({ is_current: isCurrent }) => !isCurrent)
  await auth.deleteSession(other?.id ?? '')
  await signIn(service, email)
  expect((await auth.deleteSessions()).data.ended).toBe(1)
  const { secret } = (await auth.createTotp({ password: PASSWORD })).data
  await auth.confirmTotp({ code: createNextCode(secret) })
  await auth.confirmSessionCode({ code: createNextCode(secret) })
  const authenticator = createAuthenticator()
  const origin = new URL(service.app.config.publicUrl)
  type Options = Parameters<typeof authenticator.create>[0] & Parameters<typeof authenticator.use>[0]
  const sign = async () => authenticator.use((await auth.createPasskeyChallenge()).data.options as Options, origin)
  const created = authenticator.create((await auth.createPasskeyOptions()).data.options as Options, origin)
  const { id: passkey } = (await auth.createPasskey({ name: 'Key', credential: created })).data
  await auth.confirmSessionPasskey({ credential: await sign() })
  const { csrf_token: renewed } = (await auth.loginWithPasskey({ credential: await sign() })).data
  session = { ...session, 'x-csrf-token': renewed }
  expect((await auth.listPasskeys()).data).toMatchObject([{ id: passkey, name: 'Key' }])
  await auth.deletePasskey(passkey)
  await auth.renewRecoveryCodes({ password: PASSWORD, code: createNextCode(secret) })
  await auth.deleteTotp({ password: PASSWORD, code: createNextCode(secret) })
  await auth.setPassword({ current_password: PASSWORD, password: 'other words that fit too' })
  expect(await auth.logout()).toBeUndefined()
  expect([...called].toSorted()).toEqual(
    listMethods({ auth: OPERATOR_API.auth })
      .map(({ route }) => route)
      .toSorted(),
  )
})

test('no route of the public description is left out above', () => {
  const called = [...ROUTES.map(routeName), ...OF_PEOPLE.map(([route]) => route), 'GET /v1/billing/plans']
  expect(METHODS.map(({ route }) => route).filter((route) => !called.includes(route))).toEqual([])
})

test('each operation of both descriptions has one method, and no two have the same name', async () => {
  const { api, operators } = await readDescriptions()
  for (const [{ paths }, table] of [
    [api, API],
    [operators, OPERATOR_API],
  ] as const) {
    const operations = Object.entries(paths).flatMap(([path, verbs]) =>
      Object.keys(verbs).map((verb) => `${verb.toUpperCase()} ${path}`),
    )
    expect(
      listMethods(table)
        .map(({ route }) => route)
        .toSorted(),
    ).toEqual(operations.toSorted())
  }
  const names = [...METHODS, ...listMethods(OPERATOR_API)].map(({ name }) => name)
  expect(names.length).toBe(new Set(names).size)
})
