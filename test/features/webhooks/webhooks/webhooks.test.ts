import { describe, expect, test } from 'bun:test'
import { WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { purgeWebhookHistory } from '#features/webhooks/webhooks/manage/pending.ts'
import { seconds } from '#platform/units.ts'
import { createWebhookApi, HOOK, type WebhookApi } from '#test/features/webhooks/webhooks/fixture.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { expectError, NOW, shareEmailApi } from '#test/support/email-api.ts'

const service = shareEmailApi(createWebhookApi)

/** All events that a webhook can subscribe to. */
const EVENTS: (typeof WEBHOOK_EVENTS)[number][] = [
  'sent',
  'deferred',
  'bounced',
  'failed',
  'opened',
  'clicked',
  'complained',
  'email.inbound',
  'mailbox.message.received',
  'account.auto_paused',
  'insights.generated',
  'delivered',
  'rejected',
  'uncertain',
  'unsubscribed',
  'domain.records_lost',
  'domain.records_restored',
  'domain.unverified',
]

/** Stores consecutive failures as the dispatcher does; the tenth deactivates. */
const fail = ({ app, rowId }: WebhookApi, id: string, count: number): void =>
  void app.db.run(
    "UPDATE webhooks SET failure_count = ?1, is_active = ?1 < 10, off_by_failures = ?1 >= 10, last_failure_reason = 'No.' WHERE id = ?2",
    [count, rowId(id)],
  )

// Proves: list-26, webhook-1, webhook-2, webhook-4, webhook-8, notify-12
test('a webhook is created with a signing secret that is shown only then, and read with every field', async () => {
  const { api, actor } = service
  const created = await api('POST', '/v1/webhooks', HOOK)
  expect(created.status).toBe(201)
  const id = String(at(created.body, 'data', 'id'))
  const record = {
    id,
    account_id: actor.accountUuid,
    url: HOOK.url,
    description: null,
    events: HOOK.events,
    is_active: true,
    failure_count: 0,
    failing_since: null,
    last_failure_at: null,
    last_failure_reason: null,
    last_success_at: null,
    secret_rotated_at: null,
    format: 'tassis',
    created_at: new Date(NOW).toISOString(),
    updated_at: new Date(NOW).toISOString(),
  }
  expect(created.body).toEqual({ data: { ...record, secret: expect.stringMatching(/^whsec_[0-9A-Za-z]{32}$/) } })
  expect((await api('GET', `/v1/webhooks/${id}`)).body).toEqual({ data: record })
  expect((await api('GET', '/v1/webhooks')).body).toEqual({
    data: [record],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
  const put = await api('PUT', `/v1/webhooks/${id}`, { ...HOOK, is_active: true })
  // `updated_at` increased, although the clock stands still.
  const updated = { ...record, updated_at: new Date(NOW + 1).toISOString() }
  expect({ status: put.status, body: put.body }).toEqual({ status: 200, body: { data: updated } })
})

// Proves: notify-12
test('the secret is stored sealed: nothing on disk holds it', async () => {
  const { secret } = await service.addWebhook()
  const rows = service.app.db.query<{ secret: Uint8Array }, []>('SELECT * FROM webhooks').all()
  expect(rows).toHaveLength(1)
  expect(Buffer.from(service.app.db.serialize()).includes(secret)).toBe(false)
})

// Proves: webhook-4, webhook-5, webhook-6, webhook-7
test('a webhook is created, changed and deleted, each with an audit row without the secret; then it is a 404', async () => {
  const { api, addWebhook, put, audited, clock } = service
  const { id, secret } = await addWebhook()
  clock.advance(seconds(5))
  expect(await put(id, { url: 'https://127.0.0.1/other', events: ['opened'], is_active: false })).toMatchObject({
    id,
    url: 'https://127.0.0.1/other',
    events: ['opened'],
    is_active: false,
    created_at: new Date(NOW).toISOString(),
    updated_at: new Date(NOW + 5000).toISOString(),
  })
  const deleted = await api('DELETE', `/v1/webhooks/${id}`)
  expect({ status: deleted.status, body: deleted.body }).toEqual({ status: 204, body: undefined })
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PUT', '', { ...HOOK, is_active: true }],
    ['DELETE', '', undefined],
    ['POST', '/test', undefined],
    ['GET', '/deliveries', undefined],
    ['POST', '/replay', { from_seq: 1 }],
  ] as const)
    expectError(await api(method, `/v1/webhooks/${id}${path}`, body), 404, 'webhook_not_found')
  expect(at((await api('GET', '/v1/webhooks')).body, 'pagination', 'total')).toBe(0)
  expect(await audited(3)).toEqual([
    ['webhook.created', id],
    ['webhook.updated', id],
    ['webhook.deleted', id],
  ])
  expect(JSON.stringify((await api('GET', '/v1/audit-logs')).body)).not.toContain(secret)
})

describe('events', () => {
  // Proves: webhook-9
  test('can be any of the known ones', async () => {
    expect(WEBHOOK_EVENTS.toSorted()).toEqual(EVENTS.toSorted())
    expect((await service.addWebhook({ events: EVENTS }))['events']).toEqual(EVENTS)
  })

  // Proves: list-26, webhook-9
  test('with an unknown name are a 422 that lists the known ones, an empty list is a 422, and duplicates are merged', async () => {
    const { api, addWebhook } = service
    const { id } = await addWebhook()
    for (const [method, path, more] of [
      ['POST', '/v1/webhooks', {}],
      ['PUT', `/v1/webhooks/${id}`, { is_active: true }],
    ] as const) {
      for (const name of ['open', 'SENT', 'test', 'queued', '']) {
        const refused = await api(method, path, { ...HOOK, ...more, events: ['sent', name] })
        expectError(refused, 422, 'unknown_event', 'events')
        for (const known of EVENTS) expect(at(refused.body, 'message')).toContain(known)
      }
      expectError(await api(method, path, { ...HOOK, ...more, events: [] }), 422, 'validation_failed', 'events')
      const merged = await api(method, path, { ...HOOK, ...more, events: ['sent', 'opened', 'sent', 'opened'] })
      expect(at(merged.body, 'data', 'events')).toEqual(['sent', 'opened'])
    }
  })

  test.each(['queued', 'scheduled', 'cancelled'])(
    'cannot name %s, which the 422 says is only in the feed',
    async (name) => {
      const refused = await service.api('POST', '/v1/webhooks', { ...HOOK, events: ['sent', name] })
      expectError(refused, 422, 'unknown_event', 'events')
      expect(at(refused.body, 'message')).toStartWith(
        `The event "${name}" is available only in the feed (GET /v1/events); webhooks support sent, delivered, `,
      )
    },
  )

  test('with a name of Resend are a 422 that names ours', async () => {
    const refused = await service.api('POST', '/v1/webhooks', { ...HOOK, events: ['email.delivery_delayed'] })
    expectError(refused, 422, 'unknown_event', 'events')
    expect(at(refused.body, 'message')).toBe(
      '"email.delivery_delayed" is the name of Resend for deferred; write deferred, and "format": "resend" for payloads in Resend\'s form.',
    )
  })
})

describe('the URL', () => {
  // Proves: webhook-3
  test('must be https and hold no credentials; otherwise it is a 422 that stores nothing', async () => {
    const { api, addWebhook, webhook } = service
    const { id } = await addWebhook()
    const urls = [
      '',
      'hooks.test',
      'http://hooks.test/',
      'ftp://hooks.test/',
      'javascript:alert(1)',
      'https://',
      'https://user:password@hooks.test/',
      'https://user@hooks.test/',
      `https://hooks.test/${'x'.repeat(2048)}`,
    ]
    const before = await webhook(id)
    for (const url of urls) {
      expectError(await api('POST', '/v1/webhooks', { ...HOOK, url }), 422, 'invalid_url', 'url')
      const put = await api('PUT', `/v1/webhooks/${id}`, { ...HOOK, url, is_active: true })
      expectError(put, 422, 'invalid_url', 'url')
    }
    expect(await webhook(id)).toEqual(before)
    expect(at((await api('GET', '/v1/webhooks')).body, 'pagination', 'total')).toBe(1)
  })

  // Proves: webhook-13
  test('may have a name that does not resolve, but not a forbidden address', async () => {
    await using dns = await startDnsServer({
      'private.test': { A: ['10.1.2.3'] },
      'both.test': { A: ['192.0.2.1', '127.0.0.1'] },
    })
    await using service = await createWebhookApi({
      settings: { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false', TASSIS_DNS_SERVERS: dns.address },
    })
    const { api } = service
    for (const host of [
      '127.0.0.1',
      '[::1]',
      '10.1.2.3',
      '169.254.169.254',
      'private.test',
      'both.test',
      'localhost',
    ]) {
      const refused = await api('POST', '/v1/webhooks', { ...HOOK, url: `https://${host}/` })
      expectError(refused, 422, 'invalid_url', 'url')
      const isLocal = ['127.0.0.1', '[::1]', 'localhost'].includes(host)
      expect(String(at(refused.body, 'message')).includes('run `tassis listen` there')).toBe(isLocal)
    }
    const unknown = await api('POST', '/v1/webhooks', { ...HOOK, url: 'https://not-yet.test/' })
    expect(unknown.status).toBe(201)
  })

  test('is checked for at most ten webhooks of an account at a time: more are a 429, but not for other accounts', async () => {
    await using dns = await startDnsServer({ 'silent.test': 'SILENCE' })
    await using service = await createWebhookApi({ settings: { TASSIS_DNS_SERVERS: dns.address } })
    const { api, clock, newKey, newAccount } = service
    const request = { ...HOOK, url: 'https://silent.test/' }
    const waiting = Array.from({ length: 10 }, () => api('POST', '/v1/webhooks', request))
    const codeOfNext = async () =>
      at((await api('POST', '/v1/webhooks', { ...HOOK, url: 'http://no.test/' })).body, 'code')
    await eventually(async () => (await codeOfNext()) === 'too_many_checks')
    expectError(await api('POST', '/v1/webhooks', HOOK), 429, 'too_many_checks')
    const key = await newKey([], await newAccount())
    expect((await api('POST', '/v1/webhooks', HOOK, { key })).status).toBe(201)
    clock.advance(seconds(5))
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(Array(10).fill(201))
    expect(await codeOfNext()).toBe('invalid_url')
  })
})

describe('a PUT', () => {
  // Proves: webhook-5
  test('needs url, events and is_active', async () => {
    const { id } = await service.addWebhook()
    const whole = { ...HOOK, is_active: true }
    for (const field of ['url', 'events', 'is_active'] as const) {
      const { [field]: _, ...rest } = whole
      const refused = await service.api('PUT', `/v1/webhooks/${id}`, rest)
      expectError(refused, 422, 'validation_failed', field)
      expect(at(refused.body, 'message')).toBe(`${field} is required: a PUT sends all of url, events and is_active.`)
    }
    const text = await service.api('PUT', `/v1/webhooks/${id}`, { ...whole, is_active: 'true' })
    expectError(text, 422, 'validation_failed', 'is_active')
  })

  // Proves: webhook-10, webhook-11
  test('of a webhook that 10 failures deactivated reactivates it, even with is_active false, and resets the count', async () => {
    const { addWebhook, webhook, put } = service
    for (const isActive of [true, false]) {
      const { id } = await addWebhook()
      fail(service, id, 10)
      expect(await webhook(id)).toMatchObject({ is_active: false, failure_count: 10 })
      const reactivated = { is_active: true, failure_count: 0, last_failure_reason: null }
      expect(await put(id, { is_active: isActive })).toMatchObject(reactivated)
      expect(await webhook(id)).toMatchObject(reactivated)
      // Now its user deactivates it.
      expect(await put(id, { is_active: false })).toMatchObject({ is_active: false, last_failure_reason: null })
    }
  })

  // Proves: webhook-10
  test('of a webhook that its user deactivated leaves it inactive until is_active is true', async () => {
    const { addWebhook, put } = service
    const { id } = await addWebhook()
    expect(await put(id, { is_active: false })).toMatchObject({ is_active: false })
    expect(await put(id, { is_active: false, events: ['opened'] })).toMatchObject({ is_active: false })
    expect(await put(id, { is_active: true })).toMatchObject({ is_active: true })
  })

  test('keeps the failures of an active webhook, unless it gets another URL', async () => {
    const { addWebhook, put } = service
    const { id } = await addWebhook()
    fail(service, id, 4)
    expect(await put(id, { events: ['sent'] })).toMatchObject({ failure_count: 4 })
    expect(await put(id, { url: 'https://127.0.0.1/moved' })).toMatchObject({ failure_count: 0 })
  })

  test('that reactivates moves the cursor, so earlier events are not delivered; other changes do not move it', async () => {
    const { app, addWebhook, put, tell, rowId } = service
    const cursor = (id: string) =>
      app.db
        .query<{ cursor: number }, [number]>('SELECT cursor_seq AS cursor FROM webhooks WHERE id = ?')
        .get(rowId(id))?.cursor
    await tell(['queued', 'sent'])
    const { id } = await addWebhook()
    expect(cursor(id)).toBe(2)
    await tell(['sent'])
    await put(id, { events: ['sent', 'opened'] })
    await put(id, { is_active: false })
    expect(cursor(id)).toBe(2)
    await tell(['sent', 'sent'])
    await put(id, { is_active: false })
    expect(cursor(id)).toBe(2)
    await put(id, { is_active: true })
    expect(cursor(id)).toBe(5)
  })

  test('that deactivates has pending deliveries ended, except tests', async () => {
    const { app, api, addWebhook, put, tell, deliveries } = service
    await tell(Array.from({ length: 450 }, () => 'sent' as const))
    const { id } = await addWebhook()
    await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1 })
    await api('POST', `/v1/webhooks/${id}/test`)
    // The last one has had an attempt.
    app.db.run("UPDATE webhook_deliveries SET attempts = 1, error = 'The response status was 503.' WHERE seq = 450")
    await put(id, { is_active: false })
    await purgeWebhookHistory(app)
    expect((await deliveries(id, '?status=pending')).map(({ event }) => event)).toEqual(['test'])
    const ended = await api('GET', `/v1/webhooks/${id}/deliveries?status=undeliverable&per_page=2`)
    expect(ended.body).toMatchObject({
      data: [
        { attempts: 1, next_attempt_at: null, error: 'The response status was 503. The webhook was deactivated.' },
        { attempts: 0, next_attempt_at: null, error: 'The webhook was deactivated.' },
      ],
      pagination: { total: 450 },
    })
  })
})

test('the dispatcher is notified of every stored change of a webhook', async () => {
  const { app, api, addWebhook, put, rowId } = service
  const told: number[] = []
  app.webhookChanged.listen(({ webhookId }) => told.push(webhookId))
  const { id } = await addWebhook()
  const row = rowId(id)
  await put(id)
  await api('POST', `/v1/webhooks/${id}/test`)
  await api('DELETE', `/v1/webhooks/${id}`)
  await api('DELETE', `/v1/webhooks/${id}`)
  expect(told).toEqual([row, row, row, row])
})

test('an account has at most 100 webhooks; a deleted one does not count', async () => {
  const { api, addWebhook } = service
  const { id } = await addWebhook()
  await Promise.all(Array.from({ length: 99 }, () => addWebhook()))
  expectError(await api('POST', '/v1/webhooks', HOOK), 409, 'webhook_limit_reached')
  await api('DELETE', `/v1/webhooks/${id}`)
  expect((await api('POST', '/v1/webhooks', HOOK)).status).toBe(201)
})
