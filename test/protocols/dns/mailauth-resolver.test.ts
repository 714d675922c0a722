import { expect, test } from 'bun:test'
import { spf } from 'mailauth/lib/spf'
import { randomBelow } from '#platform/ids.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createMailauthResolver } from '#protocols/dns/mailauth-resolver.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'

async function withDns<T>(
  zone: Zone,
  run: (resolve: ReturnType<typeof createMailauthResolver>) => Promise<T>,
): Promise<T> {
  await using server = await startDnsServer(zone)
  using resolver = new StubResolver({
    servers: [server.address],
    clock: systemClock,
    randomId: () => randomBelow(65_536),
  })
  return await run(createMailauthResolver(resolver))
}

test.each([
  ['v=spf1 ip4:192.0.2.0/24 -all', 'pass'],
  ['v=spf1 a:host.example.com -all', 'pass'],
  ['v=spf1 mx -all', 'pass'],
  ['v=spf1 include:inc.example.com -all', 'pass'],
  ['v=spf1 exists:%{ir}.list.example.com -all', 'pass'],
  ['v=spf1 ptr:host.example.com -all', 'pass'],
  ['v=spf1 a:absent.example.com -all', 'fail'],
  ['v=spf1 include:fail.example.com -all', 'temperror'],
  ['v=spf1 include:absent.example.com -all', 'permerror'],
] as const)('mailauth evaluates %j to %s through our resolver', async (record, result) => {
  const zone: Zone = {
    'example.com': { TXT: [record], MX: [{ preference: 10, exchange: 'host.example.com' }] },
    'host.example.com': { A: ['192.0.2.1'] },
    'inc.example.com': { TXT: ['v=spf1 ip4:192.0.2.1 -all'] },
    '1.2.0.192.list.example.com': { A: ['127.0.0.2'] },
    '1.2.0.192.in-addr.arpa': { PTR: ['host.example.com'] },
    'fail.example.com': 'SERVFAIL',
  }
  const found = await withDns(zone, (resolver) =>
    spf({ sender: 'a@example.com', ip: '192.0.2.1', helo: 'host.example.com', mta: 'mx.test', resolver }),
  )
  expect(found.status.result).toBe(result)
})

test('the codes of node:dns distinguish absence and failure', async () => {
  const zone: Zone = {
    'a.example': {},
    'b.example': 'SERVFAIL',
    'c.example': 'REFUSED',
    'd.example': { CNAME: 'd.example' },
  }
  const codes = await withDns(zone, (resolve) =>
    Promise.all(
      ['a.example', 'absent.example', 'b.example', 'c.example', 'd.example'].map((name) =>
        resolve(name, 'TXT').catch((error: Error & { code?: string }) => error.code),
      ),
    ),
  )
  expect(codes).toEqual(['ENODATA', 'ENOTFOUND', 'ESERVFAIL', 'EREFUSED', 'ESERVFAIL'])
})
