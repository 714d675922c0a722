import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { computeRetryDelayMs } from '#features/sending/delivery/verdict/outcome.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { advanceUntil } from '#test/support/delivery-time.ts'
import { createFolder } from '#test/support/folder.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { greylist, type Misbehaving, reactAt, reactFirst, startMisbehaving } from '#test/support/misbehaving.ts'
import type { React, ReceiverOptions } from '#test/support/receiver.ts'

const BOB = 'bob@receiver.test'
const ZONE = { 'receiver.test': { A: ['127.0.0.1'] } }

interface Expected {
  readonly status: 'sent' | 'queued' | 'bounced' | 'uncertain'
  /** The category of the event. */
  readonly category?: string
  readonly bounceType?: 'hard' | 'soft'
  readonly connections?: number
  /** Final dots that the receiver saw. */
  readonly dots: number
  readonly tls?: RegExp
}

const EVENTS: Readonly<Record<Expected['status'], readonly string[]>> = {
  sent: ['sent', 'delivered'],
  queued: ['deferred'],
  bounced: ['bounced'],
  uncertain: ['uncertain'],
}

interface Pair extends AsyncDisposable {
  readonly receiver: Misbehaving
  readonly flow: MailFlow
  readonly clock: ManualClock
  react: React
}

/** A receiver that misbehaves as a test says, and a service that sends to it. */
async function startPair(tls?: ReceiverOptions['tls']): Promise<Pair> {
  const clock = new ManualClock()
  const polite: React = () => undefined
  const receiver = await startMisbehaving({ ...(tls && { tls }), react: (at) => pair.react(at) })
  const flow = await startMailFlow({ smtpPort: receiver.port, clock })
  const pair: Pair = {
    receiver,
    flow,
    clock,
    react: polite,
    async [Symbol.asyncDispose]() {
      await flow[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
    },
  }
  return pair
}

let domains = 0

/** Sends one message and compares everything that its sender and the receiver can see. */
async function expectOutcome(
  pair: Pair,
  react: React,
  { status, category, bounceType, connections = 1, dots, tls }: Expected,
): Promise<void> {
  const { receiver, flow, clock } = pair
  // What is remembered of a host, such as a backoff, does not concern the next test.
  const domain = `r${++domains}.test`
  flow.dns.zone[domain] = { A: ['127.0.0.1'] }
  pair.react = react
  const seen = () => ({ connections: receiver.connections, dots: receiver.messages.length })
  const before = seen()
  const sent = await flow.send({ to: `bob@${domain}` })
  const [recipient] = (await flow.settled(sent)).recipients
  if (!recipient) throw new Error('the email has no recipient')
  const events = flow.events(sent).slice(1)
  expect({ status: recipient.status, attempts: recipient.attempts }).toEqual({ status, attempts: 1 })
  expect(events.map(({ type }) => type)).toEqual([...EVENTS[status]])
  const data = events.at(-1)?.data ?? {}
  expect(data['bounce_category' as never]).toBe(category as never)
  expect(recipient.bounceType).toBe(bounceType ?? null)
  if (tls) expect(data['tls' as never]).toMatch(tls)
  const after = { connections: before.connections + connections, dots: before.dots + dots }
  expect(seen()).toEqual(after)
  expectNextTime(recipient.nextAt, clock.now(), status)
  if (status === 'queued') {
    pair.react = () => undefined
    await advanceUntil(clock, flow.service, () => flow.events(sent).at(-1)?.type === 'delivered', minutes(10))
  } else {
    // Days later it has caused no other connection. What is remembered of the address has ended, too.
    clock.advance(days(3))
    // Another message through the same queue shows that what was due has begun.
    await flow.outcome('carol@sim.mail.tassis.test')
    expect(seen()).toEqual(after)
  }
  expectBalanced(flow.service)
}

/** A deferred message is due again within the delay of the first retry; others are never due. */
function expectNextTime(nextAt: number | null, now: number, status: Expected['status']): void {
  if (status !== 'queued') {
    expect(nextAt).toBeNull()
    return
  }
  expect(nextAt).toBeGreaterThanOrEqual(now + computeRetryDelayMs(1, 0))
  expect(nextAt).toBeLessThanOrEqual(now + computeRetryDelayMs(1, 1))
}

describe('a receiver that', () => {
  let pair: Pair
  beforeAll(async () => {
    pair = await startPair()
  })
  afterAll(() => pair[Symbol.asyncDispose]())

  test.each(['banner', 'ehlo', 'mail', 'rcpt', 'data'] as const)('ends the session with 421 at %s', (step) =>
    expectOutcome(pair, reactAt(step, { reply: '421 4.3.2 Service shutting down', end: 'close' }), {
      status: 'queued',
      category: 'unknown',
      dots: 0,
    }),
  )
  test('ends the session with 421 at the final dot', () =>
    expectOutcome(pair, reactAt('dot', { reply: '421 4.3.2 Service shutting down', end: 'close' }), {
      status: 'queued',
      category: 'unknown',
      dots: 1,
    }))
  test('offers PIPELINING and answers 354 although it rejected the recipient gets no empty message', () =>
    expectOutcome(
      pair,
      ({ step }) => (step === 'rcpt' ? '550 5.1.1 User unknown' : step === 'data' ? '354 Go ahead' : undefined),
      { status: 'bounced', category: 'invalid_recipient', bounceType: 'hard', dots: 0 },
    ))
  test('answers each step after a delay', () =>
    expectOutcome(pair, () => ({ delayMs: 30 }), { status: 'sent', dots: 1 }))

  test.each([
    ['banner', 'close', 'queued', 0],
    ['banner', 'reset', 'queued', 0],
    ['ehlo', 'close', 'queued', 0],
    ['ehlo', 'reset', 'queued', 0],
    ['mail', 'close', 'queued', 0],
    ['mail', 'reset', 'queued', 0],
    ['rcpt', 'close', 'queued', 0],
    ['rcpt', 'reset', 'queued', 0],
    ['data', 'close', 'queued', 0],
    ['data', 'reset', 'queued', 0],
    ['body', 'close', 'uncertain', 0],
    ['body', 'reset', 'uncertain', 0],
    ['dot', 'close', 'uncertain', 1],
    ['dot', 'reset', 'uncertain', 1],
  ] as const)('closes at %s (%s)', (step, end, status, dots) =>
    expectOutcome(pair, reactAt(step, { end }), {
      status,
      ...(status === 'queued' && { category: 'connection_failure' }),
      dots,
    }),
  )
  test('closes inside its reply to the final dot', () =>
    expectOutcome(pair, reactAt('dot', { reply: Buffer.from('250-2.0.0 Que'), end: 'close' }), {
      status: 'uncertain',
      dots: 1,
    }))
  test.each(['close', 'reset'] as const)('ends the connection right after the 250 (%s)', (end) =>
    expectOutcome(pair, reactAt('dot', { reply: '250 2.0.0 Queued as 1', end }), { status: 'sent', dots: 1 }),
  )

  test.each([
    ['mail', '550 5.7.1 <b@sender.test>: Sender address rejected', 'policy', 'soft', 'bounced'],
    ['mail', '501 5.1.7 Invalid address', 'policy', 'soft', 'bounced'],
    ['rcpt', '550 5.7.1 Try again later', 'rate_limited', 'soft', 'queued'],
    ['dot', '554 5.7.1 [HM08] Message rejected due to local policy', 'policy', 'soft', 'bounced'],
    ['dot', '550 5.7.26 Unauthenticated email is not accepted', 'authentication', 'soft', 'bounced'],
    ['rcpt', '550 5.1.1 <bob@receiver.test>: User unknown', 'invalid_recipient', 'hard', 'bounced'],
    ['data', '554 5.6.0 Message content rejected', 'spam_content', 'soft', 'bounced'],
    ['dot', '554 5.6.0 Message content rejected', 'spam_content', 'soft', 'bounced'],
    ['dot', '552 5.3.4 Message size exceeds limit', 'message_too_large', 'soft', 'bounced'],
  ] as const)('rejects at %s: %s', (step, reply, category, bounceType, status) =>
    expectOutcome(pair, reactAt(step, reply), {
      status,
      category,
      ...(status === 'bounced' && { bounceType }),
      dots: step === 'dot' ? 1 : 0,
    }),
  )

  test.each([
    ['banner', 'queued', 0],
    ['ehlo', 'queued', 0],
    ['mail', 'queued', 0],
    ['rcpt', 'queued', 0],
    ['data', 'queued', 0],
    ['dot', 'uncertain', 1],
  ] as const)('sends garbage at %s', (step, status, dots) =>
    expectOutcome(pair, reactAt(step, { reply: Buffer.from('\x00\xff\xfeHTTP/1.1 200 OK\r\n\r\n', 'latin1') }), {
      status,
      ...(status === 'queued' && { category: 'connection_failure' }),
      dots,
    }),
  )
  test.each([
    ['ehlo', 'queued', 0],
    ['rcpt', 'queued', 0],
    ['dot', 'uncertain', 1],
  ] as const)('sends a line of 100 kB at %s', (step, status, dots) =>
    expectOutcome(pair, reactAt(step, `250 ${'x'.repeat(100_000)}`), {
      status,
      ...(status === 'queued' && { category: 'connection_failure' }),
      dots,
    }),
  )
  test.each([
    ['banner', '220-welcome', 'queued', 0],
    ['ehlo', '250-SIZE', 'queued', 0],
    ['rcpt', '250-more', 'queued', 0],
    ['dot', '250-more', 'uncertain', 1],
  ] as const)('never ends its reply at %s', (step, reply, status, dots) =>
    expectOutcome(pair, reactAt(step, { reply, end: 'endless' }), {
      status,
      ...(status === 'queued' && { category: 'connection_failure' }),
      dots,
    }),
  )
})

describe('a receiver with TLS that', () => {
  const authority = createCertificateAuthority()
  const bad = authority.issue(['other.test'])
  let pair: Pair
  beforeAll(async () => {
    pair = await startPair(bad)
  })
  afterAll(() => pair[Symbol.asyncDispose]())

  test('has a certificate of another name gets the mail encrypted', () =>
    expectOutcome(pair, () => undefined, { status: 'sent', dots: 1, tls: /^TLSv1\.3 .*certificate not verified/ }))
  test('has an expired certificate gets the mail encrypted', async () => {
    await using own = await startPair(authority.issue(['receiver.test'], { notAfter: new Date(Date.UTC(2021, 0, 1)) }))
    await expectOutcome(own, () => undefined, {
      status: 'sent',
      dots: 1,
      tls: /^TLSv1\.3 .*certificate not verified/,
    })
  })
  test('rejects STARTTLS gets the mail in clear over the same connection', () =>
    expectOutcome(pair, reactAt('starttls', '454 4.7.0 TLS not available'), { status: 'sent', dots: 1, tls: /^none/ }))
  // Proves: delivery-9
  test.each([
    '220 Go ahead\r\n250 Injected',
    '220 Go ahead\r\n250-mx.receiver.test\r\n250 SIZE 1000000',
    '220 Go ahead\r\n500 Command unknown\r\n',
  ])('goes on in clear after its 220 (%j) gets the mail in clear over a second connection', (reply) =>
    expectOutcome(pair, reactAt('starttls', reply), {
      status: 'sent',
      connections: 2,
      dots: 1,
      tls: /^none: handshake failed/,
    }),
  )
  test('goes on in clear after its 220 gets nothing where TLS is required', async () => {
    using folder = createFolder({ 'providers.toml': '[strict]\nmx = ["receiver.test"]\ntls = "required"\n' })
    await using receiver = await startMisbehaving({ tls: bad, react: reactAt('starttls', '220 Go ahead\r\n250 Clear') })
    const settings = { TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml') }
    const zone = {
      'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
      'mx.receiver.test': { A: ['127.0.0.1'] },
    }
    await using flow = await startMailFlow({ zone, smtpPort: receiver.port, settings, clock: new ManualClock() })
    const { recipient, events } = await flow.outcome(BOB)
    expect(recipient.status).toBe('queued')
    expect(events).toMatchObject([{ type: 'deferred', data: { bounce_category: 'tls_failure' } }])
    expect({ connections: receiver.connections, dots: receiver.messages.length }).toEqual({ connections: 1, dots: 0 })
  })
  test.each([{ end: 'close' }, { end: 'reset' }, { reply: Buffer.from('not TLS\r\n') }] as const)(
    'breaks the handshake (%j) gets the mail in clear over a second connection',
    (reaction) =>
      expectOutcome(pair, reactAt('handshake', reaction), {
        status: 'sent',
        connections: 2,
        dots: 1,
        tls: /^none: handshake failed/,
      }),
  )
})

test('a receiver that greylists gets the message at the second attempt, from the same sender, once', async () => {
  const clock = new ManualClock()
  await using receiver = await startMisbehaving({ react: greylist() })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const sent = await flow.send({ to: BOB })
  const [first] = (await flow.settled(sent)).recipients
  expect(first).toMatchObject({ status: 'queued', attempts: 1 })
  expect(flow.events(sent).at(-1)).toMatchObject({ type: 'deferred', data: { bounce_category: 'rate_limited' } })
  clock.advance(hours(1))
  const email = await eventually(async () => {
    const settled = await flow.settled(sent)
    return settled.status === 'sent' ? settled : undefined
  })
  expect(email.recipients[0]).toMatchObject({ attempts: 2 })
  expect(flow.events(sent).map(({ type }) => type)).toEqual(['queued', 'deferred', 'sent', 'delivered'])
  expect(receiver.receivedBy(BOB)).toBe(1)
  expectBalanced(flow.service)
})

describe('the first MX of two', () => {
  const zone = {
    'receiver.test': {
      MX: [
        { preference: 10, exchange: 'mx1.receiver.test' },
        { preference: 20, exchange: 'mx2.receiver.test' },
      ],
    },
    'mx1.receiver.test': { A: ['127.0.0.2'] },
    'mx2.receiver.test': { A: ['127.0.0.1'] },
  }

  // Proves: delivery-1
  test.each([
    ['is down', undefined, 0],
    ['rejects all connections', reactAt('banner', { reply: '554 5.3.2 No SMTP service here', end: 'close' }), 1],
    ['resets all connections', reactAt('banner', { end: 'reset' }), 1],
    ['breaks down at EHLO', reactAt('ehlo', { end: 'close' }), 1],
    ['breaks down at RCPT', reactAt('rcpt', '451 4.3.0 Internal error'), 1],
    ['breaks down at DATA', reactAt('data', { end: 'reset' }), 1],
  ] as const)('%s: the second gets the message in the same attempt', async (_, react, connections) => {
    await using second = await startMisbehaving()
    await using first = react ? await startMisbehaving({ react, address: '127.0.0.2', port: second.port }) : undefined
    await using flow = await startMailFlow({ zone, smtpPort: second.port, clock: new ManualClock() })
    const { recipient, events } = await flow.outcome(BOB)
    expect(recipient).toMatchObject({ status: 'sent', attempts: 1 })
    expect(events.map(({ type }) => type)).toEqual(['sent', 'delivered'])
    expect({ first: first?.connections ?? 0, second: second.connections }).toEqual({ first: connections, second: 1 })
    expect(second.receivedBy(BOB)).toBe(1)
    expect(first?.messages ?? []).toEqual([])
    expectBalanced(flow.service)
  })

  test('has possibly accepted the message: the second does not get it', async () => {
    await using second = await startMisbehaving()
    await using first = await startMisbehaving({
      react: reactFirst('dot', { end: 'close' }),
      address: '127.0.0.2',
      port: second.port,
    })
    await using flow = await startMailFlow({ zone, smtpPort: second.port, clock: new ManualClock() })
    const { recipient } = await flow.outcome(BOB)
    expect(recipient).toMatchObject({ status: 'uncertain', attempts: 1, nextAt: null })
    expect({ first: first.connections, second: second.connections }).toEqual({ first: 1, second: 0 })
    expectBalanced(flow.service)
  })
})
