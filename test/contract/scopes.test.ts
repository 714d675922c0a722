import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import {
  type ContractApi,
  createContractApi,
  dumpDatabase,
  ROUTES,
  type Route,
  routeName,
  unknownId,
} from './routes.ts'

// The scopes as the contract lists them, independent of the service.
const SCOPES = [
  'emails:send',
  'emails:read',
  'domains:read',
  'domains:write',
  'templates:read',
  'templates:write',
  'webhooks:read',
  'webhooks:write',
  'suppressions:read',
  'suppressions:write',
  'contacts:read',
  'contacts:write',
  'inbound:read',
  'inbound:write',
  'analytics:read',
  'analytics:write',
  'mailboxes:read',
  'mailboxes:write',
  'sub_accounts:manage',
  'account:read',
  'account:admin',
  'drafts:release',
]
const ADMIN = 'account:admin'

const scopesOf = ({ scope, alsoScope }: Route): string[] => [scope, ...(alsoScope === undefined ? [] : [alsoScope])]

let service: ContractApi
beforeAll(async () => {
  service = await createContractApi()
})
afterAll(() => service[Symbol.asyncDispose]())

describe.each(ROUTES.map((route) => [routeName(route), route] as const))('%s', (_, route) => {
  // Proves: auth-16, auth-20, auth-21, auth-22, auth-23, auth-24, auth-25, auth-26, auth-27, auth-28, auth-29, auth-30
  // Proves: auth-31, auth-32, auth-34, auth-35, auth-36, auth-37, auth-38, auth-39, auth-40, auth-41, auth-42, auth-44
  // Proves: auth-33, auth-45, auth-46, error-1, error-6, insight-1
  test('is a 403 to a key with every scope but the required one, and changes nothing', async () => {
    for (const needed of scopesOf(route)) {
      const key = await service.newKey(SCOPES.filter((scope) => scope !== needed && scope !== ADMIN))
      const id = route.resource ? await service.make(route.resource) : ''
      const before = dumpDatabase(service)
      const answer = await service.ask(route, id, { key })
      expectError(answer, 403, 'insufficient_scope')
      expect(at(answer.body, 'message')).toContain(needed)
      expect(dumpDatabase(service)).toBe(before)
    }
  })

  // Proves: auth-20, auth-21, auth-22, auth-23, auth-24, auth-25, auth-26, auth-27, auth-28, auth-29, auth-30, auth-31
  // Proves: auth-32, auth-34, auth-35, auth-36, auth-37, auth-38, auth-39, auth-40, auth-41, auth-42, auth-43, auth-44
  // Proves: auth-45, auth-46, insight-1
  test.each([scopesOf(route).join(' '), ADMIN])('is open to a key with %s alone', async (scopes) => {
    const key = await service.newKey(scopes.split(' '))
    const id = route.resource ? await service.make(route.resource) : ''
    expect((await service.ask(route, id, { key })).status).toBe(route.status)
  })

  // Proves: auth-16
  test('returns 403, not 404 or 422, when the scope, the id and the body are all wrong', async () => {
    const key = await service.newKey([route.scope === 'mailboxes:read' ? 'mailboxes:write' : 'mailboxes:read'])
    const wrong = { ...route, body: () => ({ unknown: true }) }
    const hasBody = route.method !== 'GET'
    const answer = await service.ask(hasBody ? wrong : route, unknownId(route.resource ?? 'email'), { key })
    expectError(answer, 403, 'insufficient_scope')
  })
})

// Proves: auth-48, auth-49
test('the scopes are those of the contract, and a key created without scopes gets all scopes of its creator', async () => {
  const all = await service.api('POST', '/v1/api-keys', { name: 'all' })
  expect(at(all.body, 'data', 'scopes')).toEqual(SCOPES)
  for (const scope of SCOPES) {
    const one = await service.api('POST', '/v1/api-keys', { name: 'one', scopes: [scope] })
    expect(at(one.body, 'data', 'scopes')).toEqual([scope])
  }
  const unknown = await service.api('POST', '/v1/api-keys', { name: 'x', scopes: ['emails:send', 'emails:write'] })
  expectError(unknown, 422, 'invalid_scope', 'scopes')
  for (const scope of SCOPES) expect(at(unknown.body, 'message')).toContain(scope)
})
