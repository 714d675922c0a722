import { expect, test } from 'bun:test'
import { loadConfig } from '#app/settings.ts'
import { SourceNames } from '#features/sending/delivery/providers/outbound-sources.ts'
import { createLog } from '#platform/log/log.ts'
import { foundIpsOf } from '#platform/settings/outbound-source.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { createResolver } from '#test/support/resolver.ts'

const ARPA = '0.0.127.in-addr.arpa'
const IP6 = 'fd00::2'
const IP6_ARPA = '2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa'

/** Checks the addresses over a real DNS server without a cache. */
async function startCheck(zone: Zone, settings: Readonly<Record<string, string>>) {
  const dns = await startDnsServer(zone)
  const { config } = loadConfig({
    TASSIS_HOSTNAME: 'mail.tassis.test',
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    ...settings,
  })
  const resolver = createResolver(dns, { timeoutMs: 60_000, attempts: 1, cacheEntries: 0 })
  const lines: string[] = []
  const log = createLog('warn', { write: (line) => void lines.push(String(JSON.parse(line).msg)) })
  const names = new SourceNames({ config, log, resolver })
  return {
    config,
    names,
    lines,
    dns,
    async [Symbol.asyncDispose]() {
      resolver.close()
      await dns.close()
    },
  }
}

/** One sentence for each problem that the last check found. */
const listProblems = (names: SourceNames): string[] => names.all().flatMap(({ problem }) => problem ?? [])

test('a PTR record that is missing, does not lead back or is not the name in EHLO is a problem, each with its fix', async () => {
  const zone: Zone = {
    [`2.${ARPA}`]: { PTR: ['two.mail.test'] },
    'two.mail.test': { A: ['127.0.0.9', '127.0.0.2'] },
    [`4.${ARPA}`]: { PTR: ['four.mail.test'] },
    'four.mail.test': { A: ['127.0.0.9'] },
    [`5.${ARPA}`]: { PTR: ['vps5.host.test', 'Five.mail.test'] },
    'vps5.host.test': { A: ['127.0.0.5'] },
    'five.mail.test': { A: ['127.0.0.5'] },
    // Delegated without a class (RFC 2317).
    [`6.${ARPA}`]: { CNAME: `6.0-15.${ARPA}` },
    [`6.0-15.${ARPA}`]: { PTR: ['vps6.host.test'] },
    'vps6.host.test': { A: ['127.0.0.6'] },
    [IP6_ARPA]: { PTR: ['mail.tassis.test'] },
    'mail.tassis.test': { AAAA: ['fd00:0:0::2'] },
  }
  const addresses = ['2=two.mail.test', '3', '4=four.mail.test', '5=five.mail.test', '6=six.mail.test@news']
  const items = [...addresses.map((item) => `127.0.0.${item}`), IP6]
  await using check = await startCheck(zone, { TASSIS_OUTBOUND_IPS: items.join(', ') })
  expect(check.names.all()).toEqual([])
  await check.names.check()
  const problems = new Map(check.names.all().map(({ ip, problem }) => [ip, problem]))
  expect(Object.fromEntries(problems)).toEqual({
    '127.0.0.2': undefined,
    '127.0.0.3': expect.stringMatching(/^127\.0\.0\.3 has no PTR record.* to mail\.tassis\.test\.$/),
    '127.0.0.4': expect.stringContaining('is four.mail.test, which does not lead back to 127.0.0.4'),
    '127.0.0.5': undefined,
    '127.0.0.6': expect.stringContaining('Set 127.0.0.6=vps6.host.test in TASSIS_OUTBOUND_IPS'),
    [IP6]: undefined,
  })
  expect(check.lines).toEqual(listProblems(check.names))
  expect(check.lines).toHaveLength(3)
})

test('a problem is logged once, and no answer of DNS is none', async () => {
  await using check = await startCheck(
    { [`2.${ARPA}`]: { PTR: 'SERVFAIL' }, [`3.${ARPA}`]: { PTR: ['three.mail.test'] }, 'three.mail.test': 'SERVFAIL' },
    { TASSIS_OUTBOUND_IPS: '127.0.0.2, 127.0.0.3=three.mail.test' },
  )
  await check.names.check()
  expect([listProblems(check.names), check.lines]).toEqual([[], []])
  check.dns.zone[`2.${ARPA}`] = 'NXDOMAIN'
  await check.names.check()
  await check.names.check()
  // What was found stays while DNS does not answer.
  check.dns.zone[`2.${ARPA}`] = 'SERVFAIL'
  await check.names.check()
  expect(listProblems(check.names)).toEqual([expect.stringContaining('127.0.0.2 has no PTR record')])
  check.dns.zone[`2.${ARPA}`] = { PTR: ['mail.tassis.test'] }
  check.dns.zone['mail.tassis.test'] = { A: ['127.0.0.2'] }
  await check.names.check()
  expect(listProblems(check.names)).toEqual([])
  expect(check.lines).toHaveLength(1)
})

test('without configured addresses, those of the host name are checked; with a smarthost or behind NAT, none', async () => {
  const zone: Zone = { 'mail.tassis.test': { A: ['127.0.0.7'], AAAA: [IP6] } }
  await using host = await startCheck(zone, { TASSIS_IPV6: 'false' })
  await host.names.check()
  expect(host.names.all()).toMatchObject([
    { ip: '127.0.0.7', ehloName: 'mail.tassis.test', problem: expect.stringContaining('no PTR record') },
  ])
  expect(foundIpsOf(host.config).ips).toEqual(['127.0.0.7'])
  await using relayed = await startCheck(zone, { TASSIS_DELIVERY: 'relay', TASSIS_RELAY_URL: 'smtp://127.0.0.1:25' })
  await relayed.names.check()
  expect([relayed.names.all(), relayed.dns.queries]).toEqual([[], []])
  await using translated = await startCheck(zone, {
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'false',
    TASSIS_OUTBOUND_IPS: '10.0.0.5',
  })
  await translated.names.check()
  expect([listProblems(translated.names), translated.dns.queries]).toEqual([[], []])
})
