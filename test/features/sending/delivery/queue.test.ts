import { describe, expect, test } from 'bun:test'
import { cancelEmail } from '#features/sending/emails/scheduled.ts'
import { createLog } from '#platform/log/log.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { ownHosts, sharedHost } from '#test/support/dns-server.ts'
import { laneStates } from '#test/support/lanes.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { recipientsOf } from './flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)

const createDomains = (count: number): string[] => Array.from({ length: count }, (_, i) => `d${i}.test`)

/** A promise and the function that resolves it. */
function createGate(): { readonly open: () => void; readonly opened: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { open: resolve, opened: promise }
}

describe('slots of the queue', () => {
  test('a lane does not wait for the message of another lane while its site has capacity', async () => {
    const held = createGate()
    await using server = await startScriptedSmtp({
      rcpt: async (line) => {
        if (line.includes('@slow.test')) await held.opened
        return '250 2.1.5 Recipient ok'
      },
    })
    await using flow = await startMailFlow({ zone: sharedHost('slow.test', 'quick.test'), smtpPort: server.port })
    const [slow, quick] = await Promise.all([flow.send({ to: 'a@slow.test' }), flow.send({ to: 'b@quick.test' })])
    expect((await flow.settled(quick)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    held.open()
    expect((await flow.settled(slow)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    expectBalanced(flow.service)
  })

  test('no more messages are in delivery than allowed, however many lanes become due at the same time', async () => {
    const held = createGate()
    await using server = await startScriptedSmtp({
      body: async () => {
        await held.opened
        return '250 2.0.0 Queued'
      },
    })
    const domains = createDomains(40)
    await using flow = await startMailFlow({
      zone: ownHosts(...domains),
      smtpPort: server.port,
      // One account may use three of them.
      settings: { TASSIS_WORKERS: '2' },
      deliveryConcurrency: 5,
    })
    let most = 0
    const scheduler = flow.service.delivery?.scheduler
    const watch = setInterval(() => (most = Math.max(most, scheduler?.inFlight ?? 0)), 0)
    const sent = await Promise.all(domains.flatMap((d) => [flow.send({ to: `a@${d}` }), flow.send({ to: `b@${d}` })]))
    await eventually(() => server.sessions.filter(({ rawMessages }) => rawMessages.length > 0).length >= 3)
    expect(recipientsOf(flow).filter(({ status }) => status === 'processing')).toHaveLength(3)
    held.open()
    for (const one of sent) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
    clearInterval(watch)
    expect(most).toBe(3)
    expectBalanced(flow.service)
  })

  test('silent receivers do not hold up mail to other receivers', async () => {
    await using server = await startScriptedSmtp({
      rcpt: (line) => (line.includes('silent') ? new Promise<never>(() => undefined) : '250 2.1.5 ok'),
    })
    const silent = createDomains(5).map((d) => `silent-${d}`)
    const good = createDomains(60)
    await using flow = await startMailFlow({
      zone: ownHosts(...silent, ...good),
      smtpPort: server.port,
      settings: { TASSIS_WORKERS: '2' },
      deliveryConcurrency: 100,
    })
    await Promise.all(silent.flatMap((d) => Array.from({ length: 30 }, (_, i) => flow.send({ to: `r${i}@${d}` }))))
    await eventually(() => server.sessions.length >= silent.length)
    const sent = await Promise.all(good.map((d) => flow.send({ to: `bob@${d}` })))
    for (const one of sent)
      expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
  })

  test('when the database refuses a claim, lanes that found no free slot still get their turn', async () => {
    await using server = await startScriptedSmtp()
    await using flow = await startMailFlow({
      zone: sharedHost('one.test', 'two.test', 'three.test'),
      smtpPort: server.port,
      settings: siteLimits({ connections: 1 }),
    })
    const { db } = flow.app
    db.run(
      "CREATE TEMP TRIGGER refuse BEFORE UPDATE OF attempts ON recipients WHEN new.address LIKE '%@one.test' AND new.status = 2 BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    const all = await Promise.all(
      ['a@one.test', 'b@one.test', 'c@one.test', 'd@two.test', 'e@three.test'].map((to) => flow.send({ to })),
    )
    const refused = all.slice(0, 3)
    for (const one of all.slice(3)) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
    db.run('DROP TRIGGER refuse')
    for (const one of refused) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
    expectBalanced(flow.service)
  })

  test('lanes that wait for a full site get their turn when the site turns out to be unreachable', async () => {
    const clock = new ManualClock(START)
    const held = createGate()
    await using server = await startScriptedSmtp({
      greeting: async () => {
        await held.opened
        return '421 4.3.2 Not now'
      },
    })
    await using flow = await startMailFlow({
      clock,
      zone: sharedHost('one.test', 'two.test', 'three.test'),
      smtpPort: server.port,
      settings: siteLimits({ connections: 1 }),
    })
    // Two claims fill the site; the other lanes wait for capacity.
    await Promise.all(['a@one.test', 'b@one.test', 'c@one.test'].map((to) => flow.send({ to })))
    await server.until(() => server.sessions.length > 0)
    await Promise.all(['d@two.test', 'e@three.test'].map((to) => flow.send({ to })))
    await eventually(() => laneStates(flow.service).length === 3)
    held.open()
    await eventually(() => {
      clock.advance(seconds(10))
      return recipientsOf(flow).every(({ attempts }) => attempts > 0)
    })
  })
})

describe('an unroutable domain', () => {
  test('an outcome that the database refuses leaves no recipient claimed', async () => {
    const clock = new ManualClock(START)
    const logged: string[] = []
    const log = createLog('error', { write: (line) => void logged.push(line) })
    await using flow = await startMailFlow({ clock, log })
    const { db } = flow.app
    db.run(
      "CREATE TEMP TRIGGER refuse BEFORE INSERT ON events WHEN new.type <> 0 BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    const sent = await flow.send({ to: 'bob@nowhere.test' })
    await eventually(() => logged.some((line) => line.includes('queue processing failed')))
    db.run('DROP TRIGGER refuse')
    await eventually(() => {
      clock.advance(seconds(1))
      return recipientsOf(flow)[0]?.nextAt === null
    })
    expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'bounced', attempts: 1 }])
    expectBalanced(flow.service)
  })

  test('after a cancelled email the later ones of its lane still have their turn', async () => {
    const clock = new ManualClock(START)
    await using flow = await startMailFlow({ clock })
    const at = (ms: number) => new Date(START + ms).toISOString()
    const first = await flow.send({ to: 'a@nowhere.test', send_at: at(hours(1)) })
    const second = await flow.send({ to: 'b@nowhere.test', send_at: at(hours(2)) })
    await cancelEmail(flow.app, flow.actor, first.id)
    clock.advance(hours(1))
    await flow.dns.received(1)
    await flow.app.commit.barrier()
    await eventually(() => {
      clock.advance(minutes(1))
      return recipientsOf(flow)[1]?.nextAt === null
    })
    expect((await flow.settled(second)).recipients).toMatchObject([{ status: 'bounced', attempts: 1 }])
    expectBalanced(flow.service)
  })
})

// A message in flight counts twice its size, and deliveries may use half of the budget.
const settings = { TASSIS_MEMORY_BUDGET: '16MiB' }

test('while there is memory for only one message, messages are sent one after another', async () => {
  let open = 0
  let most = 0
  await using server = await startScriptedSmtp({
    data: () => {
      most = Math.max(most, ++open)
      return '354 Go ahead'
    },
    body: () => {
      open--
      return '250 2.0.0 Queued'
    },
  })
  const domains = createDomains(4)
  await using flow = await startMailFlow({ zone: ownHosts(...domains), smtpPort: server.port, settings })
  // Another part of the service uses nearly all of the budget.
  const others = flow.app.memory.reserve(15 * 1024 * 1024)
  const sent = []
  for (const d of domains) sent.push(await flow.send({ to: `a@${d}`, text_body: 'x'.repeat(400_000) }))
  for (const one of sent) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
  others?.release()
  expect(most).toBe(1)
  expectBalanced(flow.service)
})
