/** A complaint from its report to the tenant's endpoint, over TLS, and its effects. */
import { expect, test } from 'bun:test'
import { UUID } from '#test/support/email-api.ts'
import { startWebhookService } from '#test/support/webhooks.ts'
import { addComplaints } from './fixture.ts'

// Proves: status-21, notify-26
test("a Bcc recipient's complaint reaches the webhook with its fields, and stops all mail to that address", async () => {
  await using service = await startWebhookService({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } })
  const complaints = addComplaints(service)
  const webhook = await service.addWebhook(['complained'])
  const email = await complaints.delivered({
    to: ['bob@provider.test', 'carl@provider.test'],
    bcc: ['erin@provider.test'],
    transactional: false,
  })
  await complaints.apply(await complaints.report('yahoo', email, 2))
  await complaints.apply(await complaints.report('comcast', email, 0))
  service.release()
  const [request] = await service.receiver.received(1)
  const told = {
    event: 'complained',
    event_id: expect.stringMatching(UUID),
    account_id: service.actor.accountUuid,
    timestamp: expect.stringMatching(/Z$/),
    email_id: email.id,
    to_address: 'bob@provider.test',
    complainer: 'erin@provider.test',
    feedback_type: 'abuse',
    original_message_id: email.messageId,
    recipient: 'erin@provider.test',
    tags: [],
    metadata: {},
  }
  expect(JSON.parse(request?.text ?? '{}')).toEqual(told)
  expect((await service.settled(webhook, 1)).map(({ event, status }) => ({ event, status }))).toEqual([
    { event: 'complained', status: 'delivered' },
  ])
  expect(service.receiver.requests).toHaveLength(1)

  const detail = await service.detail(email.id)
  const events = detail['events'] as Record<string, unknown>[]
  expect([detail['to_address'], events.filter(({ event_type: type }) => type === 'complained')]).toEqual([
    told.to_address,
    [expect.objectContaining({ id: JSON.parse(request?.text ?? '{}').event_id, recipient: 'erin@provider.test' })],
  ])
  const next = await complaints.accepted({ to: ['Erin@Provider.test', 'bob@provider.test'], transactional: true })
  const { recipients } = (await service.detail(next.id)) as { recipients: Record<string, unknown>[] }
  expect(recipients.map(({ address, status }) => [address, status])).toEqual([
    ['Erin@provider.test', 'rejected'],
    ['bob@provider.test', 'queued'],
  ])
})
