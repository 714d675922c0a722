import { expect, test } from 'bun:test'
import { days, hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount } from '#test/support/app.ts'
import { createEmailApi, EMAIL, NOW } from '#test/support/email-api.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startSink } from '#test/support/sink.ts'
import { createContractApi, ROUTES, routeName } from './routes.ts'

// Proves: auth-12
test('a key is still valid after ten years', async () => {
  await using service = await createEmailApi()
  service.clock.advance(days(3653))
  expect((await service.api('GET', '/v1/account')).status).toBe(200)
})

// Proves: key-9
test('a key shows when it was last used', async () => {
  await using service = await createEmailApi()
  const { opened, clock, api } = service
  const lastUsed = async () => at((await api('GET', '/v1/api-keys')).body, 'data', 0, 'last_used_at')
  expect(await lastUsed()).toBeNull()
  await opened.authenticator.flushLastUsed()
  clock.advance(hours(5))
  expect(await lastUsed()).toBe(new Date(NOW).toISOString())
  await opened.authenticator.flushLastUsed()
  expect(await lastUsed()).toBe(new Date(NOW + hours(5)).toISOString())
})

// Proves: account-12, billing-5
test('there are six plans, each with its monthly quota', async () => {
  await using service = await createEmailApi()
  for (const [plan, quota] of [
    ['free', 3_000],
    ['starter', 10_000],
    ['pro', 100_000],
    ['business', 500_000],
    ['enterprise', 2_000_000],
    ['unlimited', 2_147_483_647],
  ] as const) {
    const key = await service.newKey([], await createTestAccount(service.app, plan))
    const { body } = await service.api('GET', '/v1/account', undefined, { key })
    expect(at(body, 'data')).toMatchObject({ plan, monthly_quota: quota })
  }
})

// Proves: status-34
test('the events of each account are numbered without a gap, and their times never go back', async () => {
  await using service = await createEmailApi()
  const { api, app, clock, newAccount, newKey, addDomain } = service
  const other = await newAccount()
  await addDomain(other, 'other.test')
  const key = await newKey([], other)
  const inAnHour = () => new Date(clock.now() + hours(1)).toISOString()
  for (const jump of [0, hours(2), -hours(3), 0, -days(2), hours(1)]) {
    clock.jumpTo(clock.now() + jump)
    const answers = await Promise.all([
      api('POST', '/v1/emails', EMAIL),
      api('POST', '/v1/emails', { ...EMAIL, send_at: inAnHour() }),
      api('POST', '/v1/emails', { ...EMAIL, to: 'nobody' }),
      api('POST', '/v1/emails', { ...EMAIL, from: 'ada@unknown.test' }),
      api('POST', '/v1/emails', { ...EMAIL, from: 'eve@other.test' }, { key }),
      api('POST', '/v1/emails/batch', { emails: [EMAIL, {}, EMAIL] }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([202, 202, 422, 422, 202, 202])
    expect((await api('POST', `/v1/emails/${at(answers[1]?.body, 'data', 'id')}/cancel`)).status).toBe(200)
  }
  const eventsOf = (accountId: number) =>
    app.db
      .query<{ seq: number; at: number }, [number]>('SELECT seq, at FROM events WHERE account_id = ? ORDER BY seq')
      .all(accountId)
  for (const [account, count] of [
    [service.actor, 30],
    [other, 6],
  ] as const) {
    const events = eventsOf(account.accountId)
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: count }, (_, i) => i + 1))
    const times = events.map((event) => event.at)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(times.at(-1)).toBeGreaterThanOrEqual(NOW + hours(2))
  }
})

// An event, not an audit entry, records a send. A DNS check, a count or a preview that changes nothing is not audited. A
// checkout or portal page at the payment provider is audited only once the provider reports its result. A mark that a
// captured message was read is no change to what the account has. An event of a sequence is as frequent as a send, and
// the sequence shows whom it concerned.
const UNAUDITED = [
  'POST /v1/emails',
  'POST /v1/emails/batch',
  'POST /v1/emails/check',
  'POST /v1/sequences/events',
  'POST /v1/billing/checkout',
  'POST /v1/billing/portal',
  'POST /v1/agent-mailboxes/{id}/messages/{mid}/reply',
  'POST /v1/domains/{id}/verify',
  'POST /v1/domains/{id}/verify-tracking',
  // Each record has its entry, and so have credentials: test/features/setup/dns-publish.
  'POST /v1/domains/{id}/publish',
  'DELETE /v1/domains/{id}/publish',
  'POST /v1/templates/render',
  'POST /v1/templates/{id}/render',
  'POST /v1/contact-lists/{id}/contacts/import/preview',
  'POST /v1/validate',
  'POST /v1/inbound-routes/{id}/replay/count',
  'POST /v1/webhooks/{id}/replay/count',
  'POST /v1/inbound-routes/{id}/replay/count',
  'PATCH /v1/captured-emails/{id}',
  'POST /v1/captured-emails/{id}/check-links',
]
// Routes that delete the account are left out: they run in another account, whose log is not accessible afterwards.
const changes = ROUTES.filter(
  (route) => route.method !== 'GET' && !route.endsAccount && !UNAUDITED.includes(routeName(route)),
)

// Proves: audit-3
test('every change adds one audit entry with the key that made it, the client address and an action in the past tense', async () => {
  await using service = await createContractApi()
  const keyId = at((await service.api('GET', '/v1/api-keys')).body, 'data', 0, 'id')
  const total = async () => Number(at((await service.api('GET', '/v1/audit-logs')).body, 'pagination', 'total'))
  for (const route of changes) {
    const id = route.resource ? await service.make(route.resource) : ''
    const before = await total()
    expect((await service.ask(route, id)).status).toBe(route.status)
    const entry = at((await service.api('GET', '/v1/audit-logs')).body, 'data', 0)
    expect([routeName(route), (await total()) - before]).toEqual([routeName(route), 1])
    expect(entry).toMatchObject({
      actor_type: 'api_key',
      actor_id: keyId,
      account_id: service.actor.accountUuid,
      ip_address: '127.0.0.1',
    })
    expect(at(entry, 'action')).toMatch(/^[a-z_]+\.[a-z_]+(ed|en|set)$/)
    // A path names a contact by its address, the audit log by its public id, and of a sequence's person the sequence.
    if (id !== '' && !/\/(contacts|people)(\/\{email\}.*)?$/.test(route.path)) expect(at(entry, 'resource_id')).toBe(id)
  }
})

// Proves: delivery-20
test('mail to a receiver at a private or loopback address is not sent unless such addresses are allowed', async () => {
  for (const address of ['127.0.0.1', '10.1.2.3', '192.168.1.1', '169.254.169.254']) {
    await using sink = await startSink()
    const zone = {
      'inside.test': { MX: [{ preference: 10, exchange: 'mx.inside.test' }] },
      'mx.inside.test': { A: [address] },
    }
    await using flow = await startMailFlow({
      zone,
      smtpPort: sink.port,
      settings: { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' },
    })
    const { recipient } = await flow.outcome('bob@inside.test')
    expect(recipient).toMatchObject({
      status: 'queued',
      lastError: expect.stringContaining('private or reserved addresses'),
    })
    expect(sink.messages).toEqual([])
  }
})
