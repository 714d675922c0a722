/** @module Rate limits and blocks of imitated providers, with the texts of the real ones. */
import { describe, expect, test } from 'bun:test'
import { hours, minutes, seconds } from '#platform/units.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { advanceUntil } from '#test/support/delivery-time.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { limitRate, PROVIDER_REPLIES, reactAt, startMisbehaving } from '#test/support/misbehaving.ts'

const ZONE = { 'receiver.test': { A: ['127.0.0.1'] } }
const START = Date.UTC(2026, 0, 1)

const countRows = ({ app }: MailFlow, sql: string): number =>
  app.db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${sql}`).get()?.n ?? 0

/** Nothing was bounced, suppressed or paused, and nobody got a message twice. */
function expectNoHarm(flow: MailFlow): void {
  expect({
    bounced: countRows(flow, 'recipients WHERE bounce_type IS NOT NULL'),
    suppressed: countRows(flow, 'suppressions'),
    paused: countRows(flow, 'accounts WHERE paused_at IS NOT NULL'),
    deadLetters: countRows(flow, 'dead_letters'),
  }).toEqual({ bounced: 0, suppressed: 0, paused: 0, deadLetters: 0 })
  expectBalanced(flow.service)
}

/** Lets time pass in small steps until everything is delivered. */
async function deliverAll(flow: MailFlow, clock: ManualClock, within: number): Promise<void> {
  const isDelivered = () => countRows(flow, 'recipients WHERE delivered_at IS NULL') === 0
  const isOver = () => isDelivered() || clock.now() - START >= within
  await advanceUntil(clock, flow.service, isOver, seconds(30))
  expect(isDelivered()).toBe(true)
}

describe('a provider that answers', () => {
  test.each([
    ['gmailRate', 'mail', 'rate_limited'],
    ['gmxBlock', 'banner', 'reputation'],
    ['zenBlock', 'rcpt', 'reputation'],
  ] as const)('%s at %s defers the message and does no harm', async (name, step, category) => {
    const clock = new ManualClock(START)
    await using receiver = await startMisbehaving({ react: reactAt(step, PROVIDER_REPLIES[name]) })
    await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
    const { recipient, events } = await flow.outcome('bob@receiver.test')
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expect(recipient.nextAt).toBeGreaterThan(clock.now())
    expect(events).toMatchObject([{ type: 'deferred', data: { bounce_category: category } }])
    expect(receiver.connections).toBe(1)
    expectNoHarm(flow)
  })
})

test('a limit of 10 messages a minute: 40 messages are all delivered, once each', async () => {
  const clock = new ManualClock(START)
  const limit = limitRate({ clock, max: 10, windowMs: minutes(1), step: 'mail', reply: PROVIDER_REPLIES.gmailRate })
  await using receiver = await startMisbehaving({ react: limit })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const addresses = Array.from({ length: 40 }, (_, i) => `r${i}@receiver.test`)
  for (const to of addresses) await flow.send({ to })
  await deliverAll(flow, clock, hours(6))
  expect(addresses.map((address) => receiver.receivedBy(address))).toEqual(addresses.map(() => 1))
  expect(limit.highest()).toBe(10)
  expect(receiver.maxOpen).toBeLessThanOrEqual(10)
  expectNoHarm(flow)
})

test('a block of two hours: 20 messages wait, few connections are made, and all are delivered after it', async () => {
  const clock = new ManualClock(START)
  const until = START + hours(2)
  await using receiver = await startMisbehaving({
    react: ({ step }) =>
      step === 'banner' && clock.now() < until ? { reply: PROVIDER_REPLIES.gmxBlock, end: 'close' } : undefined,
  })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const addresses = Array.from({ length: 20 }, (_, i) => `r${i}@receiver.test`)
  for (const to of addresses) await flow.send({ to })
  await deliverAll(flow, clock, hours(12))
  expect(addresses.map((address) => receiver.receivedBy(address))).toEqual(addresses.map(() => 1))
  expect(clock.now()).toBeGreaterThanOrEqual(until)
  expect(receiver.connections).toBeLessThan(60)
  expectNoHarm(flow)
})
