/**
 * @module Accounts share delivery slots and memory: whatever silent servers one account sends to, mail of others is
 * delivered.
 */
import { describe, expect, test } from 'bun:test'
import { MiB, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { ownHosts } from '#test/support/dns-server.ts'
import { laneStates } from '#test/support/lanes.ts'
import { type MailFlow, type MailFlowOptions, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { newSender, recipientsOf } from './flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)

const createDomains = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}.test`)

interface SilentServer extends AsyncDisposable {
  readonly port: number
  /** Waiting sessions. */
  readonly waiting: number
  /** Ends the silence: waiting messages are accepted. */
  speak(): void
}

/** A server that is silent at a step in sessions whose RCPT contains `silent`, and accepts all other mail. */
async function startSilentServer(step: 'rcpt' | 'body'): Promise<SilentServer> {
  const { promise: spoken, resolve: speak } = Promise.withResolvers<void>()
  let waiting = 0
  const server = await startScriptedSmtp({
    [step]: async (line: string, { commands }: { readonly commands: readonly string[] }) => {
      const rcpt = step === 'rcpt' ? line : (commands.findLast((command) => command.startsWith('RCPT')) ?? '')
      if (!rcpt.includes('silent')) return '250 2.0.0 Ok'
      waiting++
      await spoken
      waiting--
      return '250 2.0.0 Ok'
    },
  })
  return {
    port: server.port,
    get waiting() {
      return waiting
    },
    speak,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

/** Another account with a sending domain, or a sub-account of the newest one; returns its function that sends. */
async function newAccount(flow: MailFlow, name: string, { isSubAccount = false, text = 'Hi' } = {}) {
  const { db } = flow.app
  const parentId = db.query<{ id: number }, []>('SELECT max(coalesce(parent_id, id)) AS id FROM accounts').get()?.id
  const { actor, send } = await newSender(flow, `${name}.test`, { text_body: text })
  if (isSubAccount) db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parentId ?? 0, actor.accountId])
  return send
}

/** A flow of two Workers and twenty slots to a server at these domains. */
const startCrowded = (server: Pick<SilentServer, 'port'>, domains: readonly string[], options: MailFlowOptions = {}) =>
  startMailFlow({
    zone: ownHosts(...domains),
    smtpPort: server.port,
    settings: { TASSIS_WORKERS: '2' },
    deliveryConcurrency: 20,
    ...options,
  })

async function end(server: SilentServer, flow: MailFlow): Promise<void> {
  server.speak()
  await eventually(() =>
    recipientsOf(flow, 'silent').every(({ status }) => status !== 'processing' && status !== 'queued'),
  )
  expectBalanced(flow.service)
}

const countInFlight = (flow: MailFlow, domain: string): number =>
  recipientsOf(flow, domain).filter(({ status }) => status === 'processing').length

/** Counts the lanes that wait for a free slot. */
const countSlotWaits = ({ service }: MailFlow): number =>
  laneStates(service).filter(({ reason }) => reason.startsWith('waits for a free slot')).length

describe('while an account sends to silent servers', () => {
  // Proves: delivery-22
  test('it gets half of all slots, and mail of others is delivered', async () => {
    await using server = await startSilentServer('body')
    const silent = createDomains('silent', 40)
    const others = createDomains('good', 5)
    await using flow = await startCrowded(server, [...others, ...silent])
    const attack = await newAccount(flow, 'attacker')
    await attack(...silent.map((domain) => `bob@${domain}`))
    await eventually(() => countInFlight(flow, 'silent') === 10)
    for (const domain of others) {
      const sent = await flow.send({ to: `bob@${domain}` })
      expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    }
    expect([countInFlight(flow, 'silent'), flow.service.delivery?.scheduler.inFlight]).toEqual([10, 10])
    await end(server, flow)
  })

  // Proves: delivery-22
  test('its sub-accounts have no slots of their own', async () => {
    await using server = await startSilentServer('body')
    const silent = createDomains('silent', 20)
    await using flow = await startCrowded(server, silent)
    for (const name of ['parent', 'child']) {
      const attack = await newAccount(flow, name, { isSubAccount: name === 'child' })
      await attack(...silent.map((domain) => `${name}@${domain}`))
      await eventually(() => countInFlight(flow, 'silent') === 10)
    }
    await eventually(() => countSlotWaits(flow) === 30)
    expect(countInFlight(flow, 'silent')).toBe(10)
    await end(server, flow)
  })
})

// Proves: delivery-22
test('100 messages of an account to a domain do not delay one of another account to the same domain', async () => {
  const { promise: spoken, resolve: speak } = Promise.withResolvers<void>()
  const begun: string[] = []
  await using server = await startScriptedSmtp({
    rcpt: (line) => {
      begun.push(/<([^@]*)@/.exec(line)?.[1] ?? '')
      return '250 2.1.5 Ok'
    },
    body: async () => {
      await spoken
      return '250 2.0.0 Ok'
    },
  })
  await using flow = await startMailFlow({
    zone: ownHosts('shared.test'),
    smtpPort: server.port,
    settings: siteLimits({ connections: 1 }),
  })
  const sendMuch = await newAccount(flow, 'busy')
  await sendMuch(...Array.from({ length: 100 }, (_, i) => `many${i}@shared.test`))
  await eventually(() => countInFlight(flow, 'shared') === 2 && begun.length === 1)
  const sent = await flow.send({ to: 'one@shared.test' })
  await eventually(() =>
    laneStates(flow.service).some(
      ({ lane, reason }) => lane.startsWith(`${flow.actor.accountId}:`) && reason.startsWith('waits for a connection'),
    ),
  )
  speak()
  expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
  await eventually(() => recipientsOf(flow, 'shared').every(({ status }) => status === 'sent'))
  expect(begun.indexOf('one')).toBeLessThan(6)
  expectBalanced(flow.service)
})

/** Over 1 MiB. It uses twice that in memory: the limit of an account when the budget is 16 MiB. */
const LARGE_TEXT = 'A line of a long letter.\n'.repeat(MiB / 25 + 1)
const SMALL = { settings: { TASSIS_WORKERS: '2', TASSIS_MEMORY_BUDGET: '16 MiB' }, deliveryConcurrency: 500 }

const countBegun = (flow: MailFlow): number =>
  recipientsOf(flow).filter(({ status, started }) => status === 'processing' && started !== null).length

describe('while large messages wait for silent servers', () => {
  test('sub-accounts of one parent share the memory of one account, and large mail of others is delivered', async () => {
    await using server = await startSilentServer('body')
    const silent = createDomains('silent', 4)
    await using flow = await startCrowded(server, ['good.test', ...silent], SMALL)
    for (const [index, domain] of silent.entries()) {
      const attack = await newAccount(flow, `family${index}`, { isSubAccount: index > 0, text: LARGE_TEXT })
      await attack(`bob@${domain}`)
      await eventually(() => countInFlight(flow, 'silent') === index + 1 && countBegun(flow) >= 1)
    }
    const sent = await flow.send({ to: 'bob@good.test', text_body: LARGE_TEXT })
    expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    expect(countBegun(flow)).toBe(1)
    await end(server, flow)
  })

  test('an attempt whose memory others wait for is ended after two minutes and the time for its octets', async () => {
    await using server = await startSilentServer('body')
    const clock = new ManualClock(START)
    const silent = createDomains('silent', 4)
    await using flow = await startCrowded(server, ['good.test', ...silent], { ...SMALL, clock })
    for (const domain of silent) {
      const attack = await newAccount(flow, `sender-to-${domain.replace('.test', '')}`, { text: LARGE_TEXT })
      await attack(`bob@${domain}`)
    }
    // Three use nearly all memory for deliveries; the fourth waits like others.
    await eventually(() => countBegun(flow) >= 3)
    const sent = await flow.send({ to: 'bob@good.test', text_body: LARGE_TEXT })
    await eventually(() => countInFlight(flow, 'good') === 1)
    clock.advance(minutes(2) + seconds(10))
    await flow.settled(await flow.send({ to: 'small@good.test' }))
    expect(recipientsOf(flow, 'silent').every(({ status }) => status === 'processing')).toBe(true)
    clock.advance(seconds(15))
    expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    await eventually(() => recipientsOf(flow, 'silent').filter(({ status }) => status === 'uncertain').length === 3)
    await end(server, flow)
  })

  test('an attempt whose message has not begun is ended after a minute if large mail of its account waits for memory', async () => {
    await using server = await startSilentServer('rcpt')
    const clock = new ManualClock(START)
    await using flow = await startCrowded(server, ['good.test', 'silent.test'], { ...SMALL, clock })
    await flow.send({ to: 'bob@silent.test', text_body: LARGE_TEXT })
    await eventually(() => server.waiting === 1)
    clock.advance(minutes(5))
    await flow.app.commit.barrier()
    expect(countInFlight(flow, 'silent')).toBe(1)
    const sent = await flow.send({ to: 'bob@good.test', text_body: LARGE_TEXT })
    await eventually(() => countInFlight(flow, 'good') === 1)
    // In steps, because the message begins to wait for memory only some time after its status is `processing`; and no
    // further, because the ended attempt is retried after a minute.
    await eventually(() => {
      if (countInFlight(flow, 'silent') === 0) return true
      clock.advance(seconds(1))
      return false
    })
    expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    expect(recipientsOf(flow, 'silent')).toMatchObject([{ status: 'queued', attempts: 1 }])
    server.speak()
  })
})

describe('an attempt whose slot other mail waits for', () => {
  test('is ended while it dials, and causes no backoff of the site', async () => {
    const { promise: spoken, resolve: speak } = Promise.withResolvers<void>()
    let waiting = 0
    await using server = await startScriptedSmtp({
      greeting: async () => {
        waiting++
        await spoken
        return '220 slow.test'
      },
    })
    const clock = new ManualClock(START)
    const slow = createDomains('slow', 12)
    await using flow = await startCrowded(server, slow, { clock })
    const sendMuch = await newAccount(flow, 'busy')
    await sendMuch(...slow.map((domain) => `bob@${domain}`))
    await eventually(() => waiting === 10 && countSlotWaits(flow) === 2)
    clock.advance(seconds(65))
    await eventually(() => recipientsOf(flow, 'slow').filter(({ lastError }) => lastError !== null).length === 10)
    expect(recipientsOf(flow, 'slow')[0]).toMatchObject({
      status: 'queued',
      attempts: 1,
      lastError: 'The connection was lost: The server took too long while most capacity for deliveries was in use',
    })
    speak()
    const sent = await flow.send({ to: 'ann@slow0.test' })
    expect((await flow.settled(sent)).recipients).toMatchObject([{ status: 'sent', attempts: 1 }])
    await eventually(() => flow.service.delivery?.scheduler.inFlight === 0)
    expectBalanced(flow.service)
  })

  // Proves: delivery-23
  test('waits a minute for a silent server before its message begins, and is retried later', async () => {
    await using server = await startSilentServer('rcpt')
    const clock = new ManualClock(START)
    const silent = createDomains('silent', 12)
    await using flow = await startCrowded(server, silent, { clock })
    const attack = await newAccount(flow, 'attacker')
    await attack(...silent.map((domain) => `bob@${domain}`))
    await eventually(() => server.waiting === 10 && countSlotWaits(flow) === 2)
    clock.advance(seconds(50))
    await flow.app.commit.barrier()
    expect(countInFlight(flow, 'silent')).toBe(10)
    clock.advance(seconds(15))
    // The others get the slots of those that were ended.
    await eventually(() => recipientsOf(flow, 'silent').every(({ attempts }) => attempts > 0))
    await eventually(() => recipientsOf(flow, 'silent').filter(({ lastError }) => lastError !== null).length === 10)
    expect(recipientsOf(flow, 'silent')[0]).toMatchObject({
      status: 'queued',
      attempts: 1,
      lastError: 'The connection was lost: The server took too long while most capacity for deliveries was in use',
    })
    server.speak()
    await eventually(() => flow.service.delivery?.scheduler.inFlight === 0)
    expectBalanced(flow.service)
  })

  // Proves: delivery-23
  test('is uncertain after two minutes without a reply to the final dot, but only while slots are scarce', async () => {
    await using server = await startSilentServer('body')
    const clock = new ManualClock(START)
    const silent = createDomains('silent', 30)
    await using flow = await startCrowded(server, silent, { clock })
    const attack = async (name: string) => {
      const send = await newAccount(flow, name)
      await send(...silent.map((domain) => `${name}@${domain}`))
    }
    await attack('first')
    await eventually(() => countBegun(flow) === 10)
    clock.advance(minutes(5))
    await flow.app.commit.barrier()
    expect(countBegun(flow)).toBe(10)
    await attack('second')
    await attack('third')
    await eventually(() => countBegun(flow) >= 16)
    await eventually(() => {
      clock.advance(seconds(5))
      return recipientsOf(flow, 'first@silent').some(({ status }) => status === 'uncertain')
    })
    const [cut] = recipientsOf(flow, 'first@silent').filter(({ status }) => status === 'uncertain')
    expect(cut).toMatchObject({
      status: 'uncertain',
      attempts: 1,
      lastError:
        'The connection was lost after the message began, so the receiver may have it: The server took too long while most capacity for deliveries was in use',
    })
    server.speak()
  })
})
