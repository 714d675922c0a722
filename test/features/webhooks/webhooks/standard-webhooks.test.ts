/** Standard Webhooks, checked by the libraries with which receivers verify: ours, and others as their registry has them. */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, setSystemTime, test } from 'bun:test'
import { Resend } from 'resend'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { Webhook as Svix } from 'svix'
import { verifyWebhook } from '#client/index.ts'
import { purgeWebhookHistory } from '#features/webhooks/webhooks/manage/pending.ts'
import { hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import type { ReceivedRequest } from '#test/support/https-receiver.ts'
import { createTestUser, signIn } from '#test/support/users.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'
import { type CreatedWebhook, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

setDefaultTimeout(60_000)

let service: WebhookService
beforeAll(async () => {
  service = await startWebhookService()
  await createTestUser(service.app, service.actor, 'ada@people.test', 'developer')
})
afterAll(() => service[Symbol.asyncDispose]())
afterEach(() => void setSystemTime())

/** The libraries compare the timestamp of a request with the system's time. */
const setLibrariesTime = (): void => void setSystemTime(new Date(service.clock.now()))

/** Throws, or rejects, if the signature is wrong. */
type Verify = (secret: string, headers: Record<string, string>, body: string) => unknown

const VERIFIERS: readonly (readonly [name: string, verify: Verify])[] = [
  ['tassis', (secret, headers, body) => verifyWebhook(body, headers, secret)],
  ['standardwebhooks', (secret, headers, body) => new StandardWebhook(secret).verify(body, headers)],
  ['svix', (secret, headers, body) => new Svix(secret).verify(body, headers)],
  [
    'resend',
    (secret, headers, payload) => {
      const id = headers['svix-id'] ?? ''
      const timestamp = headers['svix-timestamp'] ?? ''
      const signature = headers['svix-signature'] ?? ''
      return new Resend('re_any').webhooks.verify({
        payload,
        headers: { id, timestamp, signature },
        webhookSecret: secret,
      })
    },
  ],
]

/** The request of a new event for the webhook. */
async function deliver(webhook: CreatedWebhook): Promise<ReceivedRequest> {
  const { receiver, tell, email, release, settled, deliveries } = service
  const before = receiver.requests.length
  const count = deliveries(webhook).length
  await tell(await email(), 'delivered', { smtp_response: '250 ok “é”', ip_address: '192.0.2.1' })
  release()
  await settled(webhook, count + 1)
  const request = receiver.requests.slice(before).find(({ url }) => url === `/${webhook.id}`)
  if (!request) throw new Error('nothing was delivered')
  return request
}

/** A webhook at a path of its own. */
async function addOwn(format?: string): Promise<CreatedWebhook> {
  const { api, receiver } = service
  const created = await api('POST', '/v1/webhooks', {
    url: receiver.url(),
    events: ['delivered'],
    ...(format && { format }),
  })
  const id = String(at(created.body, 'data', 'id'))
  const url = receiver.url(undefined, `/${id}`)
  await api('PUT', `/v1/webhooks/${id}`, { url, events: ['delivered'], is_active: true })
  return { id, secret: String(at(created.body, 'data', 'secret')) }
}

async function rotate({ id }: CreatedWebhook): Promise<CreatedWebhook> {
  const session = await signIn(service, 'ada@people.test')
  const { status, body } = await session.ask('POST', `/v1/webhooks/${id}/secret/rotate`, {})
  expect(status).toBe(200)
  return { id, secret: String(at(body, 'data', 'secret')) }
}

describe.each(VERIFIERS)('%s', (_, verify) => {
  const expectRefused = (...given: Parameters<Verify>) => expect((async () => verify(...given))()).rejects.toThrow()

  test('accepts a delivery, and refuses it with a flipped bit anywhere in the body, the id or the time', async () => {
    const webhook = await addOwn()
    const { headers, text } = await deliver(webhook)
    setLibrariesTime()
    await verify(webhook.secret, headers, text)
    for (const [index] of [...text].entries()) {
      const code = text.charCodeAt(index)
      const flipped = `${text.slice(0, index)}${String.fromCharCode(code ^ 1)}${text.slice(index + 1)}`
      await expectRefused(webhook.secret, headers, flipped)
    }
    for (const name of Object.keys(headers).filter((key) => /^(webhook|svix)-id$/.test(key)))
      await expectRefused(webhook.secret, { ...headers, 'webhook-id': 'x', 'svix-id': 'x', [name]: 'y' }, text)
    const later = String(Number(headers['webhook-timestamp']) + 1)
    await expectRefused(webhook.secret, { ...headers, 'webhook-timestamp': later, 'svix-timestamp': later }, text)
  })

  test('accepts deliveries by the old and by the new secret for a day after a rotation', async () => {
    const webhook = await addOwn()
    const rotated = await rotate(webhook)
    const during = await deliver(webhook)
    setLibrariesTime()
    for (const { secret } of [webhook, rotated]) await verify(secret, during.headers, during.text)
    expect(during.headers['webhook-signature']?.split(' ')).toHaveLength(2)
    // Our own header has one signature, by the new secret.
    expect(findWebhookViolations(during, { secret: rotated.secret, nowMs: service.clock.now() })).toEqual([])
  })
})

test('the old secret no longer signs a day after the rotation, and is deleted', async () => {
  const { clock, app } = service
  const webhook = await addOwn()
  const rotated = await rotate(webhook)
  clock.advance(hours(25))
  const { headers, text } = await deliver(webhook)
  expect(headers['webhook-signature']?.split(' ')).toHaveLength(1)
  expect(
    findWebhookViolations({ ...(await deliver(webhook)) }, { secret: rotated.secret, nowMs: clock.now() }),
  ).toEqual([])
  expect(text).toContain('delivered')
  const previous = () => app.db.query('SELECT 1 FROM webhooks WHERE previous_secret IS NOT NULL').all()
  expect(previous()).not.toEqual([])
  await purgeWebhookHistory(app)
  expect(previous()).toEqual([])
})

test('the id is that of the event at every attempt and replay; a test has that of its delivery', async () => {
  const { api, receiver, settled } = service
  const webhook = await addOwn()
  const first = await deliver(webhook)
  expect(first.headers['webhook-id']).toBe(JSON.parse(first.text).event_id)
  const path = `/v1/webhooks/${webhook.id}`
  const { body } = await api('GET', `${path}/deliveries`)
  const id = String(at(body, 'data', 0, 'id'))
  expect(at((await api('GET', `${path}/deliveries/${id}`)).body, 'data', 'headers')).toMatchObject({
    'webhook-id': first.headers['webhook-id'] ?? '',
    'webhook-signature': first.headers['webhook-signature'] ?? '',
  })
  await api('POST', `${path}/deliveries/${id}/replay`)
  await settled(webhook, 2)
  expect(receiver.requests.at(-1)?.headers['webhook-id']).toBe(String(first.headers['webhook-id']))
  const tested = await api('POST', `${path}/test`)
  await settled(webhook, 3)
  expect(receiver.requests.at(-1)?.headers['svix-id']).toBe(String(at(tested.body, 'data', 'delivery_id')))
})
