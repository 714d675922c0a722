import { expect, test } from 'bun:test'
import { loadConfig } from '#app/settings.ts'
import { SourceNames, usesIpv6 } from '#features/sending/delivery/providers/outbound-sources.ts'
import { createLog } from '#platform/log/log.ts'
import { days, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createResolver } from '#test/support/resolver.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const LOOPBACK_ARPA = `1.${'0.'.repeat(31)}ip6.arpa`
const CONFIRMED: Zone = {
  [LOOPBACK_ARPA]: { PTR: ['mail.tassis.test'] },
  'mail.tassis.test': { A: ['127.0.0.1'], AAAA: ['::1'] },
}
const CONFIGURED = { TASSIS_OUTBOUND_IPS: '127.0.0.1, ::1' }

test.each<[missing: RegExp | undefined, settings: Record<string, string>, local: string[], zone: Zone]>([
  [undefined, CONFIGURED, [], CONFIRMED],
  [undefined, {}, ['127.0.0.1', '::1', 'fe80::1'], CONFIRMED],
  [/names no public IPv6 address/, { TASSIS_OUTBOUND_IPS: '127.0.0.1' }, ['::1'], CONFIRMED],
  [/this machine has no public IPv6 address/, {}, ['127.0.0.1', 'fe80::1'], CONFIRMED],
  [/several IPv6 addresses/, {}, ['::1', '2a00:1450::5'], CONFIRMED],
  [/has no AAAA record with ::1, so SPF/, {}, ['::1'], { 'mail.tassis.test': { A: ['127.0.0.1'] } }],
  [/::1 has no PTR record/, CONFIGURED, [], { 'mail.tassis.test': { AAAA: ['::1'] } }],
  [/does not lead back to ::1/, CONFIGURED, [], { ...CONFIRMED, 'mail.tassis.test': { A: ['127.0.0.1'] } }],
  [/does not leave from this machine/, { TASSIS_DELIVERY: 'capture' }, ['::1'], CONFIRMED],
])('auto, what is missing: %p with %p and the addresses %p', async (missing, settings, local, zone) => {
  await using dns = await startDnsServer({ ...zone })
  const base = { TASSIS_HOSTNAME: 'mail.tassis.test', TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback' }
  const { config } = loadConfig({ ...base, ...settings })
  const resolver = createResolver(dns, { timeoutMs: 60_000, attempts: 1, cacheEntries: 0 })
  const names = new SourceNames({ config, log: createLog('silent'), resolver }, () => local)
  expect(usesIpv6(config)).toBe(false)
  await names.check()
  if (missing) expect(names.ipv6Problem).toMatch(missing)
  expect([names.ipv6Problem === undefined, usesIpv6(config)]).toEqual([!missing, !missing])
  // DNS that does not answer changes nothing.
  dns.zone['mail.tassis.test'] = 'SERVFAIL'
  await names.check()
  expect(usesIpv6(config)).toBe(!missing)
  resolver.close()
})

test('with auto, a host with IPv6 only gets its mail once the address is confirmed', async () => {
  await using server = await startScriptedSmtp({}, { address: '::1' })
  const zone = {
    ...CONFIRMED,
    'six.test': { MX: [{ preference: 1, exchange: 'mx.six.test' }] },
    'mx.six.test': { AAAA: ['::1'] },
  }
  const settings = { TASSIS_OUTBOUND_IPS: '127.0.0.1, ::1', TASSIS_HOSTNAME: 'mail.tassis.test' }
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using flow = await startMailFlow({ zone, smtpPort: server.port, clock, settings })
  expect((await flow.outcome('bob@six.test')).recipient.lastError).toContain('only over IPv6')
  await new SourceNames(flow.app).check()
  // SPF of the domain was not found to cover the address, or not since the address is used.
  const { db } = flow.app
  expect((await flow.outcome('eve@six.test')).recipient.lastError).toContain('only over IPv6')
  db.run('UPDATE domains SET spf_verified = 1, checked_at = ?', [clock.now()])
  db.run("UPDATE warm_ups SET day = ? WHERE source = '::1'", [Math.floor(clock.now() / days(1))])
  clock.advance(minutes(1))
  expect((await flow.outcome('ian@six.test')).recipient.lastError).toContain('only over IPv6')
  db.run('UPDATE domains SET checked_at = ?', [clock.now() + days(1)])
  clock.advance(minutes(1))
  const { recipient } = await flow.outcome('bob@six.test')
  expect(recipient).toMatchObject({ status: 'sent', sendingIp: '::1' })
})

test('with auto, an address of the host name is used once each domain was checked since it was first seen', async () => {
  await using server = await startScriptedSmtp({}, { address: '::1' })
  const zone = { ...CONFIRMED, 'six.test': { AAAA: ['::1'] } }
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using flow = await startMailFlow({
    zone,
    smtpPort: server.port,
    clock,
    settings: { TASSIS_HOSTNAME: 'mail.tassis.test' },
  })
  const names = new SourceNames(flow.app, () => ['::1'])
  const { db } = flow.app
  db.run('UPDATE domains SET spf_verified = 1, checked_at = ?', [clock.now() - 1])
  await names.check()
  expect((await flow.outcome('bob@six.test')).recipient.lastError).toContain('only over IPv6')
  clock.advance(minutes(1))
  db.run('UPDATE domains SET checked_at = ?', [clock.now()])
  // Seen again, also by another process, it stays as it was.
  await names.check()
  clock.advance(minutes(1))
  await new SourceNames(flow.app, () => ['::1']).check()
  expect((await flow.outcome('eve@six.test')).recipient.status).toBe('sent')
  // With other addresses all domains wait for a check, also those whose answer is known for a minute.
  db.run(`UPDATE meta SET value = '{"ips":["::2"],"at":1}' WHERE key = 'ipv6_seen'`)
  await names.check()
  expect((await flow.outcome('kim@six.test')).recipient.lastError).toContain('only over IPv6')
})

test.each([
  '550-5.7.1 [::1] This message does not meet IPv6 sending guidelines\r\n550 5.7.1 regarding PTR records and authentication.',
  '554 5.7.1 Service unavailable; Client host [::1] blocked using zen.spamhaus.org',
])(
  'a provider that rejects our IPv6 bounces nothing: it gets the mail over IPv4, and IPv6 rests: %s',
  async (rejection) => {
    let isSilent = true
    await using four = await startScriptedSmtp({ mail: () => (isSilent ? { drop: 'end' } : '250 ok') })
    await using six = await startScriptedSmtp({ mail: rejection }, { address: '::1', port: four.port })
    const zone: Zone = { 'receiver.test': { A: ['127.0.0.1'], AAAA: ['::1'] } }
    const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
    await using flow = await startMailFlow({
      zone,
      smtpPort: four.port,
      clock,
      settings: { TASSIS_IPV6: 'true', ...CONFIGURED },
    })
    const sent = await flow.send({ to: 'bob@receiver.test' })
    expect((await flow.settled(sent)).recipients[0]).toMatchObject({ status: 'queued', attempts: 1 })
    expect(six.sessions).toHaveLength(1)
    // Nothing that it says is about the IPv4 address.
    const { db } = flow.app
    expect(db.query('SELECT source, outcome FROM provider_outcomes').values()).toEqual([['::1', 'deferred']])
    expect(db.query('SELECT * FROM provider_pairs').values()).toEqual([])
    isSilent = false
    clock.advance(minutes(2))
    await eventually(async () => (await flow.settled(sent)).recipients[0]?.status === 'sent')
    expect(six.sessions).toHaveLength(1)
    // Also where IPv4 fails again.
    isSilent = true
    await flow.outcome('eve@receiver.test')
    expect(six.sessions).toHaveLength(1)
  },
)
