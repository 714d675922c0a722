/** Scopes that the body of a request makes necessary, besides the scope of the route. */
import { describe, expect, test } from 'bun:test'
import { createWebhookApi, HOOK } from '#test/features/webhooks/webhooks/fixture.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'

const WELCOME = {
  welcome_email_enabled: true,
  welcome_email_subject: 'Welcome',
  welcome_email_text_body: 'Good to have you.',
}

describe('a welcome email', () => {
  const PATH = '/v1/contact-lists'

  // Proves: auth-44
  test('can be enabled, and changed while enabled, only with emails:send', async () => {
    await using service = await createEmailApi()
    const key = await service.newKey(['contacts:write', 'contacts:read'])
    const sender = await service.newKey(['contacts:write', 'emails:send'])
    const mayNot = (answer: Awaited<ReturnType<EmailApi['api']>>) => {
      expectError(answer, 403, 'insufficient_scope')
      expect(at(answer.body, 'message')).toContain('emails:send, which is needed for welcome emails')
    }
    mayNot(await service.api('POST', PATH, { name: 'News', ...WELCOME }, { key }))
    const off = { ...WELCOME, welcome_email_enabled: false }
    const created = await service.api('POST', PATH, { name: 'News', ...off }, { key })
    expect(created.status).toBe(201)
    const list = `${PATH}/${at(created.body, 'data', 'id')}`
    mayNot(await service.api('PUT', list, { name: 'News', welcome_email_enabled: true }, { key }))
    expect(at((await service.api('GET', list, undefined, { key })).body, 'data', 'welcome_email_enabled')).toBe(false)
    expect((await service.api('PUT', list, { name: 'News', ...WELCOME }, { key: sender })).status).toBe(200)
    mayNot(await service.api('PUT', list, { name: 'News', welcome_email_text_body: 'Buy!' }, { key }))
    mayNot(await service.api('PUT', list, { name: 'News', welcome_email_delay_seconds: 60 }, { key }))
    // Clients that read an object, change one field and send it back also send the unchanged fields of the welcome
    // email.
    expect((await service.api('PUT', list, { name: 'Other news', ...WELCOME }, { key })).status).toBe(200)
    expect((await service.api('PUT', list, { name: 'News', ...off }, { key })).status).toBe(200)
  })
})

describe('webhooks that carry received mail', () => {
  const EVENTS = [
    ['email.inbound', 'inbound:read'],
    ['mailbox.message.received', 'mailboxes:read'],
  ] as const

  // Proves: auth-45
  test.each(EVENTS)('%s: subscribing, changing the URL and replaying need %s', async (event, scope) => {
    await using service = await createWebhookApi()
    const key = await service.newKey(['webhooks:write', 'webhooks:read'])
    const reader = await service.newKey(['webhooks:write', scope])
    const mayNot = (answer: Awaited<ReturnType<EmailApi['api']>>) => {
      expectError(answer, 403, 'insufficient_scope')
      expect(at(answer.body, 'message')).toContain(`${scope}, which is needed for ${event}`)
    }
    const subscription = { ...HOOK, events: ['sent', event] }
    mayNot(await service.api('POST', '/v1/webhooks', subscription, { key }))
    expect((await service.api('POST', '/v1/webhooks', HOOK, { key })).status).toBe(201)
    const created = await service.api('POST', '/v1/webhooks', subscription, { key: reader })
    expect(created.status).toBe(201)
    const id = String(at(created.body, 'data', 'id'))
    const path = `/v1/webhooks/${id}`
    const elsewhere = { ...subscription, url: 'https://127.0.0.1/elsewhere', is_active: true }
    mayNot(await service.api('PUT', path, elsewhere, { key }))
    expect(at(await service.webhook(id), 'url')).toBe(HOOK.url)

    const [seq = 0] = await service.tell([event])
    service.finish(id, { event, status: 1, seq })
    const [delivery] = await service.deliveries(id)
    mayNot(await service.api('POST', `${path}/deliveries/${delivery?.['id']}/replay`, undefined, { key }))
    mayNot(await service.api('POST', `${path}/replay`, { from_seq: 1 }, { key }))
    expect((await service.api('POST', `${path}/replay`, { from_seq: 1, events: ['sent'] }, { key })).status).toBe(202)
    expect((await service.api('POST', `${path}/replay`, { from_seq: 1 }, { key: reader })).status).toBe(202)

    expect((await service.api('PUT', path, { ...HOOK, is_active: true }, { key })).status).toBe(200)
    mayNot(await service.api('PUT', path, { ...subscription, is_active: true }, { key }))
  })
})

// Proves: auth-45
test('an inbound route can get a webhook_url, and be changed while it has one, only with inbound:read; otherwise inbound:write is enough', async () => {
  await using service = await createEmailApi()
  const key = await service.newKey(['inbound:write'])
  const reader = await service.newKey(['inbound:write', 'inbound:read'])
  const domains = await service.api('GET', '/v1/domains')
  const route = { domain_id: at(domains.body, 'data', 0, 'id'), pattern: 'support', match_type: 'exact' }
  const withUrl = { ...route, webhook_url: 'https://127.0.0.1/mail' }
  const mayNot = (answer: Awaited<ReturnType<EmailApi['api']>>) => {
    expectError(answer, 403, 'insufficient_scope')
    expect(at(answer.body, 'message')).toContain('inbound:read, which is needed for a route with a webhook_url')
  }
  mayNot(await service.api('POST', '/v1/inbound-routes', withUrl, { key }))
  const created = await service.api('POST', '/v1/inbound-routes', route, { key })
  expect(created.status).toBe(201)
  const path = `/v1/inbound-routes/${at(created.body, 'data', 'id')}`
  mayNot(await service.api('PUT', path, { webhook_url: withUrl.webhook_url }, { key }))
  expect((await service.api('PUT', path, { webhook_url: withUrl.webhook_url }, { key: reader })).status).toBe(200)
  mayNot(await service.api('PUT', path, { match_type: 'catch_all', pattern: '' }, { key }))
  expect((await service.api('PUT', path, { webhook_url: null }, { key })).status).toBe(200)
})
