import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { checkAddresses, checkHostname, checkPublicUrl, checkReverseDns } from '#app/doctor/checks/names.ts'
import { checkOutgoingPort, checkRelay } from '#app/doctor/checks/network.ts'
import { checkBlockLists, checkClock, checkResolver } from '#app/doctor/checks/resolver.ts'
import { isBad } from '#app/doctor/context.ts'
import { runChecks } from '#app/doctor/doctor.ts'
import { days } from '#platform/units.ts'
import { startBlackHole } from '#test/support/black-hole.ts'
import { type DnsServer, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { startTimeServer } from '#test/support/time-server.ts'
import { createContext, findAll, statuses } from './fixture.ts'

setDefaultTimeout(300_000)

const listed = { A: ['127.0.0.2'] }
const mailHost = (ip: string) => ({ MX: [{ preference: 1, exchange: `mx.${ip.replaceAll('.', '-')}.test` }] })
const ZONE: Zone = {
  'mail.tassis.test': { A: ['127.0.0.5'] },
  '5.0.0.127.in-addr.arpa': { PTR: ['mail.tassis.test'] },
  'six.tassis.test': { A: ['127.0.0.5'], AAAA: ['::1'] },
  'other.tassis.test': { A: ['127.0.0.6'] },
  '6.0.0.127.in-addr.arpa': { PTR: ['host.provider.test'] },
  'host.provider.test': { A: ['127.0.0.99'] },
  'unclear.tassis.test': 'SERVFAIL',
  'one.test': mailHost('127.0.0.21'),
  'two.test': mailHost('127.0.0.22'),
  'mx.127-0-0-21.test': { A: ['127.0.0.21'] },
  'mx.127-0-0-22.test': { A: ['127.0.0.22'] },
  'outside.test': { MX: [{ preference: 1, exchange: 'mx.outside.test' }] },
  'mx.outside.test': { A: ['192.0.2.1'] },
  '2.0.0.127.good.test': listed,
  '5.0.0.127.good.test': { A: ['127.0.0.4'], TXT: ['spam since noon, see https://good.test/\u001b[31m'] },
  '2.0.0.127.clean.test': listed,
  '2.0.0.127.all.test': listed,
  '1.0.0.127.all.test': listed,
  '5.0.0.127.all.test': listed,
  '2.0.0.127.public.test': { A: ['127.255.255.254'] },
  '1.0.0.127.public.test': { A: ['127.255.255.254'] },
  '2.0.0.127.silent.test': 'SERVFAIL',
  '1.0.0.127.silent.test': 'SERVFAIL',
}

let dns: DnsServer
beforeAll(async () => {
  dns = await startDnsServer(ZONE)
})
afterAll(() => dns.close())

const create = (settings: Readonly<Record<string, string>> = {}) =>
  createContext({ TASSIS_DNS_SERVERS: dns.address, ...settings })

/** A port on which both addresses can be used, and nothing listens. */
async function startMailHosts(...addresses: readonly string[]): Promise<AsyncDisposable & { readonly port: number }> {
  const servers: Server[] = []
  let port = 0
  for (const address of addresses) {
    const server = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.write('220 mx.test\r\n')
    }).listen(port, address)
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
    servers.push(server)
  }
  return { port, [Symbol.asyncDispose]: async () => servers.forEach((server) => void server.close()) }
}

test('the host name must have a dot and an address', async () => {
  using good = create()
  expect(statuses(await findAll(checkHostname(good)))).toEqual(['ok'])
  expect(statuses(await findAll(checkAddresses(good)))).toEqual(['ok'])
  using bare = create({ TASSIS_HOSTNAME: 'box' })
  expect(await findAll(checkHostname(bare))).toMatchObject([
    { status: 'failure', fix: expect.stringMatching(/^Set TASSIS_HOSTNAME/) },
  ])
  using missing = create({ TASSIS_HOSTNAME: 'absent.tassis.test' })
  expect(await findAll(checkAddresses(missing))).toMatchObject([
    { status: 'failure', fix: expect.stringContaining('Publish an A record of absent.tassis.test') },
  ])
  using unclear = create({ TASSIS_HOSTNAME: 'unclear.tassis.test' })
  expect(statuses(await findAll(checkAddresses(unclear)))).toEqual(['skipped'])
  using six = create({ TASSIS_HOSTNAME: 'six.tassis.test', TASSIS_INBOUND_ADDR: '0.0.0.0:25' })
  expect(await findAll(checkAddresses(six))).toMatchObject([
    { status: 'warning', fix: 'Set TASSIS_INBOUND_ADDR to [::]:25, or remove the AAAA record.' },
  ])
})

test('reverse DNS must lead back; DNS without an answer is not a failure', async () => {
  using good = create()
  expect(statuses(await findAll(checkReverseDns(good)))).toEqual(['ok 127.0.0.5'])
  using bad = create({ TASSIS_OUTBOUND_IPS: '127.0.0.6, 127.0.0.7' })
  expect(await findAll(checkReverseDns(bad))).toMatchObject([
    { status: 'failure', subject: '127.0.0.6', message: expect.stringContaining('does not lead back') },
    { status: 'failure', subject: '127.0.0.7', fix: expect.stringContaining('set the PTR record') },
  ])
  using silent = createContext({ TASSIS_OUTBOUND_IPS: '127.0.0.6' })
  expect(statuses(await findAll(checkReverseDns(silent)))).toEqual(['skipped 127.0.0.6'])
})

test.each([
  ['direct', {}, 'failure'],
  ['direct', { TASSIS_PUBLIC_URL: 'https://127.0.0.1' }, 'failure'],
  ['relay', { TASSIS_PUBLIC_URL: 'http://mail.tassis.test', TASSIS_RELAY_URL: 'smtp://127.0.0.1' }, 'failure'],
  ['relay', { TASSIS_PUBLIC_URL: 'https://mail.tassis.test', TASSIS_RELAY_URL: 'smtp://127.0.0.1' }, 'ok'],
  ['capture', {}, 'skipped'],
])('in delivery mode %s a public URL of %j is: %s', async (delivery, settings, status) => {
  using context = create({ TASSIS_DELIVERY: delivery, ...settings })
  expect(statuses(await findAll(checkPublicUrl(context)))).toEqual([status])
})

// The port is blocked when no destination answers, not when one is down.
test('a blocked port 25 is found: by silence and by refusal, of several destinations', async () => {
  await using hosts = await startMailHosts('127.0.0.21', '127.0.0.22')
  const settings = { TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test, two.test', TASSIS_SMTP_PORT: String(hosts.port) }
  using open = create(settings)
  expect(await findAll(checkOutgoingPort(open))).toMatchObject([
    { status: 'ok', message: expect.stringContaining('one.test') },
  ])
  await hosts[Symbol.asyncDispose]()
  await using _first = await startBlackHole('127.0.0.21', hosts.port)
  using blocked = create(settings)
  const [finding] = await findAll(checkOutgoingPort(blocked))
  expect(finding).toMatchObject({ status: 'failure', fix: expect.stringContaining('open outgoing TCP port 25') })
  expect(finding?.message).toContain('one.test (127.0.0.21): no answer; two.test (127.0.0.22): refused')
})

test('one mail host that is down is not a blocked port, and one alone proves nothing', async () => {
  await using hosts = await startMailHosts('127.0.0.22')
  const port = String(hosts.port)
  using down = create({ TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test, two.test', TASSIS_SMTP_PORT: port })
  expect(statuses(await findAll(checkOutgoingPort(down)))).toEqual(['ok'])
  using alone = create({ TASSIS_DOCTOR_SMTP_DOMAINS: 'two.test, absent.test', TASSIS_SMTP_PORT: port })
  expect(statuses(await findAll(checkOutgoingPort(alone)))).toEqual(['skipped'])
  using from = create({
    TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test, two.test',
    TASSIS_SMTP_PORT: port,
    TASSIS_OUTBOUND_IPS: '127.0.0.31, 127.0.0.32',
  })
  expect(statuses(await findAll(checkOutgoingPort(from)))).toEqual(['ok 127.0.0.31', 'ok 127.0.0.32'])
})

test('a test never leaves the machine: other addresses and other DNS servers are not asked', async () => {
  using outside = create({ TASSIS_DOCTOR_SMTP_DOMAINS: 'outside.test, outside.test' })
  expect(statuses(await findAll(checkOutgoingPort(outside)))).toEqual(['skipped'])
  using foreign = createContext({ TASSIS_DNS_SERVERS: '192.0.2.53' })
  for (const check of [checkResolver, checkOutgoingPort, checkBlockLists, checkClock, checkAddresses])
    expect(await findAll(check(foreign))).toEqual([
      {
        status: 'skipped',
        subject: null,
        message: 'Not checked: TASSIS_ALLOW_PRIVATE_NETWORKS is set, so this service is for tests.',
        fix: null,
      },
    ])
})

test('the relay is reached, or named with the reason', async () => {
  await using hosts = await startMailHosts('127.0.0.22')
  const relay = (host: string) => ({ TASSIS_DELIVERY: 'relay', TASSIS_RELAY_URL: `smtp://u:secret@${host}` })
  using good = create(relay(`mx.127-0-0-22.test:${hosts.port}`))
  expect(statuses(await findAll(checkRelay(good)))).toEqual(['ok'])
  using refused = create(relay(`127.0.0.21:${hosts.port}`))
  const [finding] = await findAll(checkRelay(refused))
  expect(finding?.message).toBe(`The relay 127.0.0.21 (127.0.0.21, port ${hosts.port}) cannot be reached: refused.`)
  using absent = create(relay('absent.test'))
  expect(statuses(await findAll(checkRelay(absent)))).toEqual(['failure'])
  using direct = create()
  expect(statuses(await findAll(checkRelay(direct)))).toEqual(['skipped'])
})

test('each DNS server must answer and recurse; DNSSEC is reported', async () => {
  await using plain = await startDnsServer({ 'one.test': 'REFERRAL' })
  await using refusing = await startDnsServer({ 'one.test': 'REFUSED' })
  await using validating = await startDnsServer({
    'one.test': mailHost('127.0.0.21'),
    '.': { NS: ['ns.test'], secure: true },
    '': { NS: ['ns.test'], secure: true },
    'dnssec-failed.org': 'SERVFAIL',
  })
  using context = create({
    TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test',
    TASSIS_DNS_SERVERS: [dns, plain, refusing, validating].map(({ address }) => address).join(),
  })
  expect(await findAll(checkResolver(context))).toMatchObject([
    { status: 'ok', message: expect.stringContaining('does not validate DNSSEC') },
    { status: 'failure', message: expect.stringContaining('does not recurse') },
    { status: 'failure', message: expect.stringContaining('refuses') },
    { status: 'ok', message: expect.stringContaining('validates DNSSEC') },
  ])
  using dane = create({ TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test', TASSIS_DANE: 'on' })
  expect(statuses(await findAll(checkResolver(dane)))).toEqual([`warning ${dns.address}`])
})

test('a listing is a failure; lists that answer for everything, refuse or are silent are not believed', async () => {
  using context = create({ TASSIS_DOCTOR_BLOCK_LISTS: 'good.test, clean.test, all.test, public.test, silent.test' })
  const found = await findAll(checkBlockLists(context))
  expect(statuses(found)).toEqual([
    'failure 127.0.0.5 good.test',
    'ok clean.test',
    'skipped all.test',
    'warning public.test',
    'skipped silent.test',
  ])
  // What a list says is shown without its control characters.
  expect(found[0]?.message).toBe(
    '127.0.0.5 is listed in good.test (127.0.0.4): spam since noon, see https://good.test/ [31m',
  )
  expect(found[3]?.fix).toContain('TASSIS_DNS_SERVERS')
  using none = create({ TASSIS_DOCTOR_BLOCK_LISTS: 'none' })
  expect(statuses(await findAll(checkBlockLists(none)))).toEqual(['skipped'])
})

test('a clock a day ahead is a failure, until it is set back; a single wrong server is not believed', async () => {
  await using right = await startTimeServer({ now: Date.now })
  await using wrong = await startTimeServer({ now: () => Date.now() + days(900) })
  using context = create({ TASSIS_DOCTOR_TIME_SERVERS: `${wrong.address}, ${right.address}` })
  expect(statuses(await findAll(checkClock(context)))).toEqual(['ok'])
  // The clock of the machine is a day ahead of that of the server.
  right.behaviour.now = () => Date.now() - days(1)
  expect(await findAll(checkClock(context))).toMatchObject([
    { status: 'failure', message: expect.stringMatching(/^The clock is 24 h ahead\./) },
  ])
  right.behaviour.now = Date.now
  expect(statuses(await findAll(checkClock(context)))).toEqual(['ok'])
  right.behaviour = { now: Date.now, stratum: 0 }
  wrong.behaviour = { now: Date.now, leap: 3 }
  expect(statuses(await findAll(checkClock(context)))).toEqual(['skipped'])
})

test('without network all checks end, and only the resolver and the settings are bad', async () => {
  await using silent = await startDnsServer(
    new Proxy<Zone>(
      {},
      {
        has: () => true,
        getOwnPropertyDescriptor: () => ({ configurable: true, enumerable: true }),
        get: () => 'SILENCE',
      },
    ),
  )
  using context = create({
    TASSIS_DNS_SERVERS: silent.address,
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    TASSIS_OPERATOR_EMAIL: 'olga@tassis.test',
  })
  const begun = performance.now()
  const findings = await runChecks(context)
  // The limit of one check, and the time of this process on a busy machine.
  expect(performance.now() - begun).toBeLessThan(30_000)
  const bad = new Set(findings.filter(isBad).map(({ check }) => check))
  expect(bad.has('resolver')).toBe(true)
  for (const check of ['addresses', 'reverse_dns', 'outgoing_port', 'block_lists', 'clock', 'certificates'])
    expect(bad.has(check)).toBe(false)
})
