/** Notices by mail about webhooks that failures deactivated. */
import { describe, expect, test } from 'bun:test'
import type { App } from '#features/core/app/app.ts'
import { createDeactivationNotifier } from '#features/webhooks/webhooks/deactivation-notices.ts'
import { rotateSecret } from '#features/webhooks/webhooks/secret.ts'
import { newUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { type CreatedWebhook, HOOK_HOST, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

interface Notice {
  to: string
  subject: string
  text: string
}

const notices = ({ db, content }: App): Notice[] =>
  db
    .query<{ to: string; subject: string; ref: number }, []>(
      `SELECT recipients.address AS "to", subject, text_ref AS ref FROM emails JOIN recipients ON email_id = emails.id
       WHERE extra LIKE '%"of_service":true%' ORDER BY emails.id`,
    )
    .all()
    .map(({ to, subject, ref }) => ({ to, subject, text: new TextDecoder().decode(content.get(ref)) }))

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

/** Checks once, as after a start of the service. */
const sendDueNotices = ({ app }: WebhookService) => createDeactivationNotifier(app)(new AbortController().signal)

/** Webhooks of separate accounts, deactivated by failures, inserted by row. */
function insertDeactivated({ app: { db }, clock }: WebhookService, accounts: number, webhooksOfEach: number): void {
  const now = clock.now()
  const account = db.query<{ id: number }, [Uint8Array, string, number]>(
    "INSERT INTO accounts (uuid, name, email, plan, created_at, updated_at) VALUES (?1, 'One', ?2, 'free', ?3, ?3) RETURNING id",
  )
  const webhook = db.query(
    `INSERT INTO webhooks (uuid, account_id, url, events, secret, cursor_seq, created_at, updated_at, is_active, off_by_failures, last_failure_at)
     VALUES (?1, ?2, 'https://hooks.test/', '["sent"]', x'', 0, ?3, ?3, 0, 1, ?3)`,
  )
  for (let i = 0; i < accounts; i++) {
    const { id = 0 } = account.get(newUuid(), `owner${i}@tassis.test`, now) ?? {}
    for (let j = 0; j < webhooksOfEach; j++) webhook.run(newUuid(), id, now)
  }
}

describe('a webhook that failures deactivated', () => {
  test('causes a notice to the people of its account, which says the cause and what to do', async () => {
    await using service = await startWebhookService()
    const webhook = await service.addWebhook(['sent'])
    await failTheTenthTime(service, webhook)
    await sendDueNotices(service)
    const [notice, ...others] = notices(service.app)
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
    expect(notices(service.app)).toHaveLength(1)
    service.clock.advance(days(1))
    await reactivate(service, webhook)
    await failTheTenthTime(service, webhook)
    await sendDueNotices(service)
    expect(notices(service.app)).toHaveLength(2)
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
    expect(notices(service.app)).toEqual([])
  })

  test('causes a notice only if it is among the first three of its account, because they may share a dead server', async () => {
    await using service = await startWebhookService()
    const all: CreatedWebhook[] = []
    for (let i = 0; i < 5; i++) all.push(await service.addWebhook(['sent'], `/hook/${i}`))
    const [first] = all
    if (first) await failTheTenthTime(service, first)
    const offCount = () => service.app.db.query('SELECT 1 FROM webhooks WHERE off_by_failures = 1').all().length
    await eventually(() => offCount() === all.length && service.webhooks?.inFlight === 0)
    await sendDueNotices(service)
    expect(notices(service.app)).toHaveLength(3)
  })

  test('keeps its deactivation time whatever changes while it is inactive, so a new secret causes no notice', async () => {
    await using service = await startWebhookService()
    const webhook = await service.addWebhook()
    await failTheTenthTime(service, webhook)
    service.clock.advance(days(1))
    await rotateSecret(service.app, service.actor, webhook.id)
    await sendDueNotices(service)
    await sendDueNotices(service)
    expect(notices(service.app).map(({ text }) => text.split(' after ten')[0])).toEqual([
      `The webhook ${webhook.id} of the account Test was deactivated on 2026-03-15 at 12:30 UTC`,
    ])
    service.clock.advance(days(1))
    await rotateSecret(service.app, service.actor, webhook.id)
    await sendDueNotices(service)
    expect(notices(service.app)).toHaveLength(1)
  })

  test('reports its own last failure, not that of a test or of ended deliveries', async () => {
    await using service = await startWebhookService()
    const webhook = await service.addWebhook()
    await failTheTenthTime(service, webhook, 503)
    service.receiver.answer({ status: 418 })
    await service.api('POST', `/v1/webhooks/${webhook.id}/test`)
    await service.settled(webhook, 2)
    await sendDueNotices(service)
    expect(notices(service.app)[0]?.text.split('\n\n')[2]).toBe('The last failure: The response status was 503.')
  })

  test('causes a notice however many others are inactive', async () => {
    await using service = await startWebhookService()
    insertDeactivated(service, 101, 2)
    await sendDueNotices(service)
    expect(notices(service.app)).toHaveLength(202)
  })

  test('causes at most ten notices per account and day, however many webhooks fail', async () => {
    await using service = await startWebhookService()
    const { app } = service
    const lookOn = createDeactivationNotifier(app)
    insertDeactivated(service, 1, 12)
    const told: number[] = []
    for (let i = 0; i < 5; i++) {
      await lookOn(new AbortController().signal)
      told.push(notices(app).length)
      app.db.run(
        `UPDATE webhooks SET deleted_at = 1 WHERE id IN (SELECT id FROM webhooks WHERE deleted_at IS NULL ORDER BY id LIMIT 3)`,
      )
      // Another account.
      if (i === 3) insertDeactivated(service, 1, 1)
    }
    expect(told).toEqual([3, 6, 9, 10, 11])
  })
})
