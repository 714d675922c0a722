import { expect, test } from 'bun:test'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createFolder } from '#test/support/folder.ts'
import { laneStates } from '#test/support/lanes.ts'
import type { MailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type ProviderFlow, restartProviderFlow, startProviderFlow } from '#test/support/provider-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { countOpen, newSender } from '../flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
interface SteppedFlow extends ProviderFlow {
  /** Moves the clock in steps, of a second unless said otherwise, once nothing is in delivery. */
  pass(ms: number, stepMs?: number): Promise<void>
}

/** A service with a provider "big" of these limits. */
async function startFlow(...given: Parameters<typeof startProviderFlow>): Promise<SteppedFlow> {
  const provider = await startProviderFlow(...given)
  const { flow, clock } = provider
  return {
    ...provider,
    async pass(ms, stepMs = seconds(1)) {
      for (let passed = 0; passed < ms; passed += stepMs) {
        await eventually(() => flow.service.delivery?.scheduler.inFlight === 0)
        clock.advance(Math.min(stepMs, ms - passed))
        await settleDown(flow)
      }
    },
  }
}

/** Waits until every lane has had its turn. */
async function settleDown(flow: MailFlow): Promise<void> {
  for (let tick = 0; tick < 5; tick++) {
    await flow.app.commit.barrier()
    await Bun.sleep(1)
  }
}

/** Accepts emails with one recipient each. */
const sendMany = (flow: MailFlow, count: number, domain = 'one.test') =>
  Promise.all(Array.from({ length: count }, (_, n) => flow.send({ to: `r${n}@${domain}` })))

const count = (flow: MailFlow, query: string): number =>
  flow.app.db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${query}`).get()?.n ?? 0
const countDeferred = (flow: MailFlow): number =>
  count(flow, "events WHERE type = (SELECT type FROM events WHERE data LIKE '%next_retry_at%' LIMIT 1)")
const reasonOf = (flow: Pick<MailFlow, 'service'>): string => laneStates(flow.service)[0]?.reason ?? ''

test('a provider that says it limits our rate gets few messages, then one probe at a time, and all once it allows', async () => {
  let isBusy = true
  let attempts = 0
  await using server = await startScriptedSmtp({
    mail: () => {
      attempts++
      return isBusy
        ? '451 4.7.650 The mail server has been temporarily rate limited due to IP reputation'
        : '250 2.1.0 ok'
    },
  })
  await using provider = await startFlow('connections = 5\nper_minute = 600', { smtpPort: server.port })
  const { flow, pass } = provider
  await sendMany(flow, 100)
  await eventually(() => attempts > 0)
  await pass(minutes(1))
  // 3,000 such messages were all tried within 10 s before.
  expect(attempts).toBeLessThanOrEqual(30)
  const early = attempts
  await pass(minutes(4), seconds(5))
  expect(attempts - early).toBeLessThanOrEqual(30)
  isBusy = false
  for (let minute = 0; minute < 120 && countOpen(flow) > 0; minute++) await pass(minutes(1), seconds(10))
  expect(countOpen(flow)).toBe(0)
  expect(count(flow, 'recipients WHERE status = 3')).toBe(100)
  expectBalanced(flow.service)
}, 120_000)

test('a 421 about our address suspends the provider at all its sites: few connections, one probe, then everything', async () => {
  let isBlocked = true
  await using server = await startScriptedSmtp({
    mail: () => (isBlocked ? '421 4.7.0 Try again later' : '250 2.1.0 ok'),
  })
  await using provider = await startFlow('connections = 5', { smtpPort: server.port })
  const { flow, clock, pass } = provider
  await Promise.all([sendMany(flow, 40, 'one.test'), sendMany(flow, 40, 'two.test')])
  await eventually(() => reasonOf(flow).includes('big is suspended until'))
  await pass(seconds(25))
  const before = server.sessions.length
  expect(before).toBeLessThanOrEqual(8)
  // The suspension of 30 s ends: one probe, then the next after a minute.
  await pass(seconds(30))
  expect(server.sessions.length - before).toBe(1)
  await pass(seconds(50))
  expect(server.sessions.length - before).toBe(2)
  isBlocked = false
  for (let minute = 0; minute < 60 && countOpen(flow) > 0; minute++) await pass(minutes(1), seconds(5))
  expect(count(flow, 'recipients WHERE status = 3')).toBe(80)
  expect(clock.now() - START).toBeLessThan(hours(1))
  expectBalanced(flow.service)
}, 120_000)

test('no second and no minute sees more messages than the policy of the provider, over all its sites', async () => {
  const clock = new ManualClock(START)
  const seen: number[] = []
  await using server = await startScriptedSmtp({
    mail: () => {
      seen.push(clock.now())
      return '250 2.1.0 ok'
    },
  })
  await using provider = await startFlow('per_second = 4\nper_minute = 60', { smtpPort: server.port, clock })
  const { flow, pass } = provider
  await Promise.all([sendMany(flow, 60, 'one.test'), sendMany(flow, 60, 'two.test')])
  for (let second = 0; second < 200 && countOpen(flow) > 0; second++) await pass(seconds(1))
  expect(count(flow, 'recipients WHERE status = 3')).toBe(120)
  const most = (windowMs: number) =>
    Math.max(...seen.map((from) => seen.filter((at) => at >= from && at < from + windowMs).length))
  expect(most(seconds(1))).toBeLessThanOrEqual(4)
  expect(most(minutes(1))).toBeLessThanOrEqual(60)
  // And it is used: 120 messages take little more than two minutes.
  expect(clock.now() - START).toBeLessThan(seconds(150))
}, 120_000)

test('mail that waits for a suspended provider names the rule of the suspension and its category', async () => {
  await using server = await startScriptedSmtp({
    mail: '550 5.7.1 Service unavailable, Client host [192.0.2.1] blocked using zen.spamhaus.org',
  })
  await using provider = await startFlow('', { smtpPort: server.port })
  const { flow } = provider
  await flow.send({ to: 'first@one.test' })
  await eventually(() => reasonOf(flow).includes('is suspended until') || countDeferred(flow) > 0)
  const waiting = await flow.send({ to: 'second@two.test' })
  const deferred = () => flow.events(waiting).filter(({ type }) => type === 'deferred')
  await eventually(() => deferred().length > 0)
  expect(server.sessions.length).toBe(1)
  expect(deferred()).toMatchObject([
    {
      data: {
        rule: 'block-list',
        bounce_category: 'reputation',
        reason: expect.stringContaining('big is not tried for a while: 550 5.7.1 Service unavailable'),
      },
    },
  ])
})

// Proves: status-17
test('waiting mail costs one event per recipient and day, and no write per wait', async () => {
  await using server = await startScriptedSmtp({ mail: '421 4.7.0 Try again later' })
  await using provider = await startFlow('connections = 2', { smtpPort: server.port })
  const { flow, clock, pass } = provider
  const { app } = flow
  const recipients = 200
  await sendMany(flow, recipients)
  await eventually(() => reasonOf(flow).includes('is suspended until'))
  const notes = () => count(flow, 'recipients WHERE wait_noted_at IS NOT NULL')
  const passMinutes = (count: number) => pass(minutes(count), minutes(1))
  await passMinutes(2)
  await eventually(() => notes() > recipients - 20)
  const events = countDeferred(flow)
  expect(events).toBeLessThanOrEqual(recipients + 30)
  const rows = () =>
    app.db
      .query<{ id: number }, []>(
        'SELECT id, next_at, last_error, wait_noted_at FROM recipients WHERE attempts = 0 ORDER BY id',
      )
      .all()
  const before = rows()
  await passMinutes(120)
  const waiting = new Set(rows().map(({ id }) => id))
  expect(waiting.size).toBeGreaterThan(recipients - 30)
  expect(rows()).toEqual(before.filter(({ id }) => waiting.has(id)))
  // Only the probes: they become rarer, up to one an hour.
  expect(countDeferred(flow) - events).toBeLessThanOrEqual(40)
  expect(count(flow, 'recipients WHERE attempts > 0')).toBeLessThanOrEqual(30)
  clock.advance(days(1))
  await passMinutes(3)
  await eventually(() => countDeferred(flow) >= events + recipients - 60)
  expect(countDeferred(flow)).toBeLessThanOrEqual(2 * recipients + 100)
  expectBalanced(flow.service)
}, 180_000)

test('a restart keeps a suspension with its rule, its alert and its probe', async () => {
  using folder = createFolder()
  const clock = new ManualClock(START)
  const reply = '554 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org'
  await using server = await startScriptedSmtp({ mail: reply })
  const options = { smtpPort: server.port, clock, dataDir: folder.path }
  {
    await using provider = await startFlow('', options)
    const { flow } = provider
    await sendMany(flow, 20)
    await eventually(() => reasonOf(flow).includes('is suspended until'))
    await eventually(() => flow.app.db.query('SELECT 1 FROM provider_pairs').get() !== null)
    expect(flow.app.db.query('SELECT provider, source, failures, suspended_until FROM provider_pairs').all()).toEqual([
      { provider: 'big', source: '', failures: 1, suspended_until: START + hours(1) },
    ])
  }
  const sessions = server.sessions.length
  await using again = await restartProviderFlow('', options)
  const { service } = again
  expect(service.delivery?.scheduler.alerts.list()).toMatchObject([
    { provider: 'big', rule: 'block-list', category: 'reputation', reply, firstAt: START, lastAt: START, count: 1 },
  ])
  clock.advance(minutes(59))
  await eventually(() => reasonOf(again).includes('big is suspended until'))
  expect(server.sessions.length).toBe(sessions)
  clock.advance(minutes(1))
  await eventually(() => server.sessions.length === sessions + 1)
  await eventually(() => service.app.db.query('SELECT 1 FROM provider_pairs WHERE failures = 2').get() !== null)
}, 120_000)

test("at a provider with a limited rate another account's single message is next, not after all others", async () => {
  const clock = new ManualClock(START)
  const order: string[] = []
  await using server = await startScriptedSmtp({
    rcpt: (line) => {
      order.push(line)
      return '250 2.1.5 ok'
    },
  })
  await using provider = await startFlow('per_minute = 30', { smtpPort: server.port, clock })
  const { flow, pass } = provider
  await Promise.all([sendMany(flow, 60, 'one.test'), sendMany(flow, 60, 'two.test')])
  await pass(seconds(20))
  const other = await newSender(flow)
  const before = order.length
  await other.send('single@one.test')
  for (let second = 0; second < 30 && !order.some((line) => line.includes('single@')); second++) await pass(seconds(1))
  const place = order.findIndex((line) => line.includes('single@')) - before
  expect(place).toBeGreaterThanOrEqual(0)
  expect(place).toBeLessThanOrEqual(2)
  expect(countOpen(flow)).toBeGreaterThan(80)
}, 120_000)

test('a probe that ends before it begins lets the next lane probe at once', async () => {
  let isBlocked = true
  const seen: string[] = []
  await using server = await startScriptedSmtp({
    mail: () => (isBlocked ? '421 4.7.0 Try again later' : '250 2.1.0 ok'),
    rcpt: (line) => {
      seen.push(line)
      return '250 2.1.5 ok'
    },
  })
  await using provider = await startFlow('connections = 5', { smtpPort: server.port })
  const { flow, clock, pass } = provider
  await flow.send({ to: 'first@one.test' })
  const pairs = () => flow.service.delivery?.scheduler.pairs
  await eventually(() =>
    pairs()
      ?.all()
      .some(({ state }) => state.suspension),
  )
  await flow.send({ to: 'gone@three.test' })
  await flow.send({ to: 'next@two.test' })
  await settleDown(flow)
  flow.app.db.run("UPDATE recipients SET expires_at = 1 WHERE address = 'gone@three.test'")
  isBlocked = false
  const { commit } = flow.app
  const write = commit.writeFromReserve.bind(commit)
  let isFirst = true
  // Other mail ends its turn while the probe is being claimed, so the slots are offered while none may begin.
  commit.writeFromReserve = async (run) => {
    const pair = pairs()
      ?.all()
      .find(({ state }) => state.suspension)
    if (isFirst && pair && pair.msUntilAllowed({ now: clock.now(), monotonicMs: clock.monotonicMs() }) === undefined) {
      isFirst = false
      flow.app.mailDue.emit({ lane: `${flow.actor.accountId}:nothing.test`, at: clock.now() })
      await Bun.sleep(50)
    }
    return write(run)
  }
  await pass(seconds(30))
  expect(isFirst).toBe(false)
  await eventually(() => seen.some((line) => line.includes('next@two.test')))
})
