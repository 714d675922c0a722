import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { hours } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { EMAIL } from '#test/support/email-api.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import type { BrowserSession } from '#test/support/users.ts'

setDefaultTimeout(300_000)

let service: TestApi
let operator: BrowserSession
beforeAll(async () => {
  service = await createTestApi()
  operator = await signInAsOperator(service)
  await service.api('POST', '/v1/domains', { domain: 'sender.test' })
  service.app.db.run("UPDATE domains SET verified_at = 1 WHERE domain = 'sender.test'")
})
afterAll(() => service[Symbol.asyncDispose]())

const post = async (verb: string, body: unknown) => {
  const { status, body: answer } = await operator.ask('POST', `/v1/operator/queue/${verb}`, body)
  const { data, code } = answer as { data?: unknown; code?: unknown }
  return { status, data, code }
}

async function send(to: string | string[]): Promise<string> {
  const { status, body } = await service.api('POST', '/v1/emails', { ...EMAIL, from: 'a@sender.test', to })
  expect(status).toBe(202)
  return String(at(body, 'data', 'id'))
}

const newestEntry = () => {
  const [entry] = listNewestAuditEntries(service.app.db, undefined, {}, 1)
  return [entry?.action, entry?.actorType, entry?.accountId, JSON.parse(entry?.metadata ?? 'null')]
}

// Proves: operator-13
test('an operator counts, holds, releases, redirects, retries, bounces and drops mail; each action is audited', async () => {
  const domain = 'one.test'
  await send(['x@one.test', 'y@one.test'])
  const id = await send('z@one.test')
  const selection = { waiting: 3, in_delivery: 0 }
  const counted = await operator.ask('GET', `/v1/operator/queue/selection?domain=${domain}`)
  expect(at(counted.body, 'data')).toEqual(selection)

  expect(await post('hold', { domain, reason: 'They asked' })).toMatchObject({ status: 200, data: selection })
  expect(newestEntry()).toEqual(['queue.held', 'user', null, { domain, reason: 'They asked' }])
  expect(await post('redirect', { account_id: service.actor.accountUuid, to: '[192.0.2.7]:26' })).toMatchObject({
    status: 200,
  })
  expect(newestEntry()).toEqual([
    'queue.redirected',
    'user',
    null,
    { account_id: service.actor.accountUuid, to: '[192.0.2.7]:26', reason: '' },
  ])
  const rules = at((await operator.ask('GET', '/v1/operator/queue/rules')).body, 'data')
  expect(rules).toMatchObject([
    { kind: 'hold', domain, account_id: null, email_id: null, to: null, reason: 'They asked' },
    { kind: 'redirect', domain: null, account: 'Test', to: '[192.0.2.7]:26' },
  ])
  service.app.db.run('UPDATE recipients SET next_at = ?', [Date.now() + hours(1)])
  expect(await post('retry', { domain })).toMatchObject({ data: { changed: 0, held: 3, next_cursor: null } })
  expect((await post('release', { domain, kind: 'redirect' })).data).toEqual([])
  expect((await post('release', { domain })).data).toMatchObject([{ kind: 'hold', domain }])
  expect(newestEntry()).toEqual(['queue.released', 'user', null, { domain, rules: 1 }])
  expect((await post('release', { account_id: service.actor.accountUuid })).data).toHaveLength(1)
  expect(await post('retry', { domain })).toMatchObject({ data: { changed: 3, held: 0 } })
  expect(newestEntry()).toEqual(['queue.retried', 'user', null, { domain }])

  expect((await post('hold', { provider: 'gmail' })).data).toEqual({ waiting: 0, in_delivery: 0 })
  expect((await post('release', { provider: 'gmail' })).data).toMatchObject([{ provider: 'gmail', domain: null }])
  const change = { changed: 1, in_delivery: 0, held: 0, suspended: [], next_cursor: null }
  expect(await post('drop', { email_id: id })).toMatchObject({ status: 200, data: change })
  expect(newestEntry()).toMatchObject(['queue.dropped', 'user', null, { email_id: id }])
  expect(await post('bounce', { domain, reason: 'A mistake' })).toMatchObject({ data: { ...change, changed: 2 } })
  expect(newestEntry()).toEqual(['queue.bounced', 'user', null, { domain, reason: 'A mistake' }])
  expect(await post('bounce', { domain, reason: 'A mistake' })).toMatchObject({ data: { changed: 0 } })
  expect(at((await service.api('GET', `/v1/emails/${id}`)).body, 'data', 'status')).toBe('cancelled')
})

test('the queue has pages by cursor, each lane once, the earliest first', async () => {
  for (let i = 0; i < 7; i++) await send(`ann@page${i}.test`)
  for (let i = 0; i < 7; i++)
    service.app.db.run('UPDATE recipients SET next_at = ? WHERE address = ?', [1000 + (i % 3), `ann@page${i}.test`])
  const domains: unknown[] = []
  let query = 'per_page=2'
  for (let page = 1; query !== ''; page++) {
    const { status, body } = await operator.ask(
      'GET',
      `/v1/operator/queue?account_id=${service.actor.accountUuid}&${query}`,
    )
    expect(status).toBe(200)
    domains.push(...(at(body, 'data') as { domain: string }[]).map(({ domain }) => domain))
    const { next_cursor: next } = at(body, 'pagination') as { next_cursor?: string }
    query = next !== undefined && page < 20 ? `per_page=2&cursor=${next}` : ''
  }
  const paged = domains.filter((domain) => String(domain).startsWith('page'))
  expect(paged).toEqual([0, 3, 6, 1, 4, 2, 5].map((i) => `page${i}.test`))
  expect(new Set(domains).size).toBe(domains.length)
})
