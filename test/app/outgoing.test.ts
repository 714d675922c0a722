/** @module Tests which addresses a running service calls for its tenants, and DNS lookups of names in received mail. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import { receiveMessage } from '#features/receiving/inbound/process/queue.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { seconds } from '#platform/units.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { startHttpsReceiver } from '#test/support/https-receiver.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const REQUEST = { headers: {}, body: '{}', timeoutMs: 10_000, maxResponseBytes: 1000 }

describe('outgoing requests of the service', () => {
  test('names are resolved by its DNS servers, and the authorities of TASSIS_EXTRA_CA_FILE are trusted', async () => {
    await using receiver = await startHttpsReceiver({ names: ['hooks.example.test'] })
    await using dns = await startDnsServer({
      'hooks.example.test': { CNAME: 'real.example.test' },
      'real.example.test': { A: ['127.0.0.1'] },
      'broken.example.test': 'SERVFAIL',
      'loop.example.test': { CNAME: 'loop.example.test' },
      'empty.example.test': { TXT: ['x'] },
    })
    await using service = await createTestApp({
      settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_EXTRA_CA_FILE: receiver.caFile },
    })
    const { fetch } = service.app
    expect(await fetch.post(receiver.url(), REQUEST)).toMatchObject({ kind: 'response', status: 200 })
    expect(await fetch.check(receiver.url())).toEqual({ kind: 'ok' })
    const unresolvable = (reason: string) => ({ kind: 'unresolvable' as const, reason })
    expect(await fetch.check('https://broken.example.test/')).toEqual(
      unresolvable('The DNS servers could not look up the addresses of broken.example.test (SERVFAIL).'),
    )
    expect(await fetch.check('https://loop.example.test/')).toEqual(
      unresolvable('The CNAME records of loop.example.test form a loop.'),
    )
    for (const name of ['empty.example.test', 'absent.example.test'])
      expect(await fetch.check(`https://${name}/`)).toEqual(unresolvable(`${name} has no address in DNS.`))
  })

  // Proves: webhook-12
  test('private addresses are called only with TASSIS_ALLOW_PRIVATE_NETWORKS', async () => {
    await using receiver = await startHttpsReceiver({ names: ['hooks.example.test', '127.0.0.1'] })
    await using dns = await startDnsServer({
      'hooks.example.test': { A: ['127.0.0.1'] },
      'mixed.example.test': { A: ['8.8.8.8'], AAAA: ['::1'] },
      'public.example.test': { A: ['8.8.8.8'] },
    })
    const settings = {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_EXTRA_CA_FILE: receiver.caFile,
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'false',
    }
    await using strict = await createTestApp({ settings })
    for (const url of [receiver.url(), receiver.url('127.0.0.1'), receiver.url('localhost')]) {
      expect(await strict.app.fetch.check(url)).toMatchObject({ kind: 'refused' })
      expect(await strict.app.fetch.post(url, REQUEST)).toMatchObject({ kind: 'failed', cause: 'refused' })
    }
    const because =
      'is private, loopback or reserved; the operator can allow such addresses with TASSIS_ALLOW_PRIVATE_NETWORKS.'
    expect(await strict.app.fetch.check('https://10.1.2.3:8443/')).toEqual({
      kind: 'refused',
      reason: `10.1.2.3 ${because}`,
    })
    expect(await strict.app.fetch.check('https://mixed.example.test/')).toEqual({
      kind: 'refused',
      reason: `mixed.example.test resolves to an address that ${because}`,
    })
    expect(await strict.app.fetch.check('https://public.example.test/')).toEqual({ kind: 'ok' })
    expect(receiver.connections.accepted).toBe(0)
    await using lenient = await createTestApp({ settings: { ...settings, TASSIS_ALLOW_PRIVATE_NETWORKS: 'true' } })
    for (const url of [receiver.url(), receiver.url('127.0.0.1')])
      expect(await lenient.app.fetch.post(url, REQUEST)).toMatchObject({ kind: 'response', status: 200 })
  })

  // Proves: webhook-12
  test('TASSIS_ALLOW_PRIVATE_NETWORKS=loopback allows only loopback addresses, but never its own ports', async () => {
    await using receiver = await startHttpsReceiver({ names: ['hooks.example.test', 'localhost'] })
    await using dns = await startDnsServer({
      'hooks.example.test': { A: ['127.0.0.1'] },
      'inside.example.test': { A: ['10.1.2.3'] },
      'both.example.test': { A: ['127.0.0.1', '10.1.2.3'] },
    })
    await using service = await createTestApi({
      settings: {
        TASSIS_DNS_SERVERS: dns.address,
        TASSIS_EXTRA_CA_FILE: receiver.caFile,
        TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback',
      },
    })
    const { fetch } = service.app
    for (const url of [receiver.url(), receiver.url('localhost')])
      expect(await fetch.post(url, REQUEST)).toMatchObject({ kind: 'response', status: 200 })
    const kinds = await Promise.all(
      [
        '127.1.2.3',
        '[::1]',
        'inside.example.test',
        'both.example.test',
        '10.1.2.3',
        '169.254.169.254',
        '0.0.0.0',
        `localhost:${new URL(service.url).port}`,
      ].map(async (host) => (await fetch.check(`https://${host}/`)).kind),
    )
    expect(kinds).toEqual(['ok', 'ok', 'refused', 'refused', 'refused', 'refused', 'refused', 'refused'])
  })

  // Proves: webhook-12
  test('a name that was public when its webhook was created, but now resolves to this machine, is not called', async () => {
    await using receiver = await startHttpsReceiver({ names: ['hooks.example.test'] })
    await using dns = await startDnsServer({ 'hooks.example.test': { A: ['8.8.8.8'], ttl: 0 } })
    await using service = await createTestApi({
      sendsWebhooks: true,
      settings: {
        TASSIS_DNS_SERVERS: dns.address,
        TASSIS_EXTRA_CA_FILE: receiver.caFile,
        TASSIS_ALLOW_PRIVATE_NETWORKS: 'false',
      },
    })
    const { api } = service
    const created = await api('POST', '/v1/webhooks', { url: receiver.url(), events: ['sent'] })
    expect(created.status).toBe(201)
    const path = `/v1/webhooks/${at(created.body, 'data', 'id')}`
    dns.zone['hooks.example.test'] = { A: ['127.0.0.1'], ttl: 0 }
    await api('POST', `${path}/test`)
    const delivery = async () => at((await api('GET', `${path}/deliveries`)).body, 'data', 0)
    await eventually(async () => at(await delivery(), 'status') === 'undeliverable')
    expect(await delivery()).toMatchObject({
      status_code: null,
      error:
        'hooks.example.test resolves to an address that is private, loopback or reserved; the operator can allow such addresses with TASSIS_ALLOW_PRIVATE_NETWORKS.',
    })
    expect(receiver.connections.accepted).toBe(0)
  })

  // Proves: webhook-12
  test('its own ports are never called on any address of this machine, whatever is allowed', async () => {
    await using dns = await startDnsServer({ 'self.example.test': { A: ['127.0.0.1'] } })
    await using service = await createTestApi({ settings: { TASSIS_DNS_SERVERS: dns.address } })
    const { port } = new URL(service.url)
    const addresses = Object.values(networkInterfaces())
      .flatMap((found) => found ?? [])
      .filter(({ address }) => !address.startsWith('fe80:'))
      .map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address))
    const hosts = [
      ...addresses,
      '127.0.0.1',
      '127.1.2.3',
      '0.0.0.0',
      '[::]',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:0.0.0.0]',
      'localhost',
      'self.example.test',
    ]
    const refused = async (url: string) => (await service.app.fetch.check(url)).kind === 'refused'
    const called: string[] = []
    for (const host of hosts) if (!(await refused(`https://${host}:${port}/`))) called.push(host)
    expect(called).toEqual([])
    expect(await service.app.fetch.check(`https://self.example.test:${port}/`)).toEqual({
      kind: 'refused',
      reason: `self.example.test resolves to an address that is this machine, and port ${port} belongs to the service itself; use the port of your own endpoint.`,
    })
    // Only the port differs.
    expect(await refused(`https://127.0.0.1:${port === '65535' ? 1 : Number(port) + 1}/`)).toBe(false)
    expect(await refused(`https://192.0.2.1:${port}/`)).toBe(false)
  })

  test('the ports of the capture server and of the simulator count as its own', async () => {
    await using service = await createTestApp({ delivers: true })
    expect([...service.app.ownPorts]).toHaveLength(2)
  })
})

test('the authorities of TASSIS_EXTRA_CA_FILE are added to the default ones', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  try {
    const path = join(folder, 'ca.pem')
    const [one, two] = [createCertificateAuthority('One').pem, createCertificateAuthority('Two').pem]
    writeFileSync(path, `# ours\n${one}\n${two}`)
    const authorities = readCertificateAuthorities({ extraCaFile: path })
    expect(authorities).toEqual([...getCACertificates('default'), one.trim(), two.trim()])
    expect(authorities?.length).toBeGreaterThan(100)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test.each([
  ['is not there', undefined, 'which cannot be read'],
  ['is empty', '', 'which holds no certificate'],
  [
    'is damaged',
    '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    'which holds a certificate that cannot be read',
  ],
])('a TASSIS_EXTRA_CA_FILE that %s stops the start with one sentence', async (_, content, what) => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-test-'))
  try {
    const path = join(folder, 'ca.pem')
    if (content !== undefined) writeFileSync(path, content)
    const sentence = `TASSIS_EXTRA_CA_FILE is "${path}", ${what}; use a readable file of PEM certificates, or unset it.`
    await expect(createTestApp({ settings: { TASSIS_EXTRA_CA_FILE: path } })).rejects.toThrow(new ConfigError(sentence))
  } finally {
    rmSync(folder, { recursive: true })
  }
})

const MESSAGES = 100
const MAX_DELIVERY_EXCHANGES = 256
/** The key is looked up only if the body hash matches. */
const BODY = 'Hi.\r\n'
const BODY_HASH = new Bun.CryptoHasher('sha256').update(BODY).digest('base64')

test('silent DNS servers of senders do not delay the DNS lookups of delivery', async () => {
  const zone: Zone = { 'customer.test': { MX: [{ preference: 10, exchange: 'mx.customer.test' }] } }
  for (let n = 0; n < MESSAGES; n++) {
    zone[`s${n}.test`] = 'SILENCE'
    zone[`k._domainkey.s${n}.test`] = 'SILENCE'
    zone[`${n}.2.0.192.in-addr.arpa`] = 'SILENCE'
  }
  await using dns = await startDnsServer(zone)
  // Nothing times out, because the clock does not advance.
  const clock = new ManualClock(Date.UTC(2026, 10, 3))
  await using service = await createTestApp({ clock, receives: true, settings: { TASSIS_DNS_SERVERS: dns.address } })
  for (let n = 0; n < MESSAGES; n++) {
    const text = `DKIM-Signature: v=1; a=rsa-sha256; d=s${n}.test; s=k; h=From; bh=${BODY_HASH}; b=AAAA\r\nFrom: a@s${n}.test\r\n\r\n${BODY}`
    await receiveMessage(service.app, {
      mailFrom: `a@s${n}.test`,
      destinations: [{ kind: 'host', address: 'postmaster@mail.tassis.test' }],
      sourceIp: `192.0.2.${n}`,
      helo: 'mx.sender.test',
      tls: null,
      sizeBytes: text.length,
      content: { kind: 'bytes', bytes: Buffer.from(text) },
    })
  }
  await dns.received(MAX_DELIVERY_EXCHANGES + 1)
  expect(await service.app.resolver.mx('customer.test')).toMatchObject({
    kind: 'ok',
    records: [{ preference: 10, exchange: 'mx.customer.test' }],
  })

  // Stopping waits for pending DNS lookups, on this clock.
  let isStopped = false
  void service.inbound?.stop().then(() => {
    isStopped = true
  })
  await eventually(() => {
    clock.advance(seconds(1))
    return isStopped
  })
})
