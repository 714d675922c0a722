import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TeamRole } from '#features/core/app/app.ts'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { type BrowserSession, createTestUser, signIn } from '#test/support/users.ts'
import {
  type ContractApi,
  createContractApi,
  dumpDatabase,
  listOpenedRoutes,
  ROUTES,
  type Route,
  routeName,
  SESSION_ROUTES,
  SUPPORT_ROUTES,
} from './routes.ts'

const ROLES = ['owner', 'admin', 'developer', 'viewer', 'support'] as const

/** Whether a role may use a route according to the contract, independent of the service. */
function isAllowed(role: TeamRole, route: Route): boolean {
  const { scope, alsoScope, ownersOnly } = route
  if (ownersOnly) return role === 'owner'
  const scopes = [scope, ...(alsoScope === undefined ? [] : [alsoScope])]
  switch (role) {
    case 'owner':
    case 'admin':
      return true
    case 'developer':
      return !scopes.some((needed) => needed === 'account:admin' || needed === 'sub_accounts:manage')
    case 'viewer':
      return scopes.every((needed) => needed.endsWith(':read'))
    case 'support':
      return SUPPORT_ROUTES.includes(routeName(route))
  }
}

let service: ContractApi
const sessions = new Map<TeamRole, BrowserSession>()
beforeAll(async () => {
  service = await createContractApi()
  for (const role of ROLES) {
    const email = `${role}@people.test`
    await createTestUser(service.app, service.actor, email, role)
    sessions.set(role, await signIn(service, email))
  }
})
afterAll(() => service[Symbol.asyncDispose]())

/** Signs in as a user with this role in a new account. */
async function signInElsewhere(role: TeamRole): Promise<BrowserSession> {
  const email = `other-${role}@people.test`
  await createTestUser(service.app, await service.newAccount(), email, role)
  return signIn(service, email)
}

/** Sends a request with the session of a role, as our pages do. */
async function requestAs(role: TeamRole, route: Route) {
  const session = route.endsAccount && isAllowed(role, route) ? await signInElsewhere(role) : sessions.get(role)
  const headers = session?.headers
  if (!headers) throw new Error(`${role} is not signed in`)
  const id = route.resource ? await service.make(route.resource) : ''
  // The export is recorded after the response.
  await service.app.commit.barrier()
  const before = dumpDatabase(service)
  const answer = await service.ask(route, id, { key: null, headers })
  return { answer, isUnchanged: dumpDatabase(service) === before }
}

describe.each(ROUTES.map((route) => [routeName(route), route] as const))('%s', (_, route) => {
  // Proves: auth-51, user-14
  test.each(ROLES.filter((role) => isAllowed(role, route)))('is open to the %s', async (role) => {
    const { answer } = await requestAs(role, route)
    expect({ status: answer.status, body: answer.status === route.status ? undefined : answer.body }).toEqual({
      status: route.status,
      body: undefined,
    })
  })

  const excluded = ROLES.filter((role) => !isAllowed(role, route))
  if (excluded.length === 0) return
  test(`is a 403 to ${excluded.join(', ')}, and changes nothing`, async () => {
    for (const role of excluded) {
      const { answer, isUnchanged } = await requestAs(role, route)
      expectError(answer, 403, 'insufficient_role')
      expect(at(answer.body, 'message')).not.toMatch(/scope|key/i)
      expect(isUnchanged).toBe(true)
    }
  })
})

// Proves: user-14
test('every authenticated route under /v1 is in the matrix, so that a new one must state its roles', () => {
  // What signed-in users alone may do is tested with each such route.
  const known = new Set([...ROUTES.map(routeName), ...SESSION_ROUTES])
  const unknown = listOpenedRoutes(service).filter((name) => / \/v1\//.test(name) && !known.has(name))
  expect(unknown.filter((name) => !/ \/v1\/(?:auth\/|billing\/plans$)/.test(name))).toEqual([])
})

// Proves: key-5
test('a developer and a viewer cannot create API keys', async () => {
  for (const role of ['developer', 'viewer'] as const) {
    const answer = await sessions.get(role)?.ask('POST', '/v1/api-keys', { name: 'mine' })
    if (!answer) throw new Error(`${role} is not signed in`)
    expectError(answer, 403, 'insufficient_role')
    expect(at(answer.body, 'message')).toContain(role)
  }
})
