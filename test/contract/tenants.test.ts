import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import {
  addAccount,
  type ContractApi,
  createContractApi,
  dumpDatabase,
  LISTED,
  type Resource,
  ROUTES,
  type Route,
  routeName,
} from './routes.ts'

let service: ContractApi
let stranger: string
const ids: string[] = []
const make = async (resource: Resource): Promise<string> => {
  const id = await service.make(resource)
  ids.push(id)
  return id
}

beforeAll(async () => {
  service = await createContractApi()
  stranger = (await addAccount(service)).key
})
afterAll(() => service[Symbol.asyncDispose]())

const withId = ROUTES.filter(
  (route): route is Route & { resource: Resource } => route.resource !== undefined && !route.isUnknownFine,
)

describe.each(withId.map((route) => [routeName(route), route] as const))('%s', (_, route) => {
  // Proves: auth-18, error-7
  test("is a 404 for another account's id and changes nothing; for the owner it succeeds", async () => {
    const id = await make(route.resource)
    const before = dumpDatabase(service)
    const answer = await service.ask(route, id, { key: stranger })
    // Not a 403, and the same body as for an unknown id: a foreign id must be indistinguishable from one that does not
    // exist.
    const absent = await service.ask(route, '01234567-89ab-7def-8123-456789abcdef', { key: stranger })
    expect([answer.status, absent.status]).toEqual([404, 404])
    expect({ ...Object(answer.body), request_id: '' }).toEqual({ ...Object(absent.body), request_id: '' })
    expect(at(answer.body, 'type')).toBe('not_found')
    expect(at(answer.body, 'code')).toMatch(/^[a-z_]+_not_found$/)
    expect(dumpDatabase(service)).toBe(before)
    expect((await service.ask(route, id)).status).toBe(route.status)
  })

  // Proves: http-12, key-7, email-8, email-21, stream-4, template-4
  test('is a 404 for an invalid id', async () => {
    const id = await make(route.resource)
    const before = dumpDatabase(service)
    const texts = [
      'x',
      '0',
      '-1',
      `${id}0`,
      `${id.slice(0, -1)}g`,
      `${id}%20`,
      `%20${id}`,
      '%00',
      "'",
      '%F0%9F%92%A9',
      'null',
    ]
    for (const text of texts) {
      const answer = await service.ask(route, text)
      expect([text, answer.status]).toEqual([text, 404])
      expect(at(answer.body, 'type')).toBe('not_found')
    }
    expect(dumpDatabase(service)).toBe(before)
  })
})

/** Statistics are not rows: the tests of `features/reporting/analytics` check to which account they belong. */
const hasRows = ({ shape, isOne }: Route): boolean => shape !== 'one' && !isOne && !shape.includes('period')

const lists = ROUTES.filter(
  (route) => route.method === 'GET' && !route.path.includes('{id}') && hasRows(route) && !route.csv,
)

describe('a list', () => {
  beforeAll(async () => {
    for (const resource of LISTED) await make(resource)
  })

  // Proves: auth-11, auth-19
  test.each(lists.map((route) => [routeName(route), route] as const))(
    '%s shows no rows of other accounts',
    async (_, route) => {
      const { actor, key } = await addAccount(service)
      const mine = await service.ask(route, '')
      const theirs = await service.ask(route, '', { key })
      expect([mine.status, theirs.status]).toEqual([200, 200])
      const rowsOf = (body: unknown) => at(body, 'data') as { id: string; account_id?: string }[]
      expect(rowsOf(mine.body).length).toBeGreaterThan(0)
      const responseText = JSON.stringify(theirs.body)
      expect(ids.filter((id) => id.length === 36 && responseText.includes(id))).toEqual([])
      expect(responseText).not.toContain(service.actor.accountUuid)
      for (const row of rowsOf(theirs.body)) expect(row.account_id ?? actor.accountUuid).toBe(actor.accountUuid)
      const totalOf = (body: object): unknown => {
        if ('pagination' in body) return at(body, 'pagination', 'total')
        // The feed has a cursor instead of a total.
        return 'next_after' in body ? body.next_after : at(body, 'total')
      }
      expect(totalOf(Object(theirs.body))).toBe(rowsOf(theirs.body).length)
    },
  )
})

test('a send cannot use the domain, the stream or the idempotency key of another account', async () => {
  const { actor, key } = await addAccount(service)
  const email = {
    from: 'ada@sender.test',
    to: 'bob@receiver.test',
    subject: 'Hi',
    text_body: 'Hi',
    idempotency_key: 'shared',
  }
  const first = await service.api('POST', '/v1/emails', email)
  const foreign = await service.api('POST', '/v1/emails', email, { key })
  expect([first.status, foreign.status, at(foreign.body, 'code')]).toEqual([202, 422, 'domain_not_found'])
  await service.addDomain(actor, 'elsewhere.test')
  await service.api('POST', '/v1/streams', { slug: 'mine', name: 'Mine' })
  const own = { ...email, from: 'eve@elsewhere.test' }
  const answer = await service.api('POST', '/v1/emails', own, { key })
  expect(answer.status).toBe(202)
  expect(answer.headers.get('idempotency-mismatch')).toBeNull()
  expect(at(answer.body, 'data', 'id')).not.toBe(at(first.body, 'data', 'id'))
  expect(
    (await service.api('POST', '/v1/emails', { ...own, idempotency_key: 'x', stream: 'mine' }, { key })).status,
  ).toBe(422)
})
