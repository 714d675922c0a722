import { afterAll, describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { AppError, unauthorized } from '#platform/errors.ts'
import { requires } from '#platform/http/access.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import { authenticatedAs } from '#platform/http/request-context.ts'
import { startTestServer, type TestActor } from './fixture.ts'

const PARCEL: Dialect = {
  name: 'parcel',
  speaks: (path) => path.startsWith('/parcel/'),
  readApiKey(headers) {
    const key = headers.get('x-parcel-token')
    if (key === null) throw unauthorized()
    return key
  },
  toErrorResponse: ({ status, message }) => ({ status, headers: { 'x-form': 'parcel' }, body: { Reason: message } }),
}

const parcelRoutes = () =>
  new Elysia({ prefix: '/parcel' })
    .use(authenticatedAs<TestActor>())
    .post('/send', ({ actor, body }) => ({ from: actor.name, body }), { detail: requires('boxes:write') })
    .post(
      '/lose',
      () => {
        throw new AppError(409, 'lost', 'The parcel is lost.')
      },
      { detail: requires('boxes:write') },
    )

const server = startTestServer({ dialects: [PARCEL], routes: [parcelRoutes()] })
afterAll(() => server[Symbol.asyncDispose]())

const post = (token: string, body: object = {}) => ({
  method: 'POST',
  headers: { 'x-parcel-token': token, 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

describe('a dialect', () => {
  test('takes the key where its clients put it, and fields that it does not know', async () => {
    const response = await server.request('/parcel/send?any=1', post('tassis_live_writer', { Any: 1 }))
    expect([response.status, await response.json()]).toEqual([200, { from: 'writer', body: { Any: 1 } }])
  })

  const writer = post('tassis_live_writer')
  test.each<[string, string, RequestInit, number]>([
    ['without a key', '/parcel/send', { method: 'POST', headers: {} }, 401],
    ['with the key of another form', '/parcel/send', { method: 'POST' }, 401],
    ['without the scope', '/parcel/send', post('tassis_live_reader'), 403],
    ['with an error of the handler', '/parcel/lose', writer, 409],
    ['with a broken body', '/parcel/send', { ...writer, body: '{' }, 400],
    ['for no route', '/parcel/none', writer, 404],
    ['with a wrong method', '/parcel/send', { ...writer, method: 'DELETE' }, 405],
  ])('answers a request %s in its own form', async (_, path, init, status) => {
    const response = await server.request(path, init)
    expect([response.status, response.headers.get('x-form'), Object.keys((await response.json()) as object)]).toEqual([
      status,
      'parcel',
      ['Reason'],
    ])
  })

  test('has a guest without a key, with its scopes and the bodies of strangers only', async () => {
    const guest: TestActor = { name: 'guest', scopes: ['boxes:write'] }
    const dialect: Dialect<TestActor> = {
      ...PARCEL,
      guestOf: (headers) => (headers.get('x-parcel-token') === 'test' ? guest : undefined),
    }
    await using server = startTestServer({ dialects: [dialect], routes: [parcelRoutes()] })
    const send = async (init: RequestInit) => (await server.request('/parcel/send', init)).status
    const large = { text: 'x'.repeat(70_000) }
    expect([
      await send(post('test')),
      await send(post('test', large)),
      await send(post('tassis_live_writer', large)),
    ]).toEqual([200, 413, 200])
    expect(await send(post('other'))).toBe(401)
  })

  test('needs a declared scope for each route', () => {
    const undeclared = new Elysia({ prefix: '/parcel' }).get('/open', () => 'open')
    expect(() => startTestServer({ dialects: [PARCEL], routes: [undeclared] })).toThrow('GET /parcel/open')
  })
})
