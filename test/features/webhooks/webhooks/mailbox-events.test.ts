import { expect, test } from 'bun:test'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { buildPayload } from '#features/webhooks/webhooks/payload/payload.ts'
import {
  AUTHENTICATION,
  INBOUND,
  receivedMessage,
  startRouteService,
} from '#test/features/webhooks/inbound-routes/fixture.ts'
import { at } from '#test/support/api.ts'
import { NOW, UUID } from '#test/support/email-api.ts'

// Proves: notify-17, notify-31
test('a mailbox message is posted to subscribed webhooks in its own shape, unless it was deleted; a range replays it', async () => {
  await using service = await startRouteService()
  const { app, actor, api, domainId, addWebhook, receiver } = service
  const hook = await addWebhook(['mailbox.message.received'])
  const made = await api('POST', '/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
  const mailboxId = String(at(made.body, 'data', 'id'))
  const received = await receivedMessage(app, `agent@${INBOUND}`, { subject: 'Task', text: 'Do it.' })
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
        from: 'Bob <bob@sender.test>',
        reply_to: null,
        subject: 'Task',
        text_body: 'Do it.',
        html_body: null,
        attachments: [],
        message_id: '<1@sender.test>',
        in_reply_to: null,
        references: null,
        thread_id: expect.stringMatching(UUID),
        received_at: timestamp,
      },
      authentication: AUTHENTICATION,
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
