import { expect, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { eventually } from '#test/support/app.ts'
import { startWebhookService } from '#test/support/webhooks.ts'

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
