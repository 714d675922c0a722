import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { requirePlanCapacity } from '#features/core/accounts/limits.ts'
import { getSubAccountCountStatement } from '#features/core/accounts/rows.ts'
import type { Actor } from '#features/core/app/app.ts'
import { type ApiResponse, at, createTestApi, type TestApi } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { expectError } from '#test/support/email-api.ts'

// Each domain needs a new key.
setDefaultTimeout(60_000)

const MOST = 4
const SETTINGS = {
  TASSIS_PLANS: ['max_domains', 'max_templates', 'max_webhooks', 'max_contact_lists']
    .map((field) => `free.${field}=${MOST}`)
    .join(','),
}

const KINDS = [
  ['domains', '/v1/domains', (i: number) => ({ domain: `d${i}.test` })],
  ['templates', '/v1/templates', (i: number) => ({ alias: `t${i}`, name: 'T', subject: 'S', text_body: 'T' })],
  ['webhooks', '/v1/webhooks', (i: number) => ({ url: `https://127.0.0.1/${i}`, events: ['sent'] })],
  ['contact lists', '/v1/contact-lists', (i: number) => ({ name: `List ${i}` })],
] as const

interface Limited extends AsyncDisposable {
  readonly service: TestApi
  readonly actor: Actor
  readonly key: string
  make(i: number): Promise<ApiResponse>
  total(): Promise<unknown>
}

async function startFree(path: string, body: (i: number) => object): Promise<Limited> {
  const service = await createTestApi({ settings: SETTINGS })
  const actor = await createTestAccount(service.app, 'free')
  const key = await service.newKey([], actor)
  return {
    service,
    actor,
    key,
    make: (i) => service.api('POST', path, body(i), { key }),
    total: async () => at((await service.api('GET', path, undefined, { key })).body, 'pagination', 'total'),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

describe.each(KINDS)('the limit of %s', (name, path, body) => {
  // Proves: billing-6
  test('lets exactly as many of 50 concurrent requests succeed as the plan allows; the errors of the others name the limit and the plan', async () => {
    await using free = await startFree(path, body)
    // Those of another account do not count, and plan unlimited has no limit.
    for (let i = 0; i <= MOST; i++) expect((await free.service.api('POST', path, body(i + 500))).status).toBe(201)
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => free.make(i)))
    const refused = answers.filter(({ status }) => status !== 201)
    expect(refused).toHaveLength(50 - MOST)
    for (const answer of refused) expectError(answer, 403, 'plan_limit_reached')
    expect(at(refused[0]?.body, 'message')).toBe(
      `Plan free allows ${MOST} ${name}; delete one you no longer need, or change to a larger plan.`,
    )
    expect(await free.total()).toBe(MOST)
  })

  test('allows another one after a deletion and more on a larger plan; existing ones stay when the plan shrinks', async () => {
    await using free = await startFree(path, body)
    const { app, api } = free.service
    const made = []
    for (let i = 0; i < MOST; i++) made.push(String(at((await free.make(i)).body, 'data', 'id')))
    expect((await api('DELETE', `${path}/${made[0]}`, undefined, { key: free.key })).status).toBe(204)
    expect((await free.make(100)).status).toBe(201)
    app.db.run("UPDATE accounts SET plan = 'pro' WHERE id = ?", [free.actor.accountId])
    expect((await free.make(101)).status).toBe(201)
    app.db.run("UPDATE accounts SET plan = 'free' WHERE id = ?", [free.actor.accountId])
    expectError(await free.make(102), 403, 'plan_limit_reached')
    expect(await free.total()).toBe(MOST + 1)
  })
})

test('webhooks of inbound routes do not count towards the limit of webhooks', async () => {
  await using free = await startFree('/v1/webhooks', (i) => ({ url: `https://127.0.0.1/${i}`, events: ['sent'] }))
  const { app, api } = free.service
  const { body } = await api('POST', '/v1/domains', { domain: 'inbound.test' }, { key: free.key })
  app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1')
  const route = { domain_id: at(body, 'data', 'id'), match_type: 'exact', webhook_url: 'https://127.0.0.1/inbound' }
  for (let i = 0; i < MOST + 1; i++)
    expect((await api('POST', '/v1/inbound-routes', { ...route, pattern: `p${i}` }, { key: free.key })).status).toBe(
      201,
    )
  for (let i = 0; i < MOST; i++) expect((await free.make(i)).status).toBe(201)
  expectError(await free.make(9), 403, 'plan_limit_reached')
})

// Proves: billing-6
test('plan free allows no sub-accounts, and deleted sub-accounts do not count towards the limit', async () => {
  await using service = await createTestApi({ settings: { TASSIS_PLANS: 'pro.max_sub_accounts=2' } })
  const { app } = service
  const room = (accountId: number, more?: number) =>
    app.commit
      .write((tx) => requirePlanCapacity(app, tx, accountId, 'sub_accounts', getSubAccountCountStatement(tx.db), more))
      .then(
        () => 'room',
        (error: Error) => error.message,
      )
  const free = await createTestAccount(app, 'free')
  expect(await room(free.accountId)).toBe('Plan free does not include sub-accounts; change to a larger plan.')
  const parent = await createTestAccount(app, 'pro')
  const [first, second] = [await createTestAccount(app, 'free'), await createTestAccount(app, 'free')]
  expect(await room(parent.accountId, 2)).toBe('room')
  expect(await room(parent.accountId, 3)).toContain('allows 2 sub-accounts')
  app.db.run('UPDATE accounts SET parent_id = ? WHERE id IN (?, ?)', [
    parent.accountId,
    first.accountId,
    second.accountId,
  ])
  expect(await room(parent.accountId)).toContain('allows 2 sub-accounts')
  app.db.run('UPDATE accounts SET deleted_at = 1 WHERE id = ?', [first.accountId])
  expect(await room(parent.accountId)).toBe('room')
})
