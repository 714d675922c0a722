/** @module The rates by which an account is monitored, beside their limits. */
import { expect, test } from 'bun:test'
import { count } from '#features/core/events/record.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { days } from '#platform/units.ts'
import { createEmailApi } from '#test/support/email-api.ts'

// Proves: account-22
test('an account reads its rates of the last day, with the limits that warn and that pause', async () => {
  await using service = await createEmailApi()
  const { app, actor, clock } = service
  const add = (metric: 'delivered' | 'bounced', n: number, at: number) =>
    app.commit.write((tx) => count(tx, actor.accountId, toAccountMetric(metric), at, n))
  const read = async () => (await service.api('GET', '/v1/account/reputation')).body
  const limits = {
    bounce_rate: { warning: 0.02, pause: 0.1 },
    complaint_rate: { warning: 0.001, pause: 0.003 },
  }
  expect(await read()).toEqual({
    data: {
      period_hours: 24,
      delivered: 0,
      bounced: 0,
      complained: 0,
      bounce_rate: null,
      complaint_rate: null,
      limits,
      minimum_recipients: 200,
      can_pause: false,
    },
  })
  await add('delivered', 95, clock.now())
  await add('bounced', 5, clock.now())
  await add('bounced', 500, clock.now() - days(2))
  expect(await read()).toMatchObject({
    data: { delivered: 95, bounced: 5, bounce_rate: 0.05, complaint_rate: 0, limits },
  })
})
