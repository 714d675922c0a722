/** @module Clock jumps during deliveries to real servers: every recipient reaches the right final status, in time. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { advanceUntil } from '#test/support/delivery-time.ts'
import { createFolder } from '#test/support/folder.ts'
import { type MailFlow, type MailFlowOptions, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createResolver } from '#test/support/resolver.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

// Advancing the clock takes long on a busy machine.
setDefaultTimeout(240_000)

const START = Date.UTC(2026, 2, 15, 12, 30)
const zone = { 'receiver.test': { A: ['127.0.0.1'] } }

interface Row {
  readonly status: number
  readonly attempts: number
  readonly nextAt: number | null
  readonly category: string | null
}

const rows = (flow: { readonly app: MailFlow['app'] }): Row[] =>
  flow.app.db
    .query<Row, []>(
      'SELECT status, attempts, next_at AS nextAt, bounce_category AS category FROM recipients ORDER BY id',
    )
    .all()

/** A clock whose monotonic time jumps too, as on a migrated machine or in a process with a faked clock. */
class FullyJumpingClock extends ManualClock {
  #jumpedMs = 0

  override jumpTo(now: number): void {
    this.#jumpedMs += now - this.now()
    super.jumpTo(now)
  }

  override monotonicMs(): number {
    return super.monotonicMs() + this.#jumpedMs
  }

  override sinceBootMs(): number {
    return this.monotonicMs()
  }
}

/** Whether every waiting recipient is due within the first step of the retry schedule. */
const areDueInTime = (flow: MailFlow): boolean =>
  rows(flow).every(({ nextAt }) => nextAt === null || nextAt - flow.app.clock.now() <= minutes(5.5))

const CLOCKS: [string, () => ManualClock][] = [
  ['the wall clock alone', () => new ManualClock(START)],
  ['both clocks', () => new FullyJumpingClock(START)],
]

describe.each(CLOCKS)('%s 40 days ahead for 3 s, then correct:', (_, createClock) => {
  async function startFlow(options: Omit<MailFlowOptions, 'clock' | 'zone'>) {
    const clock = createClock()
    const flow = await startMailFlow({ ...options, clock, zone })
    const jump = async (whileAhead: () => Promise<unknown>) => {
      const at = clock.now()
      clock.jumpTo(at + days(40))
      flow.app.clock.now()
      await whileAhead()
      clock.advance(seconds(3))
      await flow.app.commit.barrier()
      clock.jumpTo(at + seconds(3))
      flow.app.clock.now()
    }
    return { clock, flow, jump, [Symbol.asyncDispose]: () => flow[Symbol.asyncDispose]() }
  }

  // Proves: delivery-5
  test('mail deferred during the jump is delivered in time', async () => {
    let isBusy = true
    await using server = await startScriptedSmtp({ rcpt: () => (isBusy ? '450 4.2.0 Later' : '250 ok') })
    await using it = await startFlow({ smtpPort: server.port })
    await it.jump(async () => await it.flow.outcome('bob@receiver.test'))
    isBusy = false
    await eventually(() => areDueInTime(it.flow))
    await advanceUntil(it.clock, it.flow.service, () => rows(it.flow)[0]?.nextAt === null, seconds(30))
    expect(rows(it.flow)).toMatchObject([{ status: 3, attempts: 2 }])
    expectBalanced(it.flow.service)
  })

  // Proves: delivery-5
  test('new mail to a site that backed off during the jump is delivered in time', async () => {
    let isBusy = true
    await using server = await startScriptedSmtp({ mail: () => (isBusy ? '421 4.7.0 Later' : '250 ok') })
    await using it = await startFlow({ smtpPort: server.port })
    await it.jump(async () => await it.flow.outcome('bob@receiver.test'))
    isBusy = false
    await it.flow.send({ to: 'ann@receiver.test' })
    await eventually(() => areDueInTime(it.flow))
    await advanceUntil(
      it.clock,
      it.flow.service,
      () => rows(it.flow).every(({ nextAt }) => nextAt === null),
      seconds(30),
    )
    expect(rows(it.flow).map(({ status }) => status)).toEqual([3, 3])
    expectBalanced(it.flow.service)
  })

  // Proves: delivery-5
  test('deferred mail does not expire', async () => {
    let isBusy = true
    await using server = await startScriptedSmtp({ rcpt: () => (isBusy ? '450 4.2.0 Later' : '250 ok') })
    await using it = await startFlow({ smtpPort: server.port })
    await it.flow.outcome('bob@receiver.test')
    await it.jump(() => it.flow.send({ to: 'ann@receiver.test' }).then((sent) => it.flow.settled(sent)))
    isBusy = false
    await advanceUntil(
      it.clock,
      it.flow.service,
      () => rows(it.flow).every(({ nextAt }) => nextAt === null),
      seconds(30),
    )
    expect(rows(it.flow).map(({ status }) => status)).toEqual([3, 3])
    expectBalanced(it.flow.service)
  })
})

// Proves: delivery-5
test('scheduled mail is not released by a jump of days, and is sent at its time', async () => {
  const clock = new ManualClock(START)
  await using server = await startScriptedSmtp()
  await using flow = await startMailFlow({ clock, zone, smtpPort: server.port })
  await flow.send({ to: 'bob@receiver.test', send_at: new Date(START + days(10)).toISOString() })
  clock.jumpTo(START + days(40))
  // If the scheduled email were due, it would be sent first, because it is in the same lane.
  expect((await flow.outcome('ann@receiver.test')).recipient).toMatchObject({ status: 'sent' })
  expect(rows(flow)[0]).toMatchObject({ attempts: 0, nextAt: START + days(10) })
  clock.jumpTo(START)
  clock.advance(days(10) - minutes(1))
  await advanceUntil(clock, flow.service, () => rows(flow)[0]?.nextAt === null, seconds(30))
  expect(rows(flow)[0]).toMatchObject({ status: 3, attempts: 1 })
  expectBalanced(flow.service)
})

test('an hour back does not delay deferred mail, and scheduled mail keeps its time', async () => {
  const clock = new ManualClock(START)
  let isBusy = true
  await using server = await startScriptedSmtp({ rcpt: () => (isBusy ? '450 4.2.0 Later' : '250 ok') })
  await using flow = await startMailFlow({ clock, zone, smtpPort: server.port })
  await flow.outcome('bob@receiver.test')
  const sendAt = START + hours(2)
  await flow.send({ to: 'ann@receiver.test', send_at: new Date(sendAt).toISOString() })
  clock.jumpTo(START - hours(1))
  isBusy = false
  // Made due at the current time, without any time passing.
  flow.app.clock.now()
  await eventually(() => rows(flow)[0]?.nextAt === null)
  expect(rows(flow)[1]).toMatchObject({ attempts: 0, nextAt: sendAt })
  expectBalanced(flow.service)
})

// Proves: delivery-5
test('mail that a run with a clock ahead of time postponed is due at the next start', async () => {
  using folder = createFolder()
  const dataDir = folder.path
  let times = 0
  await using server = await startScriptedSmtp({ rcpt: () => (times++ > 0 ? '250 ok' : '450 4.2.0 Later') })
  const ahead = new ManualClock(START + days(40))
  const flow = await startMailFlow({ clock: ahead, zone, smtpPort: server.port, dataDir })
  await using dns = flow.dns
  await flow.outcome('bob@receiver.test')
  await flow.service[Symbol.asyncDispose]()
  const clock = new ManualClock(START)
  await using again = await createTestApp({
    dataDir,
    clock,
    delivers: true,
    resolver: createResolver(dns),
    settings: { TASSIS_SMTP_PORT: String(server.port) },
  })
  await eventually(() => rows(again)[0]?.nextAt === null)
  expect(rows(again)).toMatchObject([{ status: 3, attempts: 2 }])
  // The wrong time of the earlier run does not hold back the time of new events.
  expect(again.app.eventTime()).toBe(again.app.clock.now())
})

// Proves: delivery-6
test('mail of a service that was down for weeks gets the attempts of its retry schedule before it expires', async () => {
  const clock = new FullyJumpingClock(START)
  await using server = await startScriptedSmtp({ rcpt: '450 4.2.0 Later' })
  await using flow = await startMailFlow({ clock, zone, smtpPort: server.port })
  await flow.outcome('bob@receiver.test')
  clock.jumpTo(START + days(20))
  await advanceUntil(clock, flow.service, () => rows(flow)[0]?.nextAt === null, minutes(10))
  const [row] = rows(flow)
  expect(row).toMatchObject({ status: 4, category: 'expired' })
  expect(row?.attempts).toBeGreaterThanOrEqual(12)
  expectBalanced(flow.service)
})
