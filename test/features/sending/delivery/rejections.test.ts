import { describe, expect, test } from 'bun:test'
import { findSiteRejection } from '#features/sending/delivery/verdict/replies.ts'
import { seconds } from '#platform/units.ts'
import { makeReply } from '#protocols/smtp/replies.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { laneStates } from '#test/support/lanes.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { drain, recipientsOf } from './flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const DOMAIN = 'receiver.test'

/** The domain with hosts at 127.0.0.1, .2, …, each with its own preference. */
const createZone = (hosts: number) => ({
  [DOMAIN]: { MX: Array.from({ length: hosts }, (_, i) => ({ preference: i, exchange: `mx${i}.${DOMAIN}` })) },
  ...Object.fromEntries(Array.from({ length: hosts }, (_, i) => [`mx${i}.${DOMAIN}`, { A: [`127.0.0.${i + 1}`] }])),
})

describe('a pause of a receiver', () => {
  const refusals: [string, SmtpScript][] = [
    ['MAIL', { mail: '421 4.7.0 Try again later' }],
    ['the final dot', { body: '421 4.7.0 Try again later' }],
    ['MAIL, without 421', { mail: '451 4.7.500 Server busy. Please try again later' }],
    ['RCPT, of the sending address', { rcpt: '451 4.7.650 The mail server has been temporarily rate limited' }],
  ]
  // Proves: delivery-3
  test.each(refusals)('begins after a rejection at %s: 100 messages cause few connections', async (_, script) => {
    const clock = new ManualClock(START)
    await using server = await startScriptedSmtp(script)
    await using flow = await startMailFlow({ clock, zone: createZone(1), smtpPort: server.port })
    await Promise.all(Array.from({ length: 100 }, (_, i) => flow.send({ to: `r${i}@${DOMAIN}` })))
    const rests = () =>
      /is suspended until|is in backoff until|messages a minute/.test(laneStates(flow.service)[0]?.reason ?? '')
    await eventually(rests)
    for (let second = 0; second < 12; second++) {
      // On a busy machine the clock would pass faster than the replies arrive, and more attempts would begin before them.
      await eventually(() => flow.service.delivery?.scheduler.inFlight === 0)
      clock.advance(seconds(1))
      await flow.app.commit.barrier()
    }
    const waiting = recipientsOf(flow).filter(({ status, attempts }) => status === 'queued' && attempts === 0)
    expect(waiting.length).toBeGreaterThanOrEqual(90)
    // Of messages that were claimed before the first rejection, and of the few that a halved rate lets through.
    expect(server.sessions.length).toBeLessThanOrEqual(6)
    await eventually(rests)
    expectBalanced(flow.service)
  })

  const spared: [string, SmtpScript][] = [
    ['450 4.2.1 of a mailbox', { rcpt: '450 4.2.1 The user is receiving mail too quickly' }],
    ['451 4.7.1 to the final dot', { body: '451 4.7.1 Service unavailable - try again later' }],
  ]
  // Proves: delivery-3
  test.each(spared)(
    'does not begin after a %s: first attempts of other recipients are not held up',
    async (_, script) => {
      const clock = new ManualClock(START)
      await using server = await startScriptedSmtp(script)
      await using flow = await startMailFlow({ clock, zone: createZone(1), smtpPort: server.port })
      const sent = await Promise.all(Array.from({ length: 10 }, (_, i) => flow.send({ to: `r${i}@${DOMAIN}` })))
      for (const one of sent)
        expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'queued', attempts: 1 }])
      expectBalanced(flow.service)
    },
  )

  test('ends with a successful attempt; mail that was not attempted before is delivered then', async () => {
    const clock = new ManualClock(START)
    let isBusy = true
    await using server = await startScriptedSmtp({
      mail: () => (isBusy ? '421 4.7.0 Try again later' : '250 2.1.0 ok'),
    })
    await using flow = await startMailFlow({ clock, zone: createZone(1), smtpPort: server.port })
    const sent = await Promise.all(Array.from({ length: 20 }, (_, i) => flow.send({ to: `r${i}@${DOMAIN}` })))
    await eventually(() => laneStates(flow.service)[0]?.reason.includes('is suspended until'))
    isBusy = false
    await drain(flow, clock)
    for (const one of sent) expect((await flow.settled(one)).recipients).toMatchObject([{ status: 'sent' }])
    expectBalanced(flow.service)
  })
})

// Proves: delivery-3
test.each([
  ['421 4.3.2 bye', 'rcpt', true],
  ['421 bye', 'body', true],
  ['450 4.7.1 Client host rejected', 'mail', true],
  ['450 4.7.1 Client host rejected', 'rcpt', false],
  ['451 4.7.1 Service unavailable', 'data', false],
  ['450 4.7.0 Graylisted', 'mail', false],
  ['450 4.7.0 You are grey listed', 'mail', false],
  ['451 4.3.0 later', 'mail', false],
  ['451 later', 'mail', false],
  ['554 5.7.1 No', 'mail', false],
] as const)('%s at %s rejects the connection, not only this mail: %p', (line, phase, expected) => {
  const reply = makeReply(Number(line.slice(0, 3)), [line.slice(4)])
  expect(findSiteRejection({ kind: 'refused', phase, reply }) !== undefined).toBe(expected)
})

describe('a host that rejects with a 4xx', () => {
  /** Servers at 127.0.0.1, .2, … on one port. */
  async function startHosts(scripts: readonly SmtpScript[]) {
    const first = await startScriptedSmtp(scripts[0])
    const others = await Promise.all(
      scripts.slice(1).map((script, i) => startScriptedSmtp(script, { address: `127.0.0.${i + 2}`, port: first.port })),
    )
    const servers = [first, ...others]
    return {
      port: first.port,
      sessions: () => servers.map(({ sessions }) => sessions.length),
      messages: () => servers.map(({ sessions }) => sessions.reduce((sum, { messages }) => sum + messages.length, 0)),
      async [Symbol.asyncDispose]() {
        for (const server of servers) await server[Symbol.asyncDispose]()
      },
    }
  }

  // Proves: delivery-2
  test.each([
    ['MAIL', { mail: '451 4.3.0 Local problem' }],
    ['DATA', { data: '451 4.3.0 Local problem' }],
    ['MAIL, throttled', { mail: '421 4.7.0 Try again later' }],
  ] as [string, SmtpScript][])('at %s is followed by the next, within the same attempt', async (_, script) => {
    await using hosts = await startHosts([script, {}])
    await using flow = await startMailFlow({ zone: createZone(2), smtpPort: hosts.port })
    const { recipient, events } = await flow.outcome(`bob@${DOMAIN}`)
    expect(recipient).toMatchObject({ status: 'sent', attempts: 1 })
    expect(events.map(({ type }) => type)).toEqual(['sent', 'delivered'])
    expect(hosts.messages()).toEqual([0, 1])
    expectBalanced(flow.service)
  })

  // Proves: delivery-2
  test('and two more like it defer the mail, with the reply of the last', async () => {
    await using hosts = await startHosts(
      [1, 2, 3, 4, 5].map((n): SmtpScript => ({ rcpt: `450 4.2.0 Greylisted by ${n}` })),
    )
    await using flow = await startMailFlow({ zone: createZone(5), smtpPort: hosts.port })
    const { recipient, events } = await flow.outcome(`bob@${DOMAIN}`)
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1, smtpResponse: '450 4.2.0 Greylisted by 3' })
    expect(events.map(({ type }) => type)).toEqual(['deferred'])
    expect(hosts.sessions()).toEqual([1, 1, 1, 0, 0])
    expectBalanced(flow.service)
  })

  test('is followed by one that accepts no connection: the rejection is reported, and no backoff begins', async () => {
    await using hosts = await startHosts([{ rcpt: '450 4.2.0 Greylisted' }])
    // No server listens at the second address.
    await using flow = await startMailFlow({ zone: createZone(2), smtpPort: hosts.port })
    expect((await flow.outcome(`bob@${DOMAIN}`)).recipient).toMatchObject({ smtpResponse: '450 4.2.0 Greylisted' })
    expect((await flow.outcome(`ann@${DOMAIN}`)).recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expectBalanced(flow.service)
  })

  // Proves: delivery-2
  test('is followed by one whose 5xx is final; a 5xx of the first host is final, too', async () => {
    await using hosts = await startHosts([
      { rcpt: (line) => (line.includes('soft') ? '450 4.2.0 Later' : '550 5.1.1 User unknown') },
      { rcpt: '550 5.1.1 User unknown' },
    ])
    await using flow = await startMailFlow({ zone: createZone(2), smtpPort: hosts.port })
    expect((await flow.outcome(`hard@${DOMAIN}`)).recipient).toMatchObject({ status: 'bounced' })
    expect(hosts.sessions()).toEqual([1, 0])
    expect((await flow.outcome(`soft@${DOMAIN}`)).recipient).toMatchObject({ status: 'bounced' })
    expect(hosts.sessions()[1]).toBe(1)
    expectBalanced(flow.service)
  })

  // Proves: delivery-2
  test('at the final dot is final: no other host is tried, because the message was transferred', async () => {
    await using hosts = await startHosts([{ body: '451 4.3.0 Later' }, {}])
    await using flow = await startMailFlow({ zone: createZone(2), smtpPort: hosts.port })
    expect((await flow.outcome(`bob@${DOMAIN}`)).recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expect(hosts.messages()).toEqual([1, 0])
    expectBalanced(flow.service)
  })

  // Proves: delivery-2
  test('for some recipients only is followed by the next for these, and each recipient is served once', async () => {
    await using hosts = await startHosts([
      { rcpt: (line) => (/even/.test(line) ? '250 2.1.5 ok' : '452 4.5.3 Too many recipients') },
      {},
    ])
    await using flow = await startMailFlow({ zone: createZone(2), smtpPort: hosts.port })
    const to = Array.from({ length: 20 }, (_, i) => `${i % 2 ? 'odd' : 'even'}${i}@${DOMAIN}`)
    const email = await flow.settled(await flow.send({ to }))
    expect(email.recipients.every(({ status, attempts }) => status === 'sent' && attempts === 1)).toBe(true)
    expect(hosts.messages()).toEqual([10, 10])
    expectBalanced(flow.service)
  })
})
