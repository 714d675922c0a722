import { expect, test } from 'bun:test'
import { revealInboundSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'
import { startRouteService } from './fixture.ts'

const ADA = 'ada@people.test'
const PATH = '/v1/inbound-routes/secret'

// Proves: inbound-38
test('the secret of all routes is shown and replaced for a user who typed the password within ten minutes', async () => {
  await using service = await startRouteService()
  const { app, actor, api, clock } = service
  await createTestUser(app, actor, ADA, 'developer')
  await createTestUser(app, actor, 'vera@people.test', 'viewer')
  const { ask } = await signIn(service, ADA)
  const shown = await ask('POST', `${PATH}/reveal`)
  const first = await revealInboundSecret(app, actor)
  expect([shown.status, shown.body]).toEqual([200, { data: { secret: first } }])

  clock.advance(minutes(11))
  for (const action of ['reveal', 'rotate'])
    expectError(await ask('POST', `${PATH}/${action}`), 403, 'password_required')
  await ask('POST', '/v1/auth/session/password', { password: PASSWORD })
  const replaced = await ask('POST', `${PATH}/rotate`)
  expect(replaced.status).toBe(200)
  const second = await revealInboundSecret(app, actor)
  expect([at(replaced.body, 'data', 'secret'), second === first]).toEqual([second, false])

  const viewer = await signIn(service, 'vera@people.test')
  for (const action of ['reveal', 'rotate']) {
    expectError(await viewer.ask('POST', `${PATH}/${action}`), 403, 'insufficient_role')
    expectError(await api('POST', `${PATH}/${action}`), 403, 'session_required')
  }
})

// Proves: inbound-39
test('the mail that a replay of a route would post can be counted first', async () => {
  await using service = await startRouteService()
  const { api, addRoute, arrive, history, put } = service
  const route = await addRoute()
  const { id: stored } = await addRoute({ pattern: 'stored', webhook_url: null })
  await arrive('support')
  const last = await arrive('support')
  await arrive('stored')
  const count = (id: string, range: unknown) => api('POST', `/v1/inbound-routes/${id}/replay/count`, range)
  await put(route.id, { is_active: false })
  expect((await count(route.id, { from_seq: 1 })).body).toMatchObject({ data: { deliveries: 2, to_seq: last.seq } })
  expect((await count(route.id, { from_seq: last.seq })).body).toMatchObject({ data: { deliveries: 1 } })
  expectError(await count(route.id, {}), 422, 'validation_failed', 'from_seq')
  expectError(await count(stored, { from_seq: 1 }), 409, 'webhook_inactive')
  const pending = (await history(route.id, '?status=pending')).length
  expect(pending).toBe(0)
})
