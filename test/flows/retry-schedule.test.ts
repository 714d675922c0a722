import { expect, test } from 'bun:test'
import { listDeadLetters } from '#features/sending/dead-letters/read.ts'
import { retryDeadLetter } from '#features/sending/dead-letters/retry.ts'
import { computeMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import { hours, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const zone = { 'receiver.test': { A: ['127.0.0.1'] } }
const PROCESSING = 2

const recipient = (flow: MailFlow) =>
  flow.app.db
    .query<{ status: number; attempts: number; nextAt: number | null }, []>(
      'SELECT status, attempts, next_at AS nextAt FROM recipients',
    )
    .get() ?? { status: -1, attempts: 0, nextAt: null }

/** Runs attempts, each time advancing the clock to the next one; returns the waits between them. */
async function runAttempts(flow: MailFlow, clock: ManualClock, attempts: number): Promise<number[]> {
  const waits: number[] = []
  for (let attempt = 1; ; attempt++) {
    await eventually(() => recipient(flow).attempts === attempt && recipient(flow).status !== PROCESSING)
    const { nextAt } = recipient(flow)
    if (nextAt === null || attempt === attempts) return waits
    waits.push(nextAt - clock.now())
    // One millisecond early nothing happens.
    clock.advance(nextAt - clock.now() - 1)
    await flow.app.commit.barrier()
    expect(recipient(flow).attempts).toBe(attempt)
    clock.advance(1)
  }
}

test('deferred mail is attempted on the retry schedule until expiry, then soft-bounces into the dead letters; a retry of the dead letter gets the whole schedule again', async () => {
  const clock = new ManualClock(START)
  let accepts = false
  await using server = await startScriptedSmtp({ rcpt: () => (accepts ? '250 ok' : '450 4.2.0 Greylisted') })
  await using flow = await startMailFlow({
    clock,
    zone,
    smtpPort: server.port,
    settings: siteLimits({ idle_seconds: 0 }),
  })
  const sent = await flow.send({ to: 'bob@receiver.test' })
  const waits = await runAttempts(flow, clock, Infinity)
  const ladder = [1, 5, 15, 30, 60, 120, 240, 480].map((m) => minutes(m))
  for (const [step, wait] of waits.entries()) {
    const least = ladder[step] ?? hours(8)
    expect(wait).toBeGreaterThanOrEqual(least)
    expect(wait).toBeLessThanOrEqual(least * 1.1)
  }
  // The mail expires at its first attempt at or after 48 hours.
  const age = waits.reduce((sum, wait) => sum + wait, 0)
  expect(age).toBeGreaterThanOrEqual(hours(48))
  expect(age - (waits.at(-1) ?? 0)).toBeLessThan(hours(48))
  const [expired] = (await flow.settled(sent)).recipients
  expect(expired).toMatchObject({
    status: 'bounced',
    bounceType: 'soft',
    bounceCategory: 'expired',
    deliveryStartedAt: null,
    attempts: waits.length + 1,
  })
  expect(expired?.attempts).toBeLessThanOrEqual(computeMaxAttempts(48))
  expect(flow.events(sent).map(({ type }) => type)).toEqual(['queued', ...waits.map(() => 'deferred'), 'bounced'])
  for (const event of flow.events(sent).slice(1, -1))
    expect(event.data).toMatchObject({ next_retry_at: expect.any(Number), reason: '450 4.2.0 Greylisted' })
  expectBalanced(flow.service)

  const [letter] = listDeadLetters(flow.app.db, flow.actor.accountId, 10).letters
  expect(letter).toMatchObject({ reason: 'expired', attempts: waits.length + 1 })
  await retryDeadLetter(flow.app, flow.actor, String(letter?.id))
  await runAttempts(flow, clock, 3)
  expect(recipient(flow)).toMatchObject({ attempts: 3, nextAt: expect.any(Number) })
  accepts = true
  clock.advance(minutes(25))
  expect(
    (await eventually(async () => (recipient(flow).nextAt === null ? flow.settled(sent) : undefined))).recipients,
  ).toMatchObject([{ status: 'sent', attempts: 4, bounceType: null, bounceCategory: null }])
  expect(listDeadLetters(flow.app.db, flow.actor.accountId, 10).total).toBe(0)
  expectBalanced(flow.service)
}, 240_000)

test('the outcome of an attempt stays recorded when the service stops during the next attempt', async () => {
  const clock = new ManualClock(START)
  let greylisted = 0
  const silent = new Promise<never>(() => undefined)
  await using server = await startScriptedSmtp({ rcpt: () => (greylisted++ > 0 ? silent : '450 4.2.0 Greylisted') })
  await using flow = await startMailFlow({ clock, zone, smtpPort: server.port })
  const sent = await flow.send({ to: 'bob@receiver.test' })
  await runAttempts(flow, clock, 1)
  clock.advance(minutes(6))
  await eventually(() => recipient(flow).status === PROCESSING)
  await flow.service.delivery?.stop()
  expect((await flow.settled(sent)).recipients).toMatchObject([
    { status: 'queued', attempts: 1, lastError: '450 4.2.0 Greylisted', smtpResponse: '450 4.2.0 Greylisted' },
  ])
  expectBalanced(flow.service)
})
