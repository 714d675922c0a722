/** Webhooks of inbound routes: over TLS, with a clock that the tests move. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { revealInboundSecret, rotateInboundSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { buildPayload } from '#features/webhooks/webhooks/payload/payload.ts'
import { hours, minutes } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import { startDispatcher } from '#test/features/webhooks/webhooks/fixture.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError, NOW, UUID } from '#test/support/email-api.ts'
import type { ReceivedRequest } from '#test/support/https-receiver.ts'
import { createTestReceived } from '#test/support/inbound.ts'
import { AUTHENTICATION } from '#test/support/mailboxes.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'
import { HOOK_HOST } from '#test/support/webhooks.ts'
import { INBOUND, type Json, type RouteService, startRouteService } from './fixture.ts'

let service: RouteService
beforeEach(async () => {
  service = await startRouteService()
})
afterEach(() => service[Symbol.asyncDispose]())

const parseBody = (request: ReceivedRequest | undefined) => JSON.parse(request?.text ?? '{}') as Json
const listSubjects = (requests: readonly ReceivedRequest[]) => requests.map((request) => parseBody(request)['subject'])

const isSignedWith = (request: ReceivedRequest | undefined, secret: string): boolean => {
  const header = request?.headers['x-service-signature'] ?? ''
  const t = /^t=(\d+),/.exec(header)?.[1] ?? ''
  const mac = createHmac('sha256', secret)
    .update(`${t}.`)
    .update(request?.body ?? '')
    .digest('hex')
  return header === `t=${t},v1=${mac}`
}

/** Status codes of inbound emails. */
const [RECEIVED, DELIVERED] = [0, 1]

/** Resolves with the history, newest first, once it has that length and no attempt is in flight. */
const waitForDeliveries = (service: RouteService, id: string, count: number): Promise<Json[]> =>
  eventually(async () => {
    const all = await service.history(id, '?per_page=100')
    const isDue = ({ next_attempt_at: next }: Json) => next !== null && Date.parse(String(next)) <= service.clock.now()
    return service.webhooks?.inFlight === 0 && all.length >= count && !all.some(isDue) ? all : undefined
  })

/** Moves the clock to the next attempt of a route. */
async function advanceToNextAttempt({ history, clock }: RouteService, id: string): Promise<void> {
  const times = (await history(id)).flatMap(({ next_attempt_at: next }) => (next ? [Date.parse(String(next))] : []))
  clock.advance(Math.min(...times) - clock.now())
}

describe('mail of a route', () => {
  // Proves: notify-17, notify-30, inbound-16
  test('is posted to its URL alone, signed with the secret of the account', async () => {
    const { app, actor, receiver, addRoute, arrive, inboundRow, clock, history } = service
    const route = await addRoute()
    await addRoute({ pattern: 'sales', webhook_url: receiver.url(HOOK_HOST, '/sales') })
    await addRoute({ match_type: 'catch_all', pattern: '', webhook_url: null })
    const { id, seq } = await arrive('support+7', { subject: 'Help', text: 'It burns.' })
    await arrive('nobody')
    const [delivery] = await waitForDeliveries(service, route.id, 1)
    expect(receiver.requests.map(({ url, method }) => [method, url])).toEqual([['POST', '/route']])
    const [request] = receiver.requests
    expect(isSignedWith(request, await revealInboundSecret(app, actor))).toBe(true)
    expect([request?.headers['x-service-event'], request?.headers['x-service-attempt']]).toEqual(['email.inbound', '1'])
    const events = at((await service.api('GET', '/v1/events?types=email.inbound')).body, 'data') as Json[]
    expect(parseBody(request)).toEqual({
      event: 'email.inbound',
      event_id: events[0]?.['id'],
      account_id: actor.accountUuid,
      timestamp: new Date(NOW).toISOString(),
      inbound_email_id: id,
      domain: INBOUND,
      from: 'Ada <ada@customer.test>',
      to: `support+7@${INBOUND}`,
      subject: 'Help',
      spam: null,
      forward_refused: false,
      text_body: 'It burns.',
      html_body: null,
      attachments: [],
      message_id: '<1@customer.test>',
      authentication: AUTHENTICATION,
      source_ip: '192.0.2.7',
      mail_from: 'ada@customer.test',
      rcpt_to: [`support+7@${INBOUND}`],
      route_id: route.id,
    })
    expect(delivery).toEqual({
      id: expect.stringMatching(UUID),
      route_id: route.id,
      inbound_email_id: id,
      event: 'email.inbound',
      event_id: events[0]?.['id'],
      seq,
      status: 'delivered',
      attempts: 1,
      next_attempt_at: null,
      attempted_at: new Date(NOW).toISOString(),
      duration_ms: expect.any(Number),
      status_code: 200,
      response: '',
      error: null,
      created_at: new Date(NOW).toISOString(),
    })
    expect(inboundRow(id)).toEqual({ status: DELIVERED, deliveredAt: clock.now(), error: null })
    expect(await history(route.id, '?status=pending')).toEqual([])
  })

  // Proves: notify-30
  test('is also posted to subscribed webhooks, with the same bytes and their own secret; their outcome does not affect the mail', async () => {
    const { app, actor, receiver, addWebhook, addRoute, arrive, inboundRow } = service
    const hook = await addWebhook(['email.inbound'])
    const route = await addRoute({ webhook_url: null })
    const kept = await arrive('support')
    await service.settled(hook, 1)
    expect(inboundRow(kept.id)).toEqual({ status: RECEIVED, deliveredAt: null, error: null })
    await service.put(route.id, { webhook_url: receiver.url(HOOK_HOST, '/route') })
    await arrive('support', { subject: 'Both' })
    await service.settled(hook, 2)
    await waitForDeliveries(service, route.id, 1)
    const [first, ...both] = receiver.requests
    expect([first?.url, ...both.map(({ url }) => url).sort()]).toEqual(['/hook', '/hook', '/route'])
    expect(both[0]?.text).toBe(both[1]?.text ?? '')
    const secret = await revealInboundSecret(app, actor)
    const ofRoute = both.find(({ url }) => url === '/route')
    const ofHook = both.find(({ url }) => url === '/hook')
    expect([isSignedWith(ofRoute, secret), isSignedWith(ofHook, hook.secret), isSignedWith(ofHook, secret)]).toEqual([
      true,
      true,
      false,
    ])
  })

  test('that was deleted before its attempt is not posted', async () => {
    const { api, app, addRoute, arrive, receiver } = service
    const route = await addRoute()
    receiver.answer({ status: 503 })
    const { id } = await arrive('support')
    await waitForDeliveries(service, route.id, 1)
    app.db.run('DELETE FROM inbound_emails')
    await advanceToNextAttempt(service, route.id)
    const [delivery] = await eventually(async () => {
      const all = await service.history(route.id, '?status=undeliverable')
      return all.length > 0 ? all : undefined
    })
    expect(delivery).toMatchObject({ inbound_email_id: id, attempts: 1, error: 'The event was deleted.' })
    expect(receiver.requests).toHaveLength(1)
    const again = await api('POST', `/v1/inbound-routes/${route.id}/deliveries/${delivery?.['id']}/replay`)
    expectError(again, 409, 'event_gone')
  })
})

describe('a failing URL of a route', () => {
  // Proves: inbound-15
  test('is retried on the schedule with the same bytes, and mail that it never accepts records that', async () => {
    const { receiver, addRoute, arrive, inboundRow } = service
    receiver.answer({ status: 500 })
    const route = await addRoute()
    const { id } = await arrive('support')
    for (let attempt = 1; attempt <= 5; attempt++) {
      await waitForDeliveries(service, route.id, 1)
      expect(receiver.requests).toHaveLength(attempt)
      if (attempt === 5) break
      expect(inboundRow(id)).toEqual({ status: RECEIVED, deliveredAt: null, error: null })
      await advanceToNextAttempt(service, route.id)
      await receiver.received(attempt + 1)
    }
    expect(new Set(receiver.requests.map(({ text }) => text)).size).toBe(1)
    expect((await waitForDeliveries(service, route.id, 1))[0]).toMatchObject({ status: 'undeliverable', attempts: 5 })
    expect(inboundRow(id)).toEqual({
      status: RECEIVED,
      deliveredAt: null,
      error: 'The webhook of the route failed: The response status was 500. That was the last of 5 attempts.',
    })
    expect(await service.route(route.id)).toMatchObject({
      failure_count: 5,
      last_failure_reason: 'The response status was 500.',
    })
  })

  // Proves: inbound-15, inbound-16
  test('is deactivated after ten consecutive failures, and pending deliveries end; any change of the route reactivates it', async () => {
    const { api, receiver, addRoute, arrive, inboundRow, put } = service
    receiver.answer({ status: 500 })
    const route = await addRoute()
    const first = await arrive('support')
    for (let n = 1; n < 10; n++) await arrive('support', { subject: `${n}` })
    // Moves the clock until the backoffs end.
    await eventually(async () => {
      if (service.webhooks?.inFlight === 0) service.clock.advance(minutes(1))
      return (await service.route(route.id))['failure_count'] === 10
    })
    const all = await waitForDeliveries(service, route.id, 1)
    expect(await service.route(route.id)).toMatchObject({
      is_active: true,
      webhook_url: route['webhook_url'],
      failure_count: 10,
      last_failure_reason: 'deactivated after 10 consecutive failures',
    })
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set(['undeliverable']))
    expect(inboundRow(first.id).error).toStartWith(
      'The webhook of the route failed: The response status was 500. The webhook was deactivated after 10',
    )
    const log = at((await api('GET', '/v1/audit-logs?per_page=1')).body, 'data') as Json[]
    expect([log[0]?.['action'], log[0]?.['resource_id']]).toEqual(['inbound_route.webhook_deactivated', route.id])
    // It still gets its mail, which is posted nowhere.
    await addRoute({ pattern: 'sales', webhook_url: null })
    const missed = await arrive('support', { subject: 'missed' })
    await arrive('sales', { subject: 'of another route' })
    receiver.answer({})
    expect(await put(route.id, { priority: 0 })).toMatchObject({ failure_count: 0, last_failure_reason: null })
    const told = await arrive('support', { subject: 'told' })
    await waitForDeliveries(service, route.id, all.length + 1)
    expect(listSubjects(receiver.requests).slice(10)).toEqual(['told'])
    expect([inboundRow(missed.id).status, inboundRow(told.id).status]).toEqual([RECEIVED, DELIVERED])
    const replay = await api('POST', `/v1/inbound-routes/${route.id}/replay`, { from_seq: missed.seq })
    expect({ status: replay.status, body: replay.body }).toEqual({
      status: 202,
      body: { data: { deliveries: 2, from_seq: missed.seq, to_seq: told.seq } },
    })
    await waitForDeliveries(service, route.id, all.length + 3)
    expect(listSubjects(receiver.requests).slice(11).sort()).toEqual(['missed', 'told'])
    expect(inboundRow(missed.id).status).toBe(DELIVERED)
  })

  test('no longer counts as deactivated by failures once its user deactivated the route', async () => {
    const { app, addRoute, put } = service
    const { id } = await addRoute()
    app.db.run('UPDATE webhooks SET is_active = 0, off_by_failures = 1, failure_count = 10')
    await put(id, { is_active: false })
    const states = () => app.db.query('SELECT is_active AS isActive, off_by_failures AS isOff FROM webhooks').all()
    expect(states()).toEqual([{ isActive: 0, isOff: 0 }])
    expect(await put(id, { is_active: true })).toMatchObject({ is_active: true, failure_count: 0 })
    expect(states()).toEqual([{ isActive: 1, isOff: 0 }])
  })

  // Proves: inbound-16
  test('that rejects mail permanently makes it undeliverable immediately; a replay posts it again and delivers it', async () => {
    const { api, receiver, addRoute, arrive, inboundRow } = service
    receiver.answer({ status: 404 })
    const route = await addRoute()
    const { id, seq } = await arrive('support')
    const [refused] = await waitForDeliveries(service, route.id, 1)
    const path = `/v1/inbound-routes/${route.id}/deliveries`
    expectError(await api('POST', `${path}/${route.id}/replay`), 404, 'delivery_not_found')
    expect(inboundRow(id).error).toBe('The webhook of the route failed: The response status was 404.')
    receiver.answer({})
    const replay = await api('POST', `${path}/${refused?.['id']}/replay`)
    expect({ status: replay.status, data: at(replay.body, 'data') }).toMatchObject({
      status: 202,
      data: { route_id: route.id, inbound_email_id: id, seq, status: 'pending', attempts: 0 },
    })
    await waitForDeliveries(service, route.id, 2)
    expect(inboundRow(id)).toMatchObject({ status: DELIVERED, deliveredAt: service.clock.now() })
    expect(receiver.requests[0]?.text).toBe(receiver.requests[1]?.text ?? '')
  })
})

describe('a route that stops posting', () => {
  const ENDS: readonly (readonly [
    how: string,
    end: (service: RouteService, id: string) => Promise<unknown>,
    says: string,
  ])[] = [
    ['it is deactivated', ({ put }, id) => put(id, { is_active: false }), 'The webhook was deactivated.'],
    ['its URL is removed', ({ put }, id) => put(id, { webhook_url: null }), 'The webhook was deactivated.'],
    ['it is deleted', ({ api }, id) => api('DELETE', `/v1/inbound-routes/${id}`), 'The webhook was deleted.'],
  ]
  // Proves: inbound-15
  test.each(ENDS)(
    'ends its pending deliveries when %s: no further attempt is made, and the mail records that',
    async (_, end, says) => {
      const { receiver, addRoute, arrive, inboundRow, clock, app } = service
      receiver.answer({ status: 503 })
      const route = await addRoute()
      const { id } = await arrive('support')
      await waitForDeliveries(service, route.id, 1)
      await end(service, route.id)
      const error = await eventually(() => inboundRow(id).error)
      expect(error).toBe(`The webhook of the route failed: The response status was 503. ${says}`)
      clock.advance(hours(10))
      await app.commit.barrier()
      expect({ requests: receiver.requests.length, inFlight: service.webhooks?.inFlight }).toEqual({
        requests: 1,
        inFlight: 0,
      })
    },
  )

  // Proves: inbound-16
  test('keeps its history; with a URL again it posts mail from then on', async () => {
    const { api, receiver, addRoute, arrive, put } = service
    const route = await addRoute()
    await arrive('support', { subject: 'first' })
    const [first] = await waitForDeliveries(service, route.id, 1)
    await put(route.id, { webhook_url: null })
    await arrive('support', { subject: 'second' })
    expect(await service.history(route.id)).toEqual([first ?? {}])
    const replay = await api('POST', `/v1/inbound-routes/${route.id}/deliveries/${first?.['id']}/replay`)
    expectError(replay, 409, 'webhook_inactive')
    await put(route.id, { webhook_url: receiver.url(HOOK_HOST, '/other') })
    await arrive('support', { subject: 'third' })
    await waitForDeliveries(service, route.id, 2)
    expect(receiver.requests.map((request) => [request.url, parseBody(request)['subject']])).toEqual([
      ['/route', 'first'],
      ['/other', 'third'],
    ])
  })
})

describe('the inbound secret', () => {
  // Proves: notify-49
  test('is shared by all routes of an account, differs between accounts, and is stored sealed', async () => {
    const { app, actor, addRoute } = service
    await addRoute()
    await addRoute({ pattern: 'sales' })
    const secret = await revealInboundSecret(app, actor)
    expect(secret).toMatch(/^whsec_[0-9A-Za-z]{32}$/)
    expect(await revealInboundSecret(app, actor)).toBe(secret)
    const log = at((await service.api('GET', '/v1/audit-logs?per_page=1')).body, 'data') as Json[]
    expect([log[0]?.['action'], log[0]?.['resource_id']]).toEqual(['inbound_secret.revealed', actor.accountUuid])
    expect(JSON.stringify(log)).not.toContain(secret)
    expect(await revealInboundSecret(app, await service.newAccount())).not.toBe(secret)
    expect(Buffer.from(app.db.serialize()).includes(secret)).toBe(false)
  })

  // Proves: notify-49
  test('signs every attempt after its rotation, including retries', async () => {
    const { app, actor, receiver, addRoute, arrive } = service
    receiver.answer({ status: 503 })
    const route = await addRoute()
    const before = await revealInboundSecret(app, actor)
    await arrive('support')
    await waitForDeliveries(service, route.id, 1)
    const after = await rotateInboundSecret(app, actor)
    expect(after).not.toBe(before)
    receiver.answer({})
    await advanceToNextAttempt(service, route.id)
    const [first, second] = await receiver.received(2)
    expect([first, second].map((request) => [isSignedWith(request, before), isSignedWith(request, after)])).toEqual([
      [true, false],
      [false, true],
    ])
  })

  test('that is rotated during an attempt keeps the outcome from counting, even while the clock stands still', async () => {
    const { app, actor, receiver, addRoute, arrive } = service
    const gate = Promise.withResolvers<void>()
    receiver.answer(async () => {
      await gate.promise
      return { status: 401 }
    })
    const route = await addRoute()
    await arrive('support')
    await receiver.received(1)
    await rotateInboundSecret(app, actor)
    gate.resolve()
    await waitForDeliveries(service, route.id, 1)
    const failures = app.db.query<{ n: number }, []>('SELECT failure_count AS n FROM webhooks').all()
    expect(failures).toEqual([{ n: 0 }])
  })
})

// Proves: inbound-15
test('the webhook of a route never appears under /v1/webhooks and is not counted there', async () => {
  const { api, receiver, addRoute } = service
  const { id } = await addRoute()
  expect((await api('GET', '/v1/webhooks')).body).toMatchObject({ data: [], pagination: { total: 0 } })
  const put = { url: receiver.url(HOOK_HOST, '/x'), events: ['sent'], is_active: true }
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PUT', '', put],
    ['DELETE', '', undefined],
    ['POST', '/test', undefined],
    ['GET', '/deliveries', undefined],
    ['POST', '/replay', { from_seq: 1 }],
  ] as const)
    expectError(await api(method, `/v1/webhooks/${id}${path}`, body), 404, 'webhook_not_found')
  expect(await service.route(id)).toMatchObject({ is_active: true, webhook_url: receiver.url(HOOK_HOST, '/route') })
})

// Proves: inbound-15
test('a restart posts mail that arrived in between, and resumes retries', async () => {
  const { app, receiver, addRoute, arrive, clock, history } = service
  receiver.answer({ status: 503 })
  const route = await addRoute()
  await arrive('support', { subject: 'retried' })
  await waitForDeliveries(service, route.id, 1)
  await service.webhooks?.stop(0)
  await arrive('support', { subject: 'new' })
  receiver.answer({})
  clock.advance(minutes(16))
  await using _ = startDispatcher(app)
  const requests = await receiver.received(3)
  expect(listSubjects(requests).slice(1).sort()).toEqual(['new', 'retried'])
  await eventually(async () => (await history(route.id, '?status=delivered')).length === 2)
})

const ADA = 'ada@people.test'
const PATH = '/v1/inbound-routes/secret'

// Proves: inbound-38
test('the secret of all routes is shown and replaced for a user who typed the password within ten minutes', async () => {
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

describe('the deliveries of an inbound email', () => {
  // Proves: inbound-36
  test('are those of its route for this email alone, with replays, newest first', async () => {
    const { api, addRoute, arrive, history } = service
    const route = await addRoute()
    await addRoute({ pattern: 'stored', webhook_url: null })
    const { id } = await arrive('support', { subject: 'Help' })
    await arrive('support', { subject: 'Another' })
    const unrouted = await arrive('nobody')
    const stored = await arrive('stored')
    const list = async (email: string, query = '') =>
      (await api('GET', `/v1/inbound/${email}/deliveries${query}`)).body as { data: Json[]; pagination: Json }
    await eventually(async () => (await history(route.id)).length === 2 || undefined)
    const first = await eventually(async () => (await list(id)).data.find(({ status }) => status === 'delivered'))
    expect(first).toMatchObject({ route_id: route.id, inbound_email_id: id, event: 'email.inbound', attempts: 1 })

    const replay = await api('POST', `/v1/inbound-routes/${route.id}/deliveries/${first['id']}/replay`)
    expect(replay.status).toBe(202)
    const { data, pagination } = await list(id)
    expect(data.map((delivery) => delivery['id'])).toEqual([at(replay.body, 'data', 'id'), first['id']])
    expect(pagination).toEqual({ page: 1, per_page: 25, total: 2, total_pages: 1 })
    expect((await list(id, '?per_page=1&page=2')).data.map((delivery) => delivery['id'])).toEqual([first['id']])

    for (const other of [unrouted, stored]) expect((await list(other.id)).data).toEqual([])
    await api('DELETE', `/v1/inbound-routes/${route.id}`)
    expect((await list(id)).data).toEqual([])
  })
})

describe('a tested address', () => {
  // Proves: inbound-37
  test('names the mailbox or route that would get its mail', async () => {
    await using service = await startRouteService({ settings: { TASSIS_INBOUND_ADDR: '127.0.0.1:2525' } })
    const { api, addRoute, domainId, put } = service
    const match = async (address: string) =>
      at((await api('GET', `/v1/inbound-routes/match?address=${encodeURIComponent(address)}`)).body, 'data') as Json
    const found = { is_accepted: true, rejection: null, domain_id: domainId, mailbox_id: null, route_id: null }
    expect(await match(`support@${INBOUND}`)).toEqual({ ...found, address: `support@${INBOUND}` })
    const support = await addRoute()
    const all = await addRoute({ pattern: '', match_type: 'catch_all' })
    const mailbox = await api('POST', '/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
    expect(await match(`Support+7@${INBOUND.toUpperCase()}`)).toMatchObject({ ...found, route_id: support.id })
    expect(await match(`anything@${INBOUND}`)).toMatchObject({ ...found, route_id: all.id })
    expect(await match(`agent+1@${INBOUND}`)).toMatchObject({
      ...found,
      mailbox_id: at(mailbox.body, 'data', 'id') as string,
    })
    await put(support.id, { is_active: false })
    expect(await match(`support@${INBOUND}`)).toMatchObject({ ...found, route_id: all.id })

    const other = { ...found, is_accepted: false }
    await api('PATCH', `/v1/domains/${domainId}`, { inbound_enabled: false })
    expect(await match(`x@${INBOUND}`)).toMatchObject({ ...other, rejection: 'inbound_disabled', route_id: all.id })
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    expect(await match(`x@${INBOUND}`)).toMatchObject({ ...other, rejection: 'domain_not_verified', route_id: all.id })
    expect(await match('x@elsewhere.test')).toMatchObject({ ...other, rejection: 'unknown_domain', domain_id: null })
    for (const address of ['', 'support', 'a@b@c', 'x'.repeat(400)])
      expectError(
        await api('GET', `/v1/inbound-routes/match?address=${encodeURIComponent(address)}`),
        422,
        'validation_failed',
        'address',
      )
  })

  // Proves: inbound-37
  test('is not accepted while the server does not listen for mail', async () => {
    const { body } = await service.api('GET', `/v1/inbound-routes/match?address=x@${INBOUND}`)
    expect(at(body, 'data')).toMatchObject({ is_accepted: false, rejection: 'server_not_receiving' })
  })
})

// Proves: notify-17, notify-31
test('a mailbox message is posted to subscribed webhooks in its own shape, unless it was deleted; a range replays it', async () => {
  const { app, actor, api, domainId, addWebhook, receiver } = service
  const hook = await addWebhook(['mailbox.message.received'])
  const made = await api('POST', '/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
  const mailboxId = String(at(made.body, 'data', 'id'))
  const received = await createTestReceived(app, { text: 'Do it.', message: { subject: 'Task' } })
  await app.commit.write((tx) => {
    const mailbox = findMailbox(tx.db, INBOUND, 'agent')
    if (!mailbox) throw new Error('there is no mailbox')
    deliverToMailbox(app, tx, mailbox, received)
  })
  await service.settled(hook, 1)
  const [request] = await receiver.received(1)
  const body = JSON.parse(request?.text ?? '{}') as Record<string, unknown>
  const timestamp = new Date(NOW).toISOString()
  expect([request?.headers['x-service-event'], body]).toEqual([
    'mailbox.message.received',
    {
      event: 'mailbox.message.received',
      mailbox_id: mailboxId,
      message: {
        id: expect.stringMatching(UUID),
        from: 'Ada <ada@customer.test>',
        reply_to: null,
        subject: 'Task',
        text_body: 'Do it.',
        html_body: null,
        attachments: [],
        message_id: '<1@customer.test>',
        in_reply_to: null,
        spam: null,
        references: null,
        thread_id: expect.stringMatching(UUID),
        received_at: timestamp,
      },
      authentication: UNKNOWN_AUTHENTICATION,
      source_ip: '192.0.2.7',
      timestamp,
    },
  ])
  const feed = at((await api('GET', '/v1/events?types=mailbox.message.received')).body, 'data', 0)
  expect(feed).toMatchObject({
    seq: 1,
    email_id: null,
    raw_payload: { mailbox_id: mailboxId, mailbox_message_id: at(body, 'message', 'id') },
  })
  expect((await api('POST', `/v1/webhooks/${hook.id}/replay`, { from_seq: 1 })).body).toEqual({
    data: { deliveries: 1, from_seq: 1, to_seq: 1 },
  })
  await service.settled(hook, 2)
  expect(receiver.requests.map(({ text }) => text)).toEqual([request?.text ?? '', request?.text ?? ''])

  expect((await api('DELETE', `/v1/agent-mailboxes/${mailboxId}`)).status).toBe(204)
  expect(buildPayload(app, actor.accountId, 1)).toBeUndefined()
})
