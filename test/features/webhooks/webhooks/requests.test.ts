/** @module One delivery with its request, the secret for signed-in users, counting a replay, descriptions. */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError, shareEmailApi } from '#test/support/email-api.ts'
import { createTestUser, signIn } from '#test/support/users.ts'
import { startWebhookService } from '#test/support/webhooks.ts'
import { createWebhookApi, HOOK } from './fixture.ts'

const service = shareEmailApi(createWebhookApi)

setDefaultTimeout(60_000)

describe('a delivery', () => {
  // Proves: notify-50
  test('has the posted text and headers; without the signature once the secret was replaced', async () => {
    await using service = await startWebhookService()
    const { api, app, actor, addWebhook, receiver, settled, tell, email, release, clock } = service
    const hook = await addWebhook(['delivered'])
    receiver.answer({ status: 404, body: 'no such hook' })
    await tell(await email(), 'delivered', { smtp_response: '250 2.0.0 <script>"\u202e' })
    release()
    await settled(hook, 1)
    const [sent] = receiver.requests
    const path = `/v1/webhooks/${hook.id}/deliveries`
    const id = String(at((await api('GET', path)).body, 'data', 0, 'id'))
    const { body } = await api('GET', `${path}/${id}`)
    expect(at(body, 'data', 'payload')).toBe(String(sent?.text))
    expect(at(body, 'data')).toMatchObject({ id, status: 'undeliverable', status_code: 404, response: 'no such hook' })
    const headers = at(body, 'data', 'headers') as Record<string, string>
    for (const [name, value] of Object.entries(headers)) expect(sent?.headers[name.toLowerCase()]).toBe(value)
    expect(headers['X-Service-Signature']).toMatch(/^t=\d+,v1=[0-9a-f]{64}$/)
    expect(headers['X-Service-Attempt']).toBe('1')
    await createTestUser(app, actor, 'ada@people.test', 'developer')
    const session = await signIn(service, 'ada@people.test')
    clock.advance(1)
    expect((await session.ask('POST', `/v1/webhooks/${hook.id}/secret/rotate`, {})).status).toBe(200)
    const rotated = at((await api('GET', `${path}/${id}`)).body, 'data', 'headers') as Record<string, string>
    expect(rotated['X-Service-Signature']).toBeUndefined()
    expect(rotated['X-Service-Event']).toBe('delivered')
  })

  // Proves: notify-50
  test('has no headers before its first attempt and no payload once its event is deleted; others get a 404', async () => {
    const { api, addWebhook, accepted, rowsOf, tell, app, finish, newKey, newAccount } = service
    const { id } = await addWebhook()
    const test = await api('POST', `/v1/webhooks/${id}/test`)
    const path = `/v1/webhooks/${id}/deliveries`
    const pending = await api('GET', `${path}/${String(at(test.body, 'data', 'delivery_id'))}`)
    expect(at(pending.body, 'data')).toMatchObject({ status: 'pending', headers: null })
    expect(JSON.parse(String(at(pending.body, 'data', 'payload')))).toEqual(at(test.body, 'data', 'payload'))
    const { emailId, recipientIds } = rowsOf((await accepted()).id)
    const [seq = 0] = await tell(['sent'], { emailId, ...(recipientIds[0] && { recipientId: recipientIds[0] }) })
    finish(id, { event: 'sent', status: 2, seq })
    const delivery = String(at((await api('GET', path)).body, 'data', 0, 'id'))
    expect(JSON.parse(String(at((await api('GET', `${path}/${delivery}`)).body, 'data', 'payload')))).toMatchObject({
      event: 'sent',
    })
    app.db.run('DELETE FROM events WHERE seq = ?', [seq])
    expect(at((await api('GET', `${path}/${delivery}`)).body, 'data')).toMatchObject({ payload: null, headers: null })
    const stranger = await newKey([], await newAccount())
    expectError(await api('GET', `${path}/${delivery}`, undefined, { key: stranger }), 404, 'webhook_not_found')
    expectError(await api('GET', `${path}/${id}`), 404, 'delivery_not_found')
  })

  // Proves: notify-50, auth-45
  test('needs emails:read, and for received mail the scope that reads it', async () => {
    const { api, addWebhook, finish, newKey } = service
    const { id } = await addWebhook({ events: ['email.inbound'] })
    finish(id, { event: 'email.inbound', status: 2 })
    const path = `/v1/webhooks/${id}/deliveries`
    const delivery = String(at((await api('GET', path)).body, 'data', 0, 'id'))
    const ask = async (scopes: string[]) =>
      (await api('GET', `${path}/${delivery}`, undefined, { key: await newKey(scopes) })).status
    expect(await ask(['webhooks:read'])).toBe(403)
    expect(await ask(['webhooks:read', 'emails:read'])).toBe(403)
    expect(await ask(['webhooks:read', 'emails:read', 'inbound:read'])).toBe(200)
  })
})

describe('the secret for signed-in users', () => {
  // Proves: notify-13, notify-51
  test('is shown and replaced by developers, not by viewers or keys, once per version', async () => {
    const { api, app, actor, addWebhook, audited, webhook } = service
    const { id, secret } = await addWebhook()
    for (const role of ['developer', 'viewer'] as const) await createTestUser(app, actor, `${role}@people.test`, role)
    const developer = await signIn(service, 'developer@people.test')
    const viewer = await signIn(service, 'viewer@people.test')
    const path = `/v1/webhooks/${id}/secret`
    expect((await developer.ask('POST', `${path}/reveal`)).body).toEqual({ data: { secret } })
    for (const action of ['reveal', 'rotate']) {
      expect(at((await viewer.ask('POST', `${path}/${action}`, {})).body, 'code')).toBe('insufficient_role')
      expectError(await api('POST', `${path}/${action}`, {}), 403, 'session_required')
    }
    const { updated_at: seen } = await webhook(id)
    const rotated = await developer.ask('POST', `${path}/rotate`, { updated_at: seen })
    const next = String(at(rotated.body, 'data', 'secret'))
    expect(next).toMatch(/^whsec_[0-9A-Za-z]{32}$/)
    expect(next).not.toBe(secret)
    const again = await developer.ask('POST', `${path}/rotate`, { updated_at: seen })
    expect([again.status, at(again.body, 'code')]).toEqual([409, 'webhook_changed'])
    expect((await developer.ask('POST', `${path}/rotate`, { updated_at: 'soon' })).status).toBe(422)
    expect((await developer.ask('POST', `${path}/reveal`)).body).toEqual({ data: { secret: next } })
    expect((await webhook(id))['secret_rotated_at']).toEqual(expect.any(String))
    expect((await audited(3)).map(([action]) => action)).toEqual([
      'webhook.secret_revealed',
      'webhook.secret_rotated',
      'webhook.secret_revealed',
    ])
  })
})

// Proves: notify-52
test('a count states what a replay would queue, also for an inactive webhook, and stores nothing', async () => {
  const { api, addWebhook, accepted, rowsOf, tell, put, deliveries, audited } = service
  const { id } = await addWebhook()
  await put(id, { is_active: false })
  await tell(['sent', 'opened', 'bounced'], { emailId: rowsOf((await accepted()).id).emailId })
  const path = `/v1/webhooks/${id}/replay`
  const counted = await api('POST', `${path}/count`, { from_seq: 1 })
  expect([counted.status, at(counted.body, 'data', 'deliveries')]).toEqual([200, 2])
  expectError(await api('POST', path, { from_seq: 1 }), 409, 'webhook_inactive')
  expectError(await api('POST', `${path}/count`, {}), 422, 'validation_failed', 'from_seq')
  expect(await deliveries(id)).toEqual([])
  expect((await audited(1))[0]?.[0]).toBe('webhook.updated')
  await put(id)
  const replayed = await api('POST', path, { from_seq: 1 })
  expect([replayed.status, replayed.body]).toEqual([202, counted.body])
  // All of them are pending now.
  const undelivered = await api('POST', `${path}/count`, { from_seq: 1, undelivered: true })
  expect(at(undelivered.body, 'data', 'deliveries')).toBe(0)
  service.app.db.run('UPDATE webhook_deliveries SET status = 2, next_at = NULL WHERE seq = ?', [
    Number(at(counted.body, 'data', 'to_seq')),
  ])
  const failed = await api('POST', `${path}/count`, { from_seq: 1, undelivered: true })
  expect(at(failed.body, 'data', 'deliveries')).toBe(1)
})

// Proves: webhook-14
test('a description stays until it is changed, and an outdated change is a 409', async () => {
  const { api, addWebhook, put, webhook } = service
  const { id } = await addWebhook({ description: '  Billing  ' })
  const { description, updated_at: seen } = await webhook(id)
  expect(description).toBe('Billing')
  expect(await put(id, { updated_at: seen, events: ['sent'] })).toMatchObject({ description: 'Billing' })
  const change = { ...HOOK, is_active: true, description: 'x', updated_at: seen }
  expectError(await api('PUT', `/v1/webhooks/${id}`, change), 409, 'webhook_changed')
  expectError(
    await api('PUT', `/v1/webhooks/${id}`, { ...change, updated_at: 'then' }),
    422,
    'validation_failed',
    'updated_at',
  )
  const long = { ...HOOK, is_active: true, description: 'x'.repeat(201) }
  expectError(await api('PUT', `/v1/webhooks/${id}`, long), 422, 'validation_failed', 'description')
  expect(await put(id, { description: null })).toMatchObject({ description: null, url: HOOK.url })
})

// Proves: webhook-8
test('failing_since is the first of the failures, and is gone after a success or a reactivation', async () => {
  await using service = await startWebhookService()
  const { api, addWebhook, receiver, tell, email, release, clock, settled, throughRests } = service
  const hook = await addWebhook()
  const read = async () => at((await api('GET', `/v1/webhooks/${hook.id}`)).body, 'data') as Record<string, unknown>
  receiver.answer({ status: 503 })
  const sent = await email()
  await tell(sent, 'sent')
  release()
  await settled(hook, 1)
  const first = await eventually(async () => (await read())['failing_since'])
  expect((await read())['last_failure_at']).toBe(first)
  clock.advance(minutes(1))
  await tell(sent, 'sent')
  await throughRests(async () => (await read())['failure_count'] === 2)
  expect(await read()).toMatchObject({ failing_since: first })
  expect((await read())['last_failure_at']).not.toBe(first)
  receiver.answer({ status: 204 })
  clock.advance(minutes(2))
  await tell(sent, 'sent')
  await throughRests(async () => (await read())['failure_count'] === 0)
  expect(await read()).toMatchObject({ failing_since: null })
})

// Proves: notify-35
test('the history has the first 1,000 octets of a response, whatever they are', async () => {
  await using service = await startWebhookService()
  const webhook = await service.addWebhook()
  const body = `\u0000\u001b[31m<b>é${'a'.repeat(2000)}`
  service.receiver.answer({ status: 404, body })
  await service.tell(await service.email(), 'sent')
  service.release()
  await service.settled(webhook, 1)
  const { body: history } = await service.api('GET', `/v1/webhooks/${webhook.id}/deliveries`)
  expect(at(history, 'data', 0, 'response')).toBe(Buffer.from(body).subarray(0, 1000).toString())
})

test('the log line of a failed attempt names the email and its account by their public ids', async () => {
  const lines: Record<string, unknown>[] = []
  const log = createLog('info', { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) })
  await using service = await startWebhookService({ log })
  const webhook = await service.addWebhook(['delivered'])
  const email = await service.email()
  service.receiver.answer({ status: 500 })
  const seq = await service.tell(email, 'delivered')
  service.release()
  const failed = await eventually(() => lines.find(({ msg }) => msg === 'webhook attempt failed'))
  expect(failed).toMatchObject({
    webhook: webhook.id,
    email_id: email.id,
    account: service.actor.accountUuid,
    event: 'delivered',
    seq,
    statusCode: 500,
  })
})
