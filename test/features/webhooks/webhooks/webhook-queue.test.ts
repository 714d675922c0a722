/** The progress of a webhook through its pending deliveries, however many there are. */
import { expect, test } from 'bun:test'
import { Streak } from '#features/webhooks/webhooks/deliver/failures.ts'
import { WebhookQueue } from '#features/webhooks/webhooks/deliver/webhook-queue.ts'
import { findWebhookById } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { createWebhookApi, type WebhookApi } from './fixture.ts'

/** Stores deliveries that are due, all for the first event of the account. */
const insertDue = ({ app, clock }: WebhookApi, webhookId: number, count: number): void => {
  app.db.run(
    `INSERT INTO webhook_deliveries (uuid, webhook_id, seq, event, status, attempts, next_at, created_at)
     WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
     SELECT randomblob(16), ?, 1, 'sent', 0, 0, ?, 0 FROM numbers`,
    [count, webhookId, clock.now()],
  )
}

test('the next delivery is found among 20,000 due ones as quickly as among ten', async () => {
  await using service = await createWebhookApi()
  const { app, clock, rowId } = service
  const laneOf = async (count: number): Promise<WebhookQueue> => {
    const id = rowId((await service.addWebhook()).id)
    insertDue(service, id, count)
    const webhook = findWebhookById(app.db, id)
    if (!webhook) throw new Error('there is no webhook')
    return new WebhookQueue(
      app.db,
      webhook,
      { current: 'secret' },
      new Streak(webhook, clock.now(), clock.monotonicMs()),
    )
  }
  const [few, many] = [await laneOf(10), await laneOf(20_000)]
  /** The fastest of many runs, which a busy machine does not slow down. */
  const quickest = (lane: WebhookQueue): number => {
    const times = Array.from({ length: 30 }, () => {
      const from = performance.now()
      expect(lane.nextStored(clock.now())).toMatchObject({ event: 'sent', seq: 1 })
      return performance.now() - from
    })
    return Math.min(...times)
  }
  // A scan of all deliveries takes hundreds of times as long.
  expect(quickest(many)).toBeLessThan(quickest(few) * 10)
})
