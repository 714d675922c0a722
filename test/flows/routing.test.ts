import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import type { Zone } from '#test/support/dns-server.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { startSink } from '#test/support/sink.ts'

describe('a domain without a usable mail host', () => {
  const cases: [string, Zone, { status: string; category: string; reason: RegExp }][] = [
    [
      'a null MX bounces',
      { 'no-mail.test': { MX: [{ preference: 0, exchange: '' }], A: ['127.0.0.1'] } },
      { status: 'bounced', category: 'invalid_recipient', reason: /^556 5\.1\.10 / },
    ],
    [
      'a domain that does not exist bounces',
      {},
      { status: 'bounced', category: 'dns_failure', reason: /^550 5\.1\.2 .*does not exist/ },
    ],
    [
      'a domain with neither MX nor address bounces',
      { 'no-mail.test': { TXT: ['x'] } },
      { status: 'bounced', category: 'dns_failure', reason: /^550 5\.1\.2 / },
    ],
    [
      'an MX whose host does not exist bounces',
      { 'no-mail.test': { MX: [{ preference: 10, exchange: 'gone.no-mail.test' }] } },
      { status: 'bounced', category: 'dns_failure', reason: /^550 5\.4\.4 .*gone\.d\d+\.test/ },
    ],
    [
      'MX hosts without any address bounce, also through an alias',
      {
        'no-mail.test': {
          MX: [
            { preference: 10, exchange: 'bare.no-mail.test' },
            { preference: 20, exchange: 'alias.no-mail.test' },
            { preference: 30, exchange: 'gone.no-mail.test' },
          ],
        },
        'bare.no-mail.test': { TXT: ['x'] },
        'alias.no-mail.test': { CNAME: 'gone.nowhere.test' },
      },
      { status: 'bounced', category: 'dns_failure', reason: /^550 5\.4\.4 / },
    ],
    [
      'an alias to a name that does not exist bounces',
      { 'no-mail.test': { CNAME: 'gone.nowhere.test' } },
      { status: 'bounced', category: 'dns_failure', reason: /^550 5\.1\.2 / },
    ],
    [
      'MX records that hold IP addresses bounce',
      { 'no-mail.test': { MX: [{ preference: 10, exchange: '127.0.0.1' }] } },
      { status: 'bounced', category: 'dns_failure', reason: /^550 5\.4\.4 .*IP addresses/ },
    ],
    [
      'one MX host that does not exist and one that cannot be resolved defer',
      {
        'no-mail.test': {
          MX: [
            { preference: 10, exchange: 'gone.no-mail.test' },
            { preference: 20, exchange: 'mx.no-mail.test' },
          ],
        },
        'mx.no-mail.test': 'SERVFAIL',
      },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
    [
      'a referral for the domain defers',
      { 'no-mail.test': 'REFERRAL' },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
    [
      'a referral for the addresses of a domain without MX defers',
      { 'no-mail.test': { A: 'REFERRAL', AAAA: 'REFERRAL' } },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
    [
      'a referral for the only MX host defers',
      { 'no-mail.test': { MX: [{ preference: 10, exchange: 'mx.no-mail.test' }] }, 'mx.no-mail.test': 'REFERRAL' },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
    [
      'SERVFAIL defers',
      { 'no-mail.test': 'SERVFAIL' },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
    [
      'a silent DNS server defers',
      { 'no-mail.test': 'SILENCE' },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
    [
      'an MX whose address cannot be resolved defers',
      { 'no-mail.test': { MX: [{ preference: 10, exchange: 'mx.no-mail.test' }] }, 'mx.no-mail.test': 'SERVFAIL' },
      { status: 'queued', category: 'dns_failure', reason: /^451 4\.4\.3 / },
    ],
  ]
  let sink: ScriptedSmtp
  let flow: MailFlow
  beforeAll(async () => {
    sink = await startScriptedSmtp()
    flow = await startMailFlow({ smtpPort: sink.port, dnsTimeoutMs: 2000 })
  })
  afterAll(async () => {
    await flow[Symbol.asyncDispose]()
    await sink[Symbol.asyncDispose]()
  })

  let count = 0
  // Proves: status-26, delivery-4
  test.each(cases)('%s, without any session', async (_, zone, { status, category, reason }) => {
    // A domain of its own for each case, because answers are remembered.
    const domain = `d${++count}.test`
    Object.assign(flow.dns.zone, JSON.parse(JSON.stringify(zone).replaceAll('no-mail.test', domain)))
    const { recipient, events } = await flow.outcome(`bob@${domain}`)
    expect(recipient).toMatchObject({
      status,
      attempts: 1,
      deliveryStartedAt: null,
      lastError: expect.stringMatching(reason),
    })
    expect(events).toMatchObject([
      { type: status === 'queued' ? 'deferred' : 'bounced', data: { bounce_category: category } },
    ])
    if (status === 'queued') expect(recipient.nextAt).toBeGreaterThan(flow.app.clock.now())
    expect(sink.sessions).toEqual([])
  })
})

describe('an MX host with only IPv6', () => {
  const zone: Zone = {
    'six.test': { MX: [{ preference: 10, exchange: 'mx.six.test' }] },
    'mx.six.test': { AAAA: ['2001:db8::1'] },
  }

  test('does not cause a bounce while IPv6 is disabled', async () => {
    await using flow = await startMailFlow({ zone, settings: { TASSIS_IPV6: 'false' } })
    expect((await flow.outcome('bob@six.test')).recipient).toMatchObject({
      status: 'queued',
      lastError: expect.stringContaining('IPv6'),
    })
  })
})

/** Sends to `receiver.test` in a zone; nothing listens on 127.0.0.2. */
async function deliver(zone: Zone) {
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone, smtpPort: sink.port })
  const { recipient, events } = await flow.outcome('bob@receiver.test')
  expect(recipient).toMatchObject({ status: 'sent', attempts: 1 })
  return events.at(-1)?.data.remote_mta
}

const hosts = (...addresses: [preference: number, address: string][]): Zone => ({
  'receiver.test': { MX: addresses.map(([preference], i) => ({ preference, exchange: `mx${i}.receiver.test` })) },
  ...Object.fromEntries(addresses.map(([, address], i) => [`mx${i}.receiver.test`, { A: [address] }])),
})

// Proves: delivery-1, delivery-4, delivery-7
test.each<[string, Zone, reached: string]>([
  [
    'the ninth MX host when the first eight do not exist',
    {
      'receiver.test': {
        MX: Array.from({ length: 9 }, (_, i) => ({ preference: i, exchange: `mx${i}.receiver.test` })),
      },
      'mx8.receiver.test': { A: ['127.0.0.1'] },
    },
    'mx8.receiver.test',
  ],
  [
    'a second address of the same host',
    {
      'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
      'mx.receiver.test': { A: ['127.0.0.2', '127.0.0.1'] },
    },
    'mx.receiver.test',
  ],
  [
    'the lower preference, though the zone lists it last',
    hosts([20, '127.0.0.2'], [10, '127.0.0.1']),
    'mx1.receiver.test',
  ],
  ['the address of a domain without MX', { 'receiver.test': { A: ['127.0.0.1'] } }, 'receiver.test'],
])('mail goes to %s, in one attempt', async (_, zone, reached) =>
  expect(await deliver(zone)).toBe(`${reached} [127.0.0.1]`),
)

// Proves: delivery-1
test('mail hosts of equal preference share the load', async () => {
  await using sink = await startSink()
  const zone = hosts([10, '127.0.0.1'], [10, '127.0.0.1'])
  await using flow = await startMailFlow({
    zone,
    smtpPort: sink.port,
    settings: siteLimits({ messages_per_connection: 1 }),
  })
  const seen = new Set<string | null | undefined>()
  // A fair choice picks the same host 40 times with a probability of 1 in 2^39.
  for (let i = 0; i < 40 && seen.size < 2; i++)
    seen.add((await flow.outcome('bob@receiver.test')).events.at(-1)?.data.remote_mta)
  expect([...seen].sort()).toEqual(['mx0.receiver.test [127.0.0.1]', 'mx1.receiver.test [127.0.0.1]'])
})

// Proves: delivery-9, delivery-10
test('a receiver without TLS gets the mail in plaintext, and the event says so', async () => {
  await using server = await startScriptedSmtp({ extensions: ['PIPELINING'] })
  await using flow = await startMailFlow({ zone: { 'receiver.test': { A: ['127.0.0.1'] } }, smtpPort: server.port })
  const { events } = await flow.outcome('bob@receiver.test')
  expect(events.at(-1)?.data.tls).toBe('none: not offered')
})

describe('delivery through a smarthost', () => {
  // Proves: delivery-18
  test('a smarthost without TLS gets neither password nor mail', async () => {
    await using server = await startScriptedSmtp({ extensions: ['AUTH PLAIN'] })
    await using flow = await startMailFlow({
      settings: {
        TASSIS_DELIVERY: 'relay',
        TASSIS_RELAY_URL: `smtp://tassis:secret@127.0.0.1:${server.port}`,
        TASSIS_RELAY_TLS: 'opportunistic',
      },
    })
    const { recipient } = await flow.outcome('bob@one.test')
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1, deliveryStartedAt: null })
    expect(server.sessions.flatMap(({ commands }) => commands).filter((line) => /^(AUTH|MAIL)/i.test(line))).toEqual([])
  })

  test('the smarthost is resolved by name', async () => {
    await using sink = await startSink()
    await using flow = await startMailFlow({
      zone: { 'relay.test': { A: ['127.0.0.1'] } },
      settings: {
        TASSIS_DELIVERY: 'relay',
        TASSIS_RELAY_URL: `smtp://relay.test:${sink.port}`,
        TASSIS_RELAY_TLS: 'opportunistic',
      },
    })
    await flow.outcome('bob@one.test')
    expect((await eventually(() => sink.messages[0])).rcptTo).toEqual(['bob@one.test'])
    expect(flow.dns.queries.map(({ name }) => name)).toEqual(['relay.test'])
  })
})
