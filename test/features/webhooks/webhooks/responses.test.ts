/** Responses that the history stores, and those that it does not. */
import { expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { HOOK_HOST, startWebhookService } from '#test/support/webhooks.ts'

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

test('responses to attempts that began before a change do not count after it, even while the clock stands still', async () => {
  await using service = await startWebhookService()
  const webhook = await service.addWebhook()
  const gate = Promise.withResolvers<void>()
  service.receiver.answer(async () => {
    await gate.promise
    return { status: 404 }
  })
  const email = await service.email()
  service.release()
  // The clock stands still for hours after it was set back, so both changes have the same time.
  const put = (path: string) =>
    service.api('PUT', `/v1/webhooks/${webhook.id}`, {
      url: service.receiver.url(HOOK_HOST, path),
      events: ['sent'],
      is_active: true,
    })
  await put('/old')
  await service.tell(email, 'sent')
  await service.receiver.received(1)
  await put('/new')
  gate.resolve()
  await service.settled(webhook, 1)
  const { body } = await service.api('GET', `/v1/webhooks/${webhook.id}`)
  expect(at(body, 'data')).toMatchObject({ url: service.receiver.url(HOOK_HOST, '/new'), failure_count: 0 })
})
