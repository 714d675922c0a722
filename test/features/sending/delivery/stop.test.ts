import { expect, test } from 'bun:test'
import { startDelivery } from '#features/sending/delivery/start.ts'
import { minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { recipientsOf } from './flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const zone = { 'receiver.test': { A: ['127.0.0.1'] } }

/** Stops delivery and starts it again on the same data, as the next process would. */
async function restart(flow: MailFlow) {
  const delivery = await startDelivery(flow.service.opened)
  return { delivery, [Symbol.asyncDispose]: () => delivery.stop() }
}

const stop = (flow: MailFlow): Promise<void> => flow.service.delivery?.stop() ?? Promise.resolve()

const neverResolve = (): Promise<never> => new Promise(() => undefined)

test.each([
  ['the greeting', { greeting: neverResolve }],
  ['EHLO', { ehlo: neverResolve }],
  ['MAIL', { mail: neverResolve }],
  ['RCPT', { rcpt: neverResolve }],
  ['DATA', { data: neverResolve }],
] as [string, SmtpScript][])(
  'at a stop while the receiver is silent at %s, messages return to the queue without an attempt',
  async (_, script) => {
    await using server = await startScriptedSmtp(script)
    await using flow = await startMailFlow({ zone, smtpPort: server.port })
    // More than may be dialled at the same time, so some wait.
    for (let i = 0; i < 15; i++) await flow.send({ to: `r${i}@receiver.test` })
    await server.until(() => server.sessions.length === 2)
    await stop(flow)
    expect(recipientsOf(flow)).toMatchObject(
      Array.from({ length: 15 }, () => ({ status: 'queued', attempts: 0, started: null })),
    )
    expectBalanced(flow.service)
  },
)

test('after a stop at any moment nothing stays claimed, and the next start sends everything once', async () => {
  let isStopped = false
  const begunAfterStop: string[] = []
  await using server = await startScriptedSmtp({
    data: () => {
      if (isStopped) begunAfterStop.push('354')
      return '354 go'
    },
  })
  const domains = Array.from({ length: 8 }, (_, i) => `d${i}.test`)
  await using flow = await startMailFlow({
    zone: Object.fromEntries(domains.map((domain) => [domain, { A: ['127.0.0.1'] }])),
    smtpPort: server.port,
    settings: siteLimits({ connections: 2 }),
  })
  await stop(flow)
  let sent = 0
  for (let round = 0; round < 8; round++) {
    const running = await startDelivery(flow.service.opened)
    const sends = domains.flatMap((domain) =>
      Array.from({ length: 4 }, (_, i) => flow.send({ to: `r${round}-${i}@${domain}` })),
    )
    sent += sends.length
    // A few more ticks each round, so that it stops before, during and after the claims.
    for (let tick = 0; tick < round * 4; tick++) await new Promise(setImmediate)
    const stopped = running.stop()
    await Promise.all([stopped, ...sends])
    expect(running.scheduler.inFlight).toBe(0)
    isStopped = true
    await flow.app.commit.barrier()
    for (const row of recipientsOf(flow)) {
      if (row.status === 'queued') expect(row).toMatchObject({ attempts: 0, started: null })
      else expect(row).toMatchObject({ status: 'sent', attempts: 1 })
    }
    expect(begunAfterStop).toEqual([])
    isStopped = false
  }
  await using _again = await restart(flow)
  await eventually(() => recipientsOf(flow).every(({ status }) => status === 'sent'))
  const delivered = server.sessions.flatMap(({ messages, commands }) =>
    messages.length > 0 ? commands.filter((line) => line.startsWith('RCPT')) : [],
  )
  expect(delivered).toHaveLength(sent)
  expect(new Set(delivered).size).toBe(sent)
  expectBalanced(flow.service)
}, 240_000)

test('a stop waits for a begun message', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  await using server = await startScriptedSmtp({ body: () => promise.then(() => '250 2.0.0 Queued') })
  await using flow = await startMailFlow({ zone, smtpPort: server.port })
  await flow.send({ to: 'bob@receiver.test' })
  await eventually(() => server.sessions[0]?.messages.length === 1)
  const stopped = stop(flow)
  resolve()
  await stopped
  expect(recipientsOf(flow)).toMatchObject([{ status: 'sent', attempts: 1 }])
  expectBalanced(flow.service)
})

test('at a stop, a begun message without a reply within a minute is uncertain', async () => {
  const clock = new ManualClock(START)
  await using server = await startScriptedSmtp({ body: neverResolve })
  await using flow = await startMailFlow({ zone, clock, smtpPort: server.port })
  await flow.send({ to: 'bob@receiver.test' })
  await eventually(() => server.sessions[0]?.messages.length === 1)
  let isStopped = false
  const stopped = stop(flow).then(() => (isStopped = true))
  await eventually(() => {
    clock.advance(seconds(1))
    return isStopped
  })
  await stopped
  expect(clock.now() - START).toBeGreaterThanOrEqual(minutes(1))
  expect(recipientsOf(flow)).toMatchObject([{ status: 'uncertain', attempts: 1, started: expect.any(Number) }])
  await using _again = await restart(flow)
  await flow.app.commit.barrier()
  expect(server.sessions).toHaveLength(1)
  expectBalanced(flow.service)
})

test.each([
  ['until the database accepts it', true],
  ['for a minute; the next start makes the recipient uncertain', false],
])('at a stop while the database refuses a known outcome, the write is retried %s', async (_, recovers) => {
  const clock = new ManualClock(START)
  await using server = await startScriptedSmtp()
  await using flow = await startMailFlow({ zone, clock, smtpPort: server.port })
  const { db } = flow.app
  db.run(
    "CREATE TEMP TRIGGER refuse BEFORE UPDATE OF delivered_at ON recipients BEGIN SELECT RAISE(ABORT, 'refused'); END",
  )
  await flow.send({ to: 'bob@receiver.test' })
  await eventually(() => server.sessions[0]?.messages.length === 1)
  await eventually(() => flow.service.delivery?.scheduler.inFlight === 0)
  let isStopped = false
  const stopped = stop(flow).then(() => (isStopped = true))
  if (recovers) db.run('DROP TRIGGER refuse')
  await eventually(() => {
    clock.advance(seconds(1))
    return isStopped
  })
  await stopped
  expect(recipientsOf(flow)).toMatchObject([{ status: recovers ? 'sent' : 'processing', attempts: 1 }])
  if (!recovers) db.run('DROP TRIGGER refuse')
  await using _again = await restart(flow)
  expect(recipientsOf(flow)).toMatchObject([{ status: recovers ? 'sent' : 'uncertain', attempts: 1 }])
  expect(server.sessions).toHaveLength(1)
  expectBalanced(flow.service)
})
