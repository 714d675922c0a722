import { expect, test } from 'bun:test'
import { listDeliveries, MAX_LISTED } from '#features/webhooks/webhooks/history/history.ts'
import { findFirstNeededSeq, purgeWebhookHistory } from '#features/webhooks/webhooks/manage/pending.ts'
import { getWebhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { days, hours } from '#platform/units.ts'
import { createWebhookApi, type Json, type WebhookApi } from '#test/features/webhooks/webhooks/fixture.ts'
import { at } from '#test/support/api.ts'
import { expectError, NOW, shareEmailApi, UUID } from '#test/support/email-api.ts'

const service = shareEmailApi(createWebhookApi)

// Proves: notify-35
test('a delivery has its event, its email, its attempts and the outcome of the last one', async () => {
  const { accepted, detail, rowsOf, tell, addWebhook, finish, deliveries } = service
  const { id } = await addWebhook()
  const email = await accepted()
  const [seq = 0] = await tell(['bounced'], { emailId: rowsOf(email.id).emailId })
  finish(id, { event: 'bounced', status: 2, seq })
  const events = (await detail(email.id))['events'] as Json[]
  expect(await deliveries(id)).toEqual([
    {
      id: expect.stringMatching(UUID),
      webhook_id: id,
      event: 'bounced',
      event_id: events.at(-1)?.['id'],
      seq,
      email_id: email.id,
      status: 'undeliverable',
      attempts: 1,
      next_attempt_at: null,
      attempted_at: new Date(NOW).toISOString(),
      duration_ms: 12,
      status_code: 404,
      response: 'body',
      error: 'The response status was 404.',
      created_at: new Date(NOW).toISOString(),
    },
  ])
})

/** Deliveries of two webhooks alternately: 12 of each, with every combination of three events and two statuses. */
async function createMixedHistory(service: WebhookApi): Promise<[string, string]> {
  const [one, two] = [(await service.addWebhook()).id, (await service.addWebhook()).id]
  for (let i = 0; i < 12; i++) {
    const event = ['sent', 'opened', 'test'][i % 3] ?? ''
    for (const id of [one, two]) service.finish(id, { event, status: i % 4 < 2 ? 1 : 2 })
  }
  return [one, two]
}

// Proves: notify-35
test('the history is newest first, in pages, and filtered by status and event', async () => {
  const { api } = service
  const [id] = await createMixedHistory(service)
  const page = async (query: string) => {
    const { body } = await api('GET', `/v1/webhooks/${id}/deliveries?${query}`)
    return { rows: at(body, 'data') as Json[], pagination: at(body, 'pagination') }
  }
  const all = (await page('per_page=100')).rows
  expect(all.map(({ event }) => event)).toEqual(Array(4).fill(['test', 'opened', 'sent']).flat())
  expect(all.every((row) => row['webhook_id'] === id)).toBe(true)
  for (const event of [undefined, 'sent', 'opened', 'test', 'bounced']) {
    for (const status of [undefined, 'delivered', 'undeliverable', 'pending']) {
      const wanted = all.filter(
        (row) => (event ?? row['event']) === row['event'] && (status ?? row['status']) === row['status'],
      )
      const filter = `${event ? `&event=${event}` : ''}${status ? `&status=${status}` : ''}`
      for (const number of [1, 2, 3]) {
        expect(await page(`per_page=2&page=${number}${filter}`)).toEqual({
          rows: wanted.slice(number * 2 - 2, number * 2),
          pagination: {
            page: number,
            per_page: 2,
            total: wanted.length,
            total_pages: Math.ceil(wanted.length / 2),
            ...(number * 2 < wanted.length && { next_cursor: expect.any(String) }),
          },
        })
      }
    }
  }
})

// Proves: notify-35
test('an unknown status or event in the filter is a 422', async () => {
  const { id } = await service.addWebhook()
  for (const [field, value] of [
    ['status', 'failed'],
    ['status', ''],
    ['event', 'queued'],
    ['event', 'open'],
  ] as const)
    expectError(
      await service.api('GET', `/v1/webhooks/${id}/deliveries?${field}=${value}`),
      422,
      'validation_failed',
      field,
    )
})

// Proves: notify-35
test('a long history counts and lists its newest 10,000 deliveries, under each filter', async () => {
  const { app, addWebhook, rowId, actor } = service
  const { id } = await addWebhook()
  app.db.run(
    `INSERT INTO webhook_deliveries (uuid, webhook_id, event, status, attempts, created_at)
     WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10010)
     SELECT randomblob(16), ?, 'sent', 1, 1, n FROM numbers`,
    [rowId(id)],
  )
  const webhook = getWebhook(app.db, actor.accountId, id)
  for (const filter of [
    {},
    { event: 'sent' },
    { status: 'delivered' },
    { event: 'sent', status: 'delivered' },
  ] as const) {
    const { rows, total } = listDeliveries(app.db, webhook, filter, { limit: 25, offset: MAX_LISTED - 10 })
    expect([total, rows.map(({ createdAt }) => createdAt)]).toEqual([10_000, [20, 19, 18, 17, 16, 15, 14, 13, 12, 11]])
    const past = listDeliveries(app.db, webhook, filter, { limit: 25, offset: MAX_LISTED })
    expect(past).toEqual({ rows: [], total: 10_000 })
  }
})

// Proves: notify-36
test('finished deliveries are purged after 30 days, pending ones are not', async () => {
  const { app, api, clock, addWebhook, finish, deliveries } = service
  const { id } = await addWebhook()
  for (let i = 0; i < 450; i++) finish(id, { event: 'sent', status: 1 })
  await api('POST', `/v1/webhooks/${id}/test`)
  clock.advance(hours(1))
  finish(id, { event: 'opened', status: 2 })
  clock.advance(days(30) - hours(1))
  expect(await purgeWebhookHistory(app)).toBe(0)
  clock.advance(1)
  expect(await purgeWebhookHistory(app)).toBe(450)
  expect((await deliveries(id)).map(({ event }) => event)).toEqual(['opened', 'test'])
  clock.advance(hours(1))
  expect(await purgeWebhookHistory(app)).toBe(1)
})

// Proves: notify-36
test('a deleted webhook is purged with all its deliveries, and no others', async () => {
  const { app, api, addWebhook, finish, deliveries } = service
  const [gone, kept] = [(await addWebhook()).id, (await addWebhook()).id]
  for (let i = 0; i < 200; i++) finish(gone, { event: 'sent', status: 1 })
  finish(kept, { event: 'sent', status: 1 })
  await api('POST', `/v1/webhooks/${gone}/test`)
  await api('DELETE', `/v1/webhooks/${gone}`)
  expect(await purgeWebhookHistory(app)).toBe(0)
  const rows = (table: string) => app.db.query<{ n: number }, []>(`SELECT COUNT(*) AS n FROM ${table}`).get()?.n
  expect([rows('webhooks'), rows('webhook_deliveries')]).toEqual([1, 1])
  expect(await deliveries(kept)).toHaveLength(1)
})

test('pending deliveries of an inactive webhook, left by a crash, are ended', async () => {
  const { app, api, addWebhook, tell, deliveries } = service
  await tell(['sent'])
  const { id } = await addWebhook()
  await api('POST', `/v1/webhooks/${id}/replay`, { from_seq: 1 })
  app.db.run('UPDATE webhooks SET is_active = 0')
  expect(await deliveries(id, '?status=pending')).toHaveLength(1)
  await purgeWebhookHistory(app)
  expect(await deliveries(id)).toMatchObject([{ status: 'undeliverable', next_attempt_at: null }])
})

test('the first needed event is the first one after the cursor of an active webhook, or that of a retry; inactive webhooks need none', async () => {
  const { app, actor, addWebhook, tell, rowId, put } = service
  const needed = () => findFirstNeededSeq(app.db, actor.accountId)
  expect(needed()).toBeUndefined()
  const seqs = await tell(['sent', 'bounced', 'sent', 'sent'])
  const [behind, up] = [await addWebhook(), await addWebhook()]
  const at = (id: string, cursor: number) =>
    app.db.run('UPDATE webhooks SET cursor_seq = ? WHERE id = ?', [cursor, rowId(id)])
  at(behind.id, seqs[2] ?? 0)
  expect(needed()).toBe(seqs[3])
  app.db.run(
    `INSERT INTO webhook_deliveries (uuid, webhook_id, seq, event, status, attempts, next_at, created_at)
     VALUES (randomblob(16), ?, ?, 'bounced', 0, 1, 1, 0)`,
    [rowId(up.id), seqs[1] ?? 0],
  )
  expect(needed()).toBe(seqs[1])
  await put(up.id, { is_active: false })
  await purgeWebhookHistory(app)
  expect(needed()).toBe(seqs[3])
  await put(behind.id, { is_active: false })
  expect(needed()).toBeUndefined()
})
