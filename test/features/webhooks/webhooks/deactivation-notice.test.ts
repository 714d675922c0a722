/** Notices by mail about webhooks that failures deactivated. */
import { describe, expect, test } from 'bun:test'
import { DEACTIVATION_NOTICE } from '#features/webhooks/webhooks/deliver/outcome.ts'
import { days, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'
import { type CreatedWebhook, HOOK_HOST, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

/** An event that gets this response from the receiver, the tenth failure in a row of each webhook. */
async function failTheTenthTime(service: WebhookService, webhook: CreatedWebhook, status = 404): Promise<void> {
  service.receiver.answer({ status })
  service.app.db.run('UPDATE webhooks SET failure_count = 9')
  await service.tell(await service.email(), 'sent')
  service.release()
  await eventually(() => service.app.db.query('SELECT 1 FROM webhooks WHERE off_by_failures = 1').get())
  await service.settled(webhook, 1)
}

const reactivate = (service: WebhookService, { id }: CreatedWebhook) =>
  service.api('PUT', `/v1/webhooks/${id}`, {
    url: service.receiver.url(HOOK_HOST, '/again?token=1'),
    events: ['sent'],
    is_active: true,
  })

/** A check a minute later, as after a start of the service. */
const sendDueNotices = ({ app, clock }: WebhookService) => {
  clock.advance(minutes(1))
  return createNoticeSender(app, DEACTIVATION_NOTICE)()
}

describe('a webhook that failures deactivated', () => {
  test('causes a notice to the people of its account, which says the cause and what to do', async () => {
    await using service = await startWebhookService()
    const webhook = await service.addWebhook(['sent'])
    await failTheTenthTime(service, webhook)
    await sendDueNotices(service)
    const [notice, ...others] = listServiceMail(service.app)
    expect(others).toEqual([])
    expect({ to: notice?.to, subject: notice?.subject }).toEqual({
      to: 'owner@tassis.test',
      subject: 'A webhook was deactivated',
    })
    expect(notice?.text.split('\n\n').slice(0, 3)).toEqual([
      `The webhook ${webhook.id} of the account Test was deactivated on 2026-03-15 at 12:30 UTC after ten consecutive failed attempts. Its URL is:`,
      service.receiver.url(HOOK_HOST, '/hook'),
      'The last failure: The response status was 404.',
    ])
    expect(notice?.text).toContain(`POST /v1/webhooks/${webhook.id}/replay sends missed events.`)
  })

  test('causes at most one notice a day, whatever is restarted or reactivated', async () => {
    await using service = await startWebhookService()
    const webhook = await service.addWebhook(['sent'])
    await failTheTenthTime(service, webhook)
    await sendDueNotices(service)
    await sendDueNotices(service)
    await reactivate(service, webhook)
    await sendDueNotices(service)
    await failTheTenthTime(service, webhook)
    await sendDueNotices(service)
    expect(listServiceMail(service.app)).toHaveLength(1)
    service.clock.advance(days(1))
    await reactivate(service, webhook)
    await failTheTenthTime(service, webhook)
    await sendDueNotices(service)
    expect(listServiceMail(service.app)).toHaveLength(2)
  })

  test('causes no notice after two days, when it was deleted, or when its user deactivated it', async () => {
    await using service = await startWebhookService()
    const [old, deleted, off] = [await service.addWebhook(), await service.addWebhook(), await service.addWebhook()]
    await failTheTenthTime(service, old)
    service.clock.advance(days(2))
    await service.api('DELETE', `/v1/webhooks/${deleted.id}`)
    await reactivate(service, off)
    await service.api('PUT', `/v1/webhooks/${off.id}`, {
      url: service.receiver.url(HOOK_HOST),
      events: ['sent'],
      is_active: false,
    })
    await sendDueNotices(service)
    expect(listServiceMail(service.app)).toEqual([])
  })

  test('is in one mail with others that fail within a minute; three are described, because they may share a dead server', async () => {
    await using service = await startWebhookService()
    const all: CreatedWebhook[] = []
    for (let i = 0; i < 5; i++) all.push(await service.addWebhook(['sent'], `/hook/${i}`))
    const [first] = all
    if (first) await failTheTenthTime(service, first)
    const offCount = () => service.app.db.query('SELECT 1 FROM webhooks WHERE off_by_failures = 1').all().length
    await eventually(() => offCount() === all.length && service.webhooks?.inFlight === 0)
    await sendDueNotices(service)
    const [mail, ...others] = listServiceMail(service.app)
    expect([mail?.subject, others]).toEqual(['5 webhooks were deactivated', []])
    expect(mail?.text.match(/^The webhook /gm)).toHaveLength(3)
    expect(mail?.text).toEndWith('And 2 more; GET /v1/webhooks and GET /v1/inbound-routes list them.')
  })

  test('reports its own last failure, not that of a test or of ended deliveries', async () => {
    await using service = await startWebhookService()
    const webhook = await service.addWebhook()
    await failTheTenthTime(service, webhook, 503)
    service.receiver.answer({ status: 418 })
    await service.api('POST', `/v1/webhooks/${webhook.id}/test`)
    await service.settled(webhook, 2)
    await sendDueNotices(service)
    expect(listServiceMail(service.app)[0]?.text.split('\n\n')[2]).toBe(
      'The last failure: The response status was 503.',
    )
  })
})
