/** @module The DNS records of a domain in a cluster cover all nodes, whichever leads. */
import { expect, test } from 'bun:test'
import { checkClusterDns } from '#app/doctor/checks/names.ts'
import { toDomainDetail } from '#features/drop-in/resend/domain-routes.ts'
import { listDnsRecords } from '#features/setup/domains/domains.ts'
import { readPublishedDns } from '#features/setup/domains/published-dns.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { formatZoneFile } from '#features/setup/domains/zone-file.ts'
import { createResolver } from '#test/support/resolver.ts'
import { createContext, statuses } from '../../../app/doctor/fixture.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const toNode = (name: string, hostname: string, ...outbound_ips: string[]) => ({ name, hostname, outbound_ips })
const A = toNode('a', 'mail.tassis.test', '192.0.2.25')
const B = toNode('b', 'mail2.tassis.test', '192.0.2.9')

/** A service that leads a cluster as the node a. */
async function startLeader(...nodes: ReturnType<typeof toNode>[]): Promise<DomainTest> {
  const t = await startDomainTest({ TASSIS_NODE: 'a', TASSIS_REPLICATE: 'postgres://tassis@127.0.0.1/tassis' })
  Object.assign(t.app, { cluster: { nodes: () => nodes } })
  return t
}

test('nodes with names and addresses of their own are all in SPF and MX, also as a zone file and for clients of Resend', async () => {
  await using t = await startLeader(A, B, toNode('c', 'mail3.tassis.test'))
  const { domain } = await t.register('example.com')
  const spf = 'v=spf1 a:mail3.tassis.test ip4:192.0.2.25 ip4:192.0.2.9 ~all'
  const further_values = ['mail2.tassis.test', 'mail3.tassis.test']
  expect(listDnsRecords(t.app, domain)).toMatchObject({
    spf: { value: spf },
    return_path: { value: 'mail.tassis.test', priority: 10, further_values },
    mx: { value: 'mail.tassis.test', further_values },
  })
  const published = await readPublishedDns(t.app, domain)
  expect(published.records.return_path).toMatchObject({ expected: 'mail.tassis.test', further_values })
  const zone = formatZoneFile(published)
  for (const host of ['mail.tassis.test', ...further_values]) expect(zone).toContain(`\nsend 3600 IN MX 10 ${host}.\n`)
  expect(
    toDomainDetail(domain, t.app)
      .records.filter(({ type }) => type === 'MX')
      .map(({ value }) => value),
  ).toEqual(['mail.tassis.test', ...further_values])
})

test('nodes with one name need one MX record, and a service without a cluster the records that it always had', async () => {
  await using t = await startLeader(A, { ...B, hostname: A.hostname })
  const { domain } = await t.register('example.com')
  const { spf, return_path } = listDnsRecords(t.app, domain)
  expect(spf.value).toBe('v=spf1 ip4:192.0.2.25 ip4:192.0.2.9 -all')
  expect(return_path).not.toHaveProperty('further_values')
  expect(listDnsRecords({ config: t.app.config }, domain).spf.value).toBe('v=spf1 ip4:192.0.2.25 -all')
})

test('a domain stays verified while its records allow the leader; the wizard and doctor say what the other nodes lack', async () => {
  await using t = await startLeader(A, B)
  const { id, domain } = await t.register('example.com')
  t.publish(domain, ['dkim', 'return_path'])
  Object.assign(t.dns.zone['send.example.com'] ?? {}, { TXT: ['v=spf1 ip4:192.0.2.25 include:other.test -all'] })
  t.dns.zone['other.test'] = { TXT: ['v=spf1 ip4:198.51.100.7 -all'] }
  expect((await verifyDomain(t.app, t.actor, id)).fullyVerified).toBe(true)

  const { records } = await readPublishedDns(t.app, t.stored(id))
  expect(records.spf).toMatchObject({
    status: 'wrong',
    keep: 'v=spf1 ip4:192.0.2.25 ip4:192.0.2.9 include:other.test -all',
    detail: expect.stringContaining('does not allow our sending address 192.0.2.9'),
  })
  expect(records.return_path).toMatchObject({
    status: 'wrong',
    detail:
      'The MX of send.example.com points to mail.tassis.test, but not to mail2.tassis.test, which may take over from it. Publish a further MX record at send.example.com with priority 10 and the value mail2.tassis.test',
  })
  using resolver = createResolver(t.dns, { timeoutMs: 60_000, trustsAuthenticity: false })
  using context = createContext(
    { TASSIS_DNS_SERVERS: t.dns.address },
    { service: { app: t.app, delivery: undefined }, resolver },
  )
  expect(await checkClusterDns(context)).toMatchObject({
    status: 'warning',
    message: 'SPF or MX of 1 of 1 domains do not cover all nodes (mail.tassis.test, mail2.tassis.test): example.com.',
  })

  t.dns.zone['send.example.com'] = {
    TXT: [records.spf.keep ?? ''],
    MX: ['mail.tassis.test', 'mail2.tassis.test'].map((exchange) => ({ preference: 10, exchange })),
  }
  // The MX of another node beside ours, with the same priority, is no mistake.
  expect((await verifyDomain(t.app, t.actor, id)).fullyVerified).toBe(true)
  const { records: after } = await readPublishedDns(t.app, t.stored(id))
  expect([after.spf.status, after.return_path.status]).toEqual(['verified', 'verified'])
  using fresh = createResolver(t.dns, { timeoutMs: 60_000, trustsAuthenticity: false })
  expect(await checkClusterDns({ ...context, resolver: fresh })).toMatchObject({ status: 'ok' })
  using alone = createContext({ TASSIS_DNS_SERVERS: t.dns.address })
  expect(statuses([await checkClusterDns(alone)].flat())).toEqual(['skipped'])
})
