/** @module Publishes the records of a domain through the API at each HTTP provider, until DNS shows them. */
import { expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { createTestApi } from '#test/support/api.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import type { Published } from './fixture.ts'
import { getStub, STUBS } from './stubs/providers.ts'
import { serveStub } from './stubs/serve.ts'
import type { ProviderStub } from './stubs/zone.ts'

const ca = createCertificateAuthority()
const KEYS = ['spf', 'dkim', 'return_path', 'dkim_ed25519', 'dmarc']

/** Serves what the provider publishes. */
function serveLines(zone: Zone, lines: readonly string[]): void {
  for (const name of Object.keys(zone)) delete zone[name]
  for (const line of lines) {
    const [name = '', , type = '', ...words] = line.split(' ')
    const entry = zone[name] ?? {}
    zone[name] = entry
    if (typeof entry === 'string') continue
    if (type === 'TXT') entry.TXT = [...(Array.isArray(entry.TXT) ? entry.TXT : []), words.join(' ')]
    if (type === 'A') entry.A = words
    if (type === 'MX') entry.MX = [{ preference: Number(words[0]), exchange: words[1]?.slice(0, -1) ?? '' }]
  }
}

async function start(stub: ProviderStub) {
  const served = await serveStub(stub, ca, systemClock.now)
  const [zone] = served.zones
  const dns = await startDnsServer({})
  zone.onPublish = (lines) => serveLines(dns.zone, lines)
  zone.put('', 'A', '192.0.2.1')
  zone.put('', 'TXT', '"google-site-verification=abc"', 7200)
  zone.publish()
  const service = await createTestApi({
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_OUTBOUND_IPS: '192.0.2.25',
      TASSIS_EXTRA_CA_FILE: served.caFile,
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    },
  })
  const made = await service.api('POST', '/v1/domains', { domain: 'example.com' })
  const { id } = (made.body as { data: { id: string } }).data
  return {
    served,
    zone,
    post: (body: object) => service.api('POST', `/v1/domains/${id}/publish`, body),
    domain: async () => (await service.api('GET', `/v1/domains/${id}`)).body,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns[Symbol.asyncDispose]()
      await served[Symbol.asyncDispose]()
    },
  }
}

const outcome = (body: unknown): string[] =>
  (body as { data: Published }).data.records.map(({ key, action, state }) => `${key}: ${action} ${state}`)

test.concurrent.each(STUBS.map((stub) => [stub.name, stub] as const))(
  '%s: from a token to verified',
  async (name, stub) => {
    await using t = await start(stub)
    const before = t.zone.dns
    const request = { provider: name, credentials: t.served.credentials }
    const planned = await t.post({ ...request, dry_run: true })
    expect(outcome(planned.body)).toEqual(KEYS.map((key) => `${key}: create planned`))
    expect(t.served.requests.filter(({ method }) => method !== 'GET')).toEqual([])
    const done = await t.post(request)
    expect(outcome(done.body)).toEqual(KEYS.map((key) => `${key}: create published`))
    expect((done.body as { data: Published }).data.summary).toEndWith('DNS shows all records of example.com.')
    expect(await t.domain()).toMatchObject({
      data: { status: 'verified', dmarc_verified: true, dkim_ed25519_verified: true },
    })
    expect(before.filter((line) => !t.zone.dns.includes(line))).toEqual([])
    expect(t.zone.dns.length).toBe(before.length + KEYS.length)
    // Again, with the kept credentials: nothing is written.
    const writes = () =>
      t.served.requests.filter(({ method, url }) => method !== 'GET' && !url.endsWith('/refresh')).length
    const written = writes()
    expect(outcome((await t.post({})).body)).toEqual(KEYS.map((key) => `${key}: leave unchanged`))
    expect(writes()).toBe(written)
    // Errors of the provider reach the caller.
    t.served.fault = 'no_rights'
    const refused = await t.post({})
    expect(refused.status).toBe(422)
    expect(refused.body).toMatchObject({ error: { code: 'dns_unauthorised' } })
  },
)

test.concurrent('OVHcloud: what a run wrote and did not publish is published by the next one', async () => {
  await using t = await start(getStub('ovh'))
  t.zone.isSilent = true
  const request = { provider: 'ovh', credentials: t.served.credentials }
  expect(outcome((await t.post(request)).body)).toEqual(KEYS.map((key) => `${key}: create published`))
  expect(await t.domain()).toMatchObject({ data: { status: 'pending' } })
  t.zone.isSilent = false
  expect(outcome((await t.post(request)).body)).toEqual(KEYS.map((key) => `${key}: leave unchanged`))
  expect(await t.domain()).toMatchObject({ data: { status: 'verified', dmarc_verified: true } })
})
