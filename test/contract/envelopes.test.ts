import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { addAccount, type ContractApi, createContractApi, ROUTES, type Route, routeName } from './routes.ts'

let service: ContractApi
beforeAll(async () => {
  service = await createContractApi()
})
afterAll(() => service[Symbol.asyncDispose]())

const named = (routes: readonly Route[]) => routes.map((route) => [routeName(route), route] as const)

const keysOf = (shape: Route['shape']): string[] | undefined => {
  if (shape === 'one') return ['data']
  if (shape === 'list') return ['data', 'pagination']
  return shape === 'none' ? undefined : [...shape]
}

describe.each(named(ROUTES))('%s', (_, route) => {
  // Proves: list-1, list-2, list-10, list-12, list-16, list-17, list-18, list-19, list-20, list-21, list-22
  test('returns the keys of its envelope and no others', async () => {
    const id = route.resource ? await service.make(route.resource) : ''
    const { status, body } = await service.ask(route, id)
    const keys = body === undefined ? undefined : Object.keys(Object(body)).sort()
    expect({ status, keys }).toEqual({ status: route.status, keys: keysOf(route.shape) })
    if (keys?.includes('data')) expect(Array.isArray(at(body, 'data'))).toBe(route.shape !== 'one' && !route.isOne)
  })

  // Proves: http-2
  test('returns the same under a base URL with a trailing slash', async () => {
    const id = route.resource ? await service.make(route.resource) : ''
    const { status, body } = await service.ask({ ...route, path: `/${route.path}` }, id)
    const keys = body === undefined ? undefined : Object.keys(Object(body)).sort()
    expect({ status, keys }).toEqual({ status: route.status, keys: keysOf(route.shape) })
  })
})

// Every account begins with a stream and keys, and its audit log with the creation of a key.
const NEVER_EMPTY = ['/v1/api-keys', '/v1/audit-logs', '/v1/streams']

test.each(
  named(ROUTES.filter(({ shape, path }) => shape === 'list' && !path.includes('{id}') && !NEVER_EMPTY.includes(path))),
)('%s without rows returns an empty page, with zero pages in total', async (_, route) => {
  const { key } = await addAccount(service)
  expect((await service.api('GET', route.path, undefined, { key })).body).toEqual({
    data: [],
    pagination: { page: 1, per_page: 25, total: 0, total_pages: 0 },
  })
})

describe.each(named(ROUTES.filter(({ body }) => body)))('the body of %s', (_, route) => {
  // Proves: http-1, http-9, http-11
  test('must be JSON: malformed JSON is a 400, another content type a 415', async () => {
    const id = route.resource ? await service.make(route.resource) : ''
    const send = async (body: string, contentType: string) => {
      const response = await fetch(`${service.url}${route.path.replace('{id}', id)}`, {
        method: route.method,
        headers: { authorization: `Bearer ${service.key}`, 'content-type': contentType },
        body,
      })
      return { status: response.status, headers: response.headers, body: await response.json() }
    }
    expectError(await send('{"a": ', 'application/json'), 400, 'invalid_json')
    const notJson = await send('{}', 'text/plain')
    expectError(notJson, 415, 'unsupported_media_type')
    expect(at(notJson.body, 'message')).toContain('Content-Type: application/json')
  })

  // Proves: http-14
  test('with an unknown field beside valid ones is a 422 that names the field', async () => {
    const id = route.resource ? await service.make(route.resource) : ''
    const body = { ...Object(route.body?.()), no_such_field: 1 }
    const answer = await service.ask({ ...route, body: () => body }, id)
    expectError(answer, 422, 'validation_failed', 'no_such_field')
  })

  test.each([[null], [[]], [{}], ['text'], [1], [[1]]])(
    '%j is a 422, or accepted where the body is optional, and never a 500',
    async (body) => {
      const id = route.resource ? await service.make(route.resource) : ''
      const answer = await service.ask({ ...route, body: () => body }, id)
      if (route.isBodyOptional && /^(null|\[\]|\{\})$/.test(JSON.stringify(body)))
        return expect(answer.status).toBe(route.status)
      expect([answer.status, at(answer.body, 'type')]).toEqual([422, 'validation_error'])
    },
  )
})

const bodyless = ROUTES.filter(({ method, body }) => method === 'POST' && !body)

// Proves: http-6
test.each(named(bodyless))('%s accepts an empty body, null, {} and []', async (_, route) => {
  for (const body of [undefined, null, {}, []]) {
    const id = route.resource ? await service.make(route.resource) : ''
    expect((await service.ask({ ...route, body: () => body }, id)).status).toBe(route.status)
  }
})
