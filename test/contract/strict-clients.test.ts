/** @module What a strict client gets from every route of the interface, over HTTP. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { request } from 'node:http'
import { type Status, statusCode } from '#features/sending/queue/status.ts'
import { parseUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import { EMAIL } from '#test/support/email-api.ts'
import { INTERFACE_FIELDS } from './interface-fields.ts'
import { type ContractApi, createContractApi, ROUTES, routeName } from './routes.ts'

const STRICT = { headers: { 'user-agent': 'careful-python/1.2' } }

let service: ContractApi
beforeAll(async () => {
  service = await createContractApi({ TASSIS_STRICT_CLIENTS: 'careful-python/, other/2, -' })
})
afterAll(() => service[Symbol.asyncDispose]())

/** Paths of the fields of a body, down to those that the table does not go into. */
function* fieldsIn(value: unknown, table: readonly string[], prefix = ''): Generator<string> {
  if (Array.isArray(value)) {
    for (const item of value) yield* fieldsIn(item, table, prefix.replace(/\.$/, '[].'))
    return
  }
  if (typeof value !== 'object' || value === null) return
  if (prefix !== '' && !table.some((field) => field.startsWith(prefix))) return
  for (const [name, field] of Object.entries(value)) {
    yield prefix + name
    yield* fieldsIn(field, table, `${prefix}${name}.`)
  }
}

const CASES = ROUTES.filter((route) => routeName(route) in INTERFACE_FIELDS).map(
  (route) => [routeName(route), route] as const,
)

test('every route of the interface with an answer is tested, but the public list of plans', () => {
  const tested = CASES.map(([name]) => name)
  expect(Object.keys(INTERFACE_FIELDS).filter((name) => !tested.includes(name))).toEqual(['GET /v1/billing/plans'])
})

test.each(CASES)('%s has no field that the interface does not have', async (name, route) => {
  const id = route.resource ? await service.make(route.resource) : ''
  const { status, body } = await service.ask(route, id, STRICT)
  expect(status).toBe(route.status)
  const table = INTERFACE_FIELDS[name] ?? []
  expect([...new Set(fieldsIn(body, table))].filter((field) => !table.includes(field))).toEqual([])
})

describe('a status that the interface does not name', () => {
  test.each<[Status, string]>([
    ['uncertain', 'sent'],
    ['rejected', 'failed'],
  ])('%s is %s for strict clients, and itself for all others', async (status, shown) => {
    const { id } = await service.accepted(EMAIL)
    const { app, api } = service
    app.db.run('UPDATE emails SET status = ? WHERE uuid = ?', [statusCode(status), parseUuid(id) ?? new Uint8Array()])
    const detail = await api('GET', `/v1/emails/${id}`, undefined, STRICT)
    expect(at(detail.body, 'data', 'status')).toBe(shown)
    expect(at((await api('GET', '/v1/emails', undefined, STRICT)).body, 'data', 0, 'status')).toBe(shown)
    expect((await service.detail(id))['status']).toBe(status)
  })
})

test('- names clients that send no User-Agent', async () => {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { authorization: `Bearer ${service.key}` }
  request(`${service.url}/v1/account`, { headers }, (response) => {
    let body = ''
    response.on('data', (chunk) => {
      body += chunk
    })
    response.on('end', () => resolve(body))
  })
    .on('error', reject)
    .end()
  const fields = (body: unknown) => Object.keys(at(body, 'data') as object)
  const all = fields((await service.api('GET', '/v1/account')).body)
  const strict = fields(JSON.parse(await promise))
  expect([all.length > strict.length, strict.length]).toEqual([true, 8])
})

// Public clients read an email here, where the interface leaves open where it is.
test('an email is also nested in its detail, cut in the same way', async () => {
  const { id } = await service.accepted(EMAIL)
  const { data } = (await service.api('GET', `/v1/emails/${id}`, undefined, STRICT)).body as {
    readonly data: Record<string, unknown>
  }
  const { email, events, ...fields } = data
  expect([email, events]).toEqual([fields, [expect.objectContaining({ event_type: 'queued' })]])
})
