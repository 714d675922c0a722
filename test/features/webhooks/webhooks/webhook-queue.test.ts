/** Which webhooks may begin an attempt, and which wait: the limits of one webhook, of one account, and in total. */

import { describe, expect, test } from 'bun:test'
import { Streak } from '#features/webhooks/webhooks/deliver/failures.ts'
import { type Slot, Slots } from '#features/webhooks/webhooks/deliver/slots.ts'
import { type LatencyClass, WebhookQueue } from '#features/webhooks/webhooks/deliver/webhook-queue.ts'
import { findWebhookById } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { KiB, MiB } from '#platform/units.ts'
import { shareEmailApi } from '#test/support/email-api.ts'
import { createWebhookApi, type WebhookApi } from './fixture.ts'

let lastId = 0
/** A queue that has succeeded so far, with only the fields that slots use. */
const createQueue = (accountId: number, options: { routeId?: number; pace?: LatencyClass } = {}): WebhookQueue =>
  ({
    webhook: { id: ++lastId, accountId, routeId: options.routeId ?? null },
    running: 0,
    latencyClass: options.pace ?? 'fast',
  }) as WebhookQueue

const createQueues = (count: number, accountId: number, options?: Parameters<typeof createQueue>[1]): WebhookQueue[] =>
  Array.from({ length: count }, () => createQueue(accountId, options))

/** Acquires all slots that a queue may have. */
function acquireAll(slots: Slots, of: WebhookQueue): Slot[] {
  const taken: Slot[] = []
  while (slots.hasCapacity(of)) taken.push(slots.acquire(of, () => {}))
  return taken
}

const countAcquired = (slots: Slots, of: readonly WebhookQueue[]): number[] =>
  of.map((each) => acquireAll(slots, each).length)

test('a webhook may have one attempt, and more while it succeeds', () => {
  const slots = new Slots(30)
  const options = [{}, { pace: 'unproven' as const }].map((each, n) => createQueue(n, each))
  expect(countAcquired(slots, options)).toEqual([30, 1])
})

test('first attempts use none of the extra slots, neither per account nor in total', () => {
  const slots = new Slots(30)
  countAcquired(
    slots,
    Array.from({ length: 600 }, (_, n) => createQueue(n % 2, { pace: 'unproven' })),
  )
  expect(countAcquired(slots, [...createQueues(3, 0), ...createQueues(3, 1)])).toEqual([30, 22, 1, 30, 22, 1])
  // At most 50 extra attempts per account and 500 in total.
  expect(countAcquired(slots, createQueues(1, 2))).toEqual([30])
  expect(slots.attempts).toBe(600 + 2 * 53 + 30)
  const others = Array.from({ length: 9 }, (_, n) => createQueue(3 + n)).flatMap((first) => [
    first,
    createQueue(first.webhook.accountId),
  ])
  expect(countAcquired(slots, others).at(-1)).toBe(1)
  expect(slots.attempts).toBe(600 + 500 + 3 + 3 + 1 + 18)
})

describe('slow endpoints', () => {
  test('have five attempts each and ten extra ones per account, and take no slots of fast endpoints', () => {
    const slots = new Slots(30)
    expect(countAcquired(slots, createQueues(5, 1, { pace: 'slow' }))).toEqual([5, 5, 3, 1, 1])
    expect(countAcquired(slots, createQueues(3, 1))).toEqual([30, 22, 1])
    expect(countAcquired(new Slots(2), createQueues(1, 1, { pace: 'slow' }))).toEqual([2])
  })

  test('have at most 250 extra attempts over all accounts', () => {
    const slots = new Slots(30)
    const all = Array.from({ length: 30 }, (_, n) => createQueues(3, n, { pace: 'slow' })).flat()
    countAcquired(slots, all)
    expect(slots.attempts).toBe(all.length + 250)
  })

  test('release their slots, whatever their latency class is by then and whichever attempt ends first', () => {
    const slots = new Slots(30)
    for (let round = 0; round < 3; round++) {
      const [one = createQueue(1), other = createQueue(1)] = createQueues(2, 1)
      const taken = acquireAll(slots, one)
      one.latencyClass = 'slow'
      other.latencyClass = 'slow'
      taken.push(...acquireAll(slots, other))
      one.latencyClass = 'unproven'
      for (const place of taken) place.release()
      expect([one.running, other.running, slots.attempts]).toEqual([0, 0, 0])
    }
    expect(countAcquired(slots, [...createQueues(3, 1), ...createQueues(3, 1, { pace: 'slow' })])).toEqual([
      30, 22, 1, 5, 5, 3,
    ])
  })
})

describe('the routes of an account', () => {
  test('have fifty attempts in total, whatever its other webhooks do; a waiting one begins when one has ended', () => {
    const slots = new Slots(30)
    countAcquired(slots, createQueues(60, 1, { pace: 'unproven' }))
    const routes = createQueues(52, 1, { routeId: 7, pace: 'unproven' })
    const taken = routes.flatMap((route) => acquireAll(slots, route))
    expect(taken).toHaveLength(50)
    const begun: number[] = []
    const pump = () => {
      slots.pumpWaiting(1, (id) => {
        begun.push(id)
        slots.acquire(routes.find(({ webhook }) => webhook.id === id) ?? createQueue(1), () => {})
      })
    }
    pump()
    expect(begun).toEqual([])
    taken[0]?.release()
    pump()
    expect(begun).toEqual([routes[50]?.webhook.id ?? 0])
  })
})

describe('bodies', () => {
  const hold = (slots: Slots, accountId: number, characters: number): Slot => {
    const place = slots.acquire(createQueue(accountId), () => {})
    place.holdBody(characters)
    return place
  }

  test('of one account are limited to 8 MiB, independent of other accounts', () => {
    const slots = new Slots(30)
    const place = hold(slots, 1, 8 * MiB)
    expect([slots.hasCapacity(createQueue(1)), slots.hasCapacity(createQueue(2))]).toEqual([false, true])
    place.release()
    place.release()
    expect(countAcquired(slots, createQueues(2, 1))).toEqual([30, 22])
  })

  test('of all accounts are limited to 32 MiB, except for accounts with little in flight', () => {
    const slots = new Slots(30)
    for (let accountId = 1; accountId <= 5; accountId++) hold(slots, accountId, 7 * MiB)
    hold(slots, 6, 256 * KiB)
    hold(slots, 7, 256 * KiB - 1)
    expect([1, 6, 7, 8].map((accountId) => slots.hasCapacity(createQueue(accountId)))).toEqual([
      false,
      false,
      true,
      true,
    ])
  })
})

const service = shareEmailApi(createWebhookApi)

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
