import { expect, test } from 'bun:test'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { sendTestEvent } from '#features/webhooks/webhooks/history/replay.ts'
import { parseUuid } from '#platform/ids.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { createWebhookApi } from '#test/features/webhooks/webhooks/fixture.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError, NOW, shareEmailApi, UUID } from '#test/support/email-api.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'
import {
  type CreatedWebhook,
  type StoredDelivery,
  startWebhookService,
  type WebhookService,
} from '#test/support/webhooks.ts'

const service = shareEmailApi(createWebhookApi)

/** Waits until the webhook has that many deliveries and none of them is pending, and returns them. */
const waitForEnded = ({ deliveries }: WebhookService, hook: CreatedWebhook, count: number): Promise<StoredDelivery[]> =>
  eventually(() => {
    const all = deliveries(hook)
    return all.length === count && all.every(({ status }) => status !== 'pending') && all
  })

// Proves: webhook-7, notify-14, notify-33
test('a test event is queued, returned with its payload, and stored in the history and the audit log', async () => {
  const { app, api, actor, addWebhook, deliveries, audited } = service
  const { id } = await addWebhook()
  const answer = await api('POST', `/v1/webhooks/${id}/test`)
  const payload = {
    event: 'test',
    account_id: actor.accountUuid,
    timestamp: new Date(NOW).toISOString(),
    data: { message: expect.any(String) },
  }
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 200,
    body: { data: { message: expect.any(String), delivery_id: expect.stringMatching(UUID), payload } },
  })
  const now = new Date(NOW).toISOString()
  expect(await deliveries(id)).toMatchObject([
    { webhook_id: id, event: 'test', event_id: null, seq: null, email_id: null, status: 'pending', attempts: 0 },
  ])
  expect((await deliveries(id))[0]).toMatchObject({ next_attempt_at: now, created_at: now })
  // The response contains what is sent.
  const stored = app.db.query<{ payload: string }, []>('SELECT payload FROM webhook_deliveries').get()
  expect(JSON.parse(stored?.payload ?? '')).toEqual(at(answer.body, 'data', 'payload'))
  expect(await audited(1)).toEqual([['webhook.tested', id]])
})

// Proves: notify-34
test('the sixth test within a minute, from any source, is a 429 with a retry time; it stores nothing', async () => {
  const { app, api, actor, clock, addWebhook, deliveries } = service
  const { id } = await addWebhook()
  const ask = () => api('POST', `/v1/webhooks/${id}/test`)
  expect((await ask()).status).toBe(200)
  clock.advance(seconds(20))
  // One test from the command line, and one as the replay of a test.
  await sendTestEvent(
    app,
    toOperatorActor({ id: actor.accountId, uuid: parseUuid(actor.accountUuid) ?? new Uint8Array() }),
    id,
  )
  const first = (await deliveries(id)).at(-1)?.['id']
  expect((await api('POST', `/v1/webhooks/${id}/deliveries/${first}/replay`)).status).toBe(202)
  expect([(await ask()).status, (await ask()).status]).toEqual([200, 200])
  for (const refused of [await ask(), await api('POST', `/v1/webhooks/${id}/deliveries/${first}/replay`)]) {
    expectError(refused, 429, 'too_many_tests')
    expect(refused.headers.get('retry-after')).toBe('40')
    expect(at(refused.body, 'message')).toBe('A webhook is sent at most 5 test events a minute; try again in 40 s.')
  }
  expect(await deliveries(id)).toHaveLength(5)
  // Another webhook has its own five.
  expect((await api('POST', `/v1/webhooks/${(await addWebhook()).id}/test`)).status).toBe(200)
  clock.advance(seconds(40) - 1)
  expect((await ask()).status).toBe(429)
  clock.advance(1)
  expect((await ask()).status).toBe(200)
  expect((await ask()).status).toBe(429)
})

// Proves: notify-34
test('at most five concurrent tests are accepted', async () => {
  const { id } = await service.addWebhook()
  const answers = await Promise.all(Array.from({ length: 20 }, () => service.api('POST', `/v1/webhooks/${id}/test`)))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(15)
})

test('tests are also sent to an inactive webhook; a clock set back blocks no test', async () => {
  const { api, clock, addWebhook, put, deliveries } = service
  const { id } = await addWebhook()
  await put(id, { is_active: false })
  for (let i = 0; i < 5; i++) expect((await api('POST', `/v1/webhooks/${id}/test`)).status).toBe(200)
  clock.jumpTo(clock.now() - hours(2))
  expect((await api('POST', `/v1/webhooks/${id}/test`)).status).toBe(200)
  expect((await deliveries(id, '?status=pending')).map(({ event }) => event)).toEqual(Array(6).fill('test'))
})

// Proves: notify-33
test('a test is signed like any event, is not retried and counts as no failure, even for an inactive webhook', async () => {
  await using service = await startWebhookService()
  const { api, actor, clock, receiver, addWebhook } = service
  receiver.answer({ status: 500, body: 'not today' })
  const hook = await addWebhook()
  for (const isActive of [true, false]) {
    const body = { url: receiver.url(), events: ['sent'], is_active: isActive }
    expect((await api('PUT', `/v1/webhooks/${hook.id}`, body)).status).toBe(200)
    for (let i = 0; i < 5; i++) expect((await api('POST', `/v1/webhooks/${hook.id}/test`)).status).toBe(200)
    await waitForEnded(service, hook, isActive ? 5 : 10)
    clock.advance(minutes(60))
  }
  const failed = {
    event: 'test',
    seq: null,
    status: 'undeliverable',
    attempts: 1,
    nextAt: null,
    statusCode: 500,
    response: 'not today',
    error: 'The response status was 500.',
  }
  expect(await waitForEnded(service, hook, 10)).toEqual(Array(10).fill(failed))
  expect(receiver.requests).toHaveLength(10)
  for (const request of receiver.requests) {
    expect(request.headers).toMatchObject({ 'x-service-event': 'test', 'x-service-attempt': '1' })
    // The receiver uses the machine's time, the signature that of the test's clock.
    const nowMs = Number(/t=(\d+)/.exec(request.headers['x-service-signature'] ?? '')?.[1]) * 1000
    expect(findWebhookViolations(request, { secret: hook.secret, nowMs, accountId: actor.accountUuid })).toEqual([])
  }
  expect((await api('GET', `/v1/webhooks/${hook.id}`)).body).toMatchObject({
    data: { is_active: false, failure_count: 0, last_failure_at: null, last_failure_reason: null },
  })
})

test('a request for a test event accepts no fields', async () => {
  const { id } = await service.addWebhook()
  const answer = await service.api('POST', `/v1/webhooks/${id}/test`, { event: 'sent' })
  expectError(answer, 422, 'validation_failed', 'event')
  expect(await service.deliveries(id)).toEqual([])
})
