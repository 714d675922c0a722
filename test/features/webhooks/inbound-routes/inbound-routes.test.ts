/** Inbound routes as a resource; `route-webhooks.test.ts` has their webhooks. */

import { describe, expect, test } from 'bun:test'
import { findRoute, matchRoute, matchTypeName, type RouteRule } from '#features/receiving/route-rules/rows.ts'
import { deleteDomain } from '#features/sending/emails/delete-domain.ts'
import { MAX_ROUTES, parsePattern, removeOrphanedRoutes } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { AppError } from '#platform/errors.ts'
import { newUuid } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import { INBOUND, type Json, startRouteService } from '#test/features/webhooks/inbound-routes/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectError, NOW, shareEmailApi, UUID } from '#test/support/email-api.ts'

const service = shareEmailApi(() => startRouteService({ sendsWebhooks: false }))

const AT = new Date(NOW).toISOString()
const UNUSED_URL = 'https://127.0.0.1/in'

/** All active routes of a domain. */
const listRouteRules = (domainId: number): RouteRule[] =>
  service.app.db
    .query<Omit<RouteRule, 'matchType'> & { matchType: number }, [number]>(
      `SELECT id, uuid, account_id AS accountId, domain_id AS domainId, pattern, match_type AS matchType, priority, webhook_url AS webhookUrl, forward_to AS forwardTo
       FROM inbound_routes WHERE domain_id = ? AND is_active = 1`,
    )
    .all(domainId)
    .map((row) => ({ ...row, matchType: matchTypeName(row.matchType) }))

/** The pattern of the route that matches a local part now, found among all routes or among the candidates. */
function findMatch(localPart: string): string | undefined {
  const { app } = service
  const row = app.db.query<{ id: number }, [string]>('SELECT id FROM domains WHERE domain = ?').get(INBOUND)
  const route = findRoute(app.db, row?.id ?? 0, localPart)
  expect(route).toEqual(matchRoute(listRouteRules(row?.id ?? 0), localPart))
  return route?.pattern
}

// Proves: inbound-12
test('a route is created, read, listed, changed in part and deleted, each change with an audit row', async () => {
  const { api, actor, domainId, clock } = service
  const created = await api('POST', '/v1/inbound-routes', {
    domain_id: domainId,
    pattern: `Support@${INBOUND.toUpperCase()}`,
    match_type: 'exact',
    priority: 5,
    webhook_url: UNUSED_URL,
  })
  const id = String(at(created.body, 'data', 'id'))
  const record = {
    id: expect.stringMatching(UUID),
    account_id: actor.accountUuid,
    domain_id: domainId,
    pattern: `Support@${INBOUND.toUpperCase()}`,
    match_type: 'exact',
    priority: 5,
    webhook_url: UNUSED_URL,
    is_active: true,
    forward_to: [],
    failure_count: 0,
    last_failure_at: null,
    last_failure_reason: null,
    last_success_at: null,
    created_at: AT,
    updated_at: AT,
  }
  expect({ status: created.status, body: created.body }).toEqual({ status: 201, body: { data: record } })
  expect((await api('GET', `/v1/inbound-routes/${id}`)).body).toEqual({ data: record })
  expect((await api('GET', '/v1/inbound-routes')).body).toEqual({
    data: [record],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
  clock.advance(seconds(5))
  const later = new Date(NOW + 5000).toISOString()
  const changed = await api('PUT', `/v1/inbound-routes/${id}`, { priority: -1 })
  expect({ status: changed.status, body: changed.body }).toEqual({
    status: 200,
    body: { data: { ...record, priority: -1, updated_at: later } },
  })
  const whole = { pattern: 'sales-', match_type: 'prefix', priority: 0, webhook_url: null, is_active: false }
  expect((await api('PUT', `/v1/inbound-routes/${id}`, { domain_id: domainId, ...whole })).body).toEqual({
    data: { ...record, ...whole, updated_at: later },
  })
  expect(await api('DELETE', `/v1/inbound-routes/${id}`)).toMatchObject({ status: 204, body: undefined })
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PUT', '', { priority: 1 }],
    ['DELETE', '', undefined],
    ['GET', '/deliveries', undefined],
    ['POST', '/replay', { from_seq: 1 }],
  ] as const)
    expectError(await api(method, `/v1/inbound-routes/${id}${path}`, body), 404, 'inbound_route_not_found')
  const audited = at((await api('GET', '/v1/audit-logs?per_page=4')).body, 'data') as Json[]
  expect(audited.map(({ action, resource_id }) => [action, resource_id])).toEqual(
    ['deleted', 'updated', 'updated', 'created'].map((what) => [`inbound_route.${what}`, id]),
  )
})

// Proves: inbound-12
test('without priority, URL and is_active a route has priority 0, posts nothing and is active', async () => {
  const { api, domainId } = service
  const { body } = await api('POST', '/v1/inbound-routes', { domain_id: domainId, match_type: 'catch_all' })
  expect(at(body, 'data')).toMatchObject({
    pattern: '',
    match_type: 'catch_all',
    priority: 0,
    webhook_url: null,
    is_active: true,
  })
  const id = at(body, 'data', 'id')
  expect((await api('GET', `/v1/inbound-routes/${id}/deliveries`)).body).toEqual({
    data: [],
    pagination: { page: 1, per_page: 25, total: 0, total_pages: 0 },
  })
  for (const path of ['replay', `deliveries/${id}/replay`])
    expectError(
      await api('POST', `/v1/inbound-routes/${id}/${path}`, path === 'replay' ? { from_seq: 1 } : undefined),
      409,
      'webhook_inactive',
    )
})

// Proves: inbound-13
test('match_type catchall becomes catch_all', async () => {
  const route = await service.addRoute({ match_type: 'catchall', pattern: '*' })
  expect(route).toMatchObject({ match_type: 'catch_all', pattern: '*' })
  expect(await service.put(route.id, { match_type: 'catchall' })).toMatchObject({ match_type: 'catch_all' })
})

describe('422 and nothing is stored for', () => {
  const UNKNOWN = { domain_id: '01234567-89ab-7def-8123-456789abcdef' }
  const CASES: readonly (readonly [what: string, change: Json, code: string, field: string, message?: string])[] = [
    ['a domain that does not exist', UNKNOWN, 'domain_not_found', 'domain_id'],
    [
      'a domain by its name',
      { domain_id: INBOUND },
      'domain_not_found',
      'domain_id',
      'domain_id must be the id of a domain, not its name; GET /v1/domains lists them.',
    ],
    [
      'an unknown match type',
      { match_type: 'regex' },
      'validation_failed',
      'match_type',
      'match_type must be one of exact, prefix, catch_all (also spelled catchall).',
    ],
    ['a pattern of another domain', { pattern: 'support@elsewhere.test' }, 'validation_failed', 'pattern'],
    ['an empty pattern', { pattern: '' }, 'validation_failed', 'pattern'],
    ['a URL that is not https', { webhook_url: 'http://example.com/' }, 'invalid_url', 'webhook_url'],
    ['a URL with credentials', { webhook_url: 'https://a:b@example.com/' }, 'invalid_url', 'webhook_url'],
    ['an empty URL', { webhook_url: '' }, 'invalid_url', 'webhook_url'],
  ]
  // Proves: inbound-12
  test.each(CASES)('%s', async (_, change, code, field, ...[message]) => {
    const { api, domainId, addRoute } = service
    const made = await addRoute({ pattern: 'kept' })
    const body = { domain_id: domainId, pattern: 'support', match_type: 'exact', ...change }
    const refused = await api('POST', '/v1/inbound-routes', body)
    expectError(refused, 422, code, field)
    if (message) expect(at(refused.body, 'message')).toBe(message)
    expectError(await api('PUT', `/v1/inbound-routes/${made.id}`, change), 422, code, field)
    expect((await api('GET', '/v1/inbound-routes')).body).toMatchObject({ data: [made], pagination: { total: 1 } })
  })

  test('a URL that resolves to a private address, unless the operator allows it', async () => {
    await using service = await startRouteService({ settings: { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' } })
    const { api, domainId } = service
    const body = { domain_id: domainId, pattern: 'support', match_type: 'exact', webhook_url: 'https://10.0.0.1/' }
    expectError(await api('POST', '/v1/inbound-routes', body), 422, 'invalid_url', 'webhook_url')
  })

  test('a change without fields, and a change after which the route has no pattern', async () => {
    const { api, addRoute } = service
    const { id } = await addRoute({ match_type: 'catch_all', pattern: '' })
    expectError(await api('PUT', `/v1/inbound-routes/${id}`, {}), 422, 'validation_failed', 'body')
    expectError(
      await api('PUT', `/v1/inbound-routes/${id}`, { match_type: 'exact' }),
      422,
      'validation_failed',
      'pattern',
    )
  })

  // Proves: inbound-12
  test("a domain of another account; a request for another account's route is a 404", async () => {
    const { api, domainId, addRoute } = service
    const key = await service.newKey([], await service.newAccount())
    const body = { domain_id: domainId, pattern: 'theirs', match_type: 'exact' }
    expectError(await api('POST', '/v1/inbound-routes', body, { key }), 422, 'domain_not_found', 'domain_id')
    const { id } = await addRoute()
    const put = await api('PUT', `/v1/inbound-routes/${id}`, { pattern: '' }, { key })
    expectError(put, 404, 'inbound_route_not_found')
  })
})

// Proves: inbound-12
test('a domain has one route per pattern and match type, in any spelling: the 409 names the existing one', async () => {
  const { api, domainId, addRoute } = service
  const { id } = await addRoute()
  const second = { domain_id: domainId, pattern: `SUPPORT@${INBOUND}`, match_type: 'exact' }
  const refused = await api('POST', '/v1/inbound-routes', second)
  expectError(refused, 409, 'inbound_route_exists')
  expect(at(refused.body, 'message')).toContain(id)
  const prefix = await addRoute({ match_type: 'prefix' })
  const all = await addRoute({ match_type: 'catch_all', pattern: 'a' })
  const another = await api('POST', '/v1/inbound-routes', { ...second, match_type: 'catchall', pattern: 'b' })
  expectError(another, 409, 'inbound_route_exists')
  expect(at(another.body, 'message')).toBe(
    `The domain ${INBOUND} has a catch_all route already; change ${all.id} instead.`,
  )
  expectError(await api('PUT', `/v1/inbound-routes/${prefix.id}`, { match_type: 'exact' }), 409, 'inbound_route_exists')
  // A route does not conflict with itself.
  await service.put(id, { pattern: 'Support@' })
})

// Proves: inbound-12
test('an account has at most 1,000 routes', async () => {
  const { api, app, actor, addRoute, domainId } = service
  const { id } = await addRoute()
  for (let n = 1; n < MAX_ROUTES; n++)
    app.db.run(
      `INSERT INTO inbound_routes (uuid, account_id, domain_id, pattern, given_pattern, match_type, priority, created_at, updated_at)
       SELECT ?, ?, domain_id, ?, 'x', 0, 0, 1, 1 FROM inbound_routes LIMIT 1`,
      [newUuid(), actor.accountId, `r${n}`],
    )
  const more = { domain_id: domainId, pattern: 'more', match_type: 'exact' }
  expectError(await api('POST', '/v1/inbound-routes', more), 409, 'inbound_route_limit_reached')
  expect((await api('DELETE', `/v1/inbound-routes/${id}`)).status).toBe(204)
  expect((await api('POST', '/v1/inbound-routes', more)).status).toBe(201)
})

// Proves: inbound-13
test('mail matches active routes only, in the order of priority and match type', async () => {
  const { addRoute, put } = service
  await addRoute({ match_type: 'catch_all', pattern: '', webhook_url: null })
  const prefix = await addRoute({ match_type: 'prefix', pattern: 'sup', webhook_url: null })
  const exact = await addRoute({ webhook_url: null })
  await addRoute({ pattern: 'other', webhook_url: null })
  expect(['support', 'SUPPORT+1', 'supper', 'info'].map(findMatch)).toEqual(['support', 'support', 'sup', ''])
  await put(exact.id, { is_active: false })
  expect(findMatch('support')).toBe('sup')
  await put(prefix.id, { priority: 1 })
  expect(findMatch('support')).toBe('')
})

test('the index finds the same route as a comparison of all routes', async () => {
  const { app, actor, addRoute } = service
  await addRoute({ webhook_url: null })
  const names = ['a', 'ab', 'abc', 'a+', 'a+b', 'ab+c', 'b', '\u00e9', '\u{1f4ee}', '\u{1f4ee}x']
  const kinds = names.flatMap((name) => [0, 1].map((kind) => [name, kind] as const))
  for (const [index, [pattern, matchType]] of kinds.entries())
    app.db.run(
      `INSERT INTO inbound_routes (uuid, account_id, domain_id, pattern, given_pattern, match_type, priority, is_active, created_at, updated_at)
       SELECT ?, ?, domain_id, ?, 'x', ?, ?, ?, 1, 1 FROM inbound_routes LIMIT 1`,
      [newUuid(), actor.accountId, pattern, matchType, (index * 7) % 5, index % 4 === 3 ? 0 : 1],
    )
  const found = [...names, 'abcd', 'A+B', 'a+bc', '\u{1f4ee}xy', 'c', 'x'.repeat(64)].map(findMatch)
  expect(new Set(found).size).toBeGreaterThan(5)
  expect(found.at(-1)).toBeUndefined()
})

test('the routes of a deleted domain disappear for their account immediately; the next removal deletes their rows', async () => {
  const { api, app, actor, domainId, addRoute } = service
  const { id } = await addRoute()
  await addRoute({ pattern: 'info', webhook_url: null })
  expect(await removeOrphanedRoutes(app)).toBe(0)
  await deleteDomain(app, actor, domainId)
  expectError(await api('GET', `/v1/inbound-routes/${id}`), 404, 'inbound_route_not_found')
  expect(at((await api('GET', '/v1/inbound-routes')).body, 'pagination', 'total')).toBe(0)
  expect(await removeOrphanedRoutes(app)).toBe(2)
  const left = (table: string) => app.db.query<{ n: number }, []>(`SELECT COUNT(*) AS n FROM ${table}`).get()?.n
  expect([left('inbound_routes'), left('webhooks WHERE deleted_at IS NULL')]).toEqual([0, 0])
})

const DOMAIN = 'xn--bcher-kva.test'
const EMPTY =
  'pattern must not be empty unless match_type is catch_all; provide the part of the addresses before the @, such as support.'
const STAR =
  'Wildcards are not supported; use match_type catch_all for all addresses of the domain, or match_type prefix with the common start of the addresses as the pattern.'

// Proves: inbound-14
test.each([
  ['exact', 'support', 'support'],
  ['exact', 'support@', 'support'],
  ['exact', ` Support@B\u00dcCHER.test `, 'support'],
  ['exact', 'support@xn--bcher-kva.test', 'support'],
  ['exact', 'support+vip', 'support+vip'],
  ['exact', '"a@b"', '"a@b"'],
  ['exact', '"a@b"@b\u00fccher.test', '"a@b"'],
  ['exact', '"support"', 'support'],
  ['exact', 'j\u00f6rg', 'j\u00f6rg'],
  ['prefix', 'Sales-', 'sales-'],
  ['prefix', 'no.', 'no.'],
  ['exact', 'No.', 'no.'],
  ['exact', '".a..b"', '.a..b'],
  ['prefix', 'support+', 'support+'],
  ['prefix', 'support@b\u00fccher.test', 'support'],
  ['catch_all', '', ''],
  ['catch_all', '*@somewhere else', ''],
] as const)('%s %j is read as %j', (matchType, given, pattern) => {
  expect(parsePattern(given, matchType, DOMAIN)).toBe(pattern)
})

// Proves: inbound-14
test.each([
  ['exact', '', EMPTY],
  ['prefix', ' ', EMPTY],
  ['exact', '@b\u00fccher.test', 'The pattern is not a valid address: the address has nothing before the @.'],
  [
    'exact',
    'a b',
    'The pattern is not a valid address: the part before the @ has a space or a character that is only allowed in quotes.',
  ],
  ['exact', '..', undefined],
  [
    'exact',
    'a\u0000',
    'The pattern is not a valid address: the address has a line break or another control character.',
  ],
  ['exact', 'x'.repeat(65), 'The pattern is not a valid address: the part before the @ is longer than 64 octets.'],
  ...(['*', 'yy*', '*@b\u00fccher.test', '"a*b"'] as const).flatMap((star) => [
    ['exact', star, STAR] as const,
    ['prefix', star, STAR] as const,
  ]),
  ['prefix', '"a', undefined],
  [
    'exact',
    'support@example.com',
    `The pattern names the domain example.com, but the route belongs to ${DOMAIN}; provide only the part before the @.`,
  ],
  ['prefix', 'a@b@c', undefined],
] as const)('%s %j is refused: %s', (matchType, given, message) => {
  let thrown: unknown
  try {
    parsePattern(given, matchType, DOMAIN)
  } catch (error) {
    thrown = error
  }
  if (!(thrown instanceof AppError)) throw new Error(`not refused: ${JSON.stringify(given)}`)
  expect({ status: thrown.status, field: thrown.details[0]?.field }).toEqual({ status: 422, field: 'pattern' })
  if (message !== undefined) expect(thrown.message).toBe(message)
})
