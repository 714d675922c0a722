/**
 * @module A tracking domain from its setup to the click: real DNS, real SMTP to a receiver, real HTTP under the name of
 * the tracking host.
 */
import { expect, test } from 'bun:test'
import { request } from 'node:http'
import { simpleParser } from 'mailparser'
import { recheckDomains } from '#features/setup/domains/recheck.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type NameEntry, startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { startSink } from '#test/support/sink.ts'

const HOST = 'links.brand.test'
const TARGET = 'https://shop.test/order?item=1'
const HTML = `<p><a href="${TARGET}">Your order</a></p>`

interface Domain {
  readonly id: string
  readonly domain: string
  readonly dns_records: Readonly<Record<string, { type: string; host: string; value: string; priority?: number }>>
}

/** Sends a GET to 127.0.0.1 with `url`'s host name, as a reverse proxy passes it on; returns status and Location. */
function visit(port: string, url: URL): Promise<{ status: number | undefined; location: string | undefined }> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { host: '127.0.0.1', port, path: url.pathname, headers: { host: url.host, 'user-agent': 'Firefox/132.0' } },
      (response) => {
        response.resume()
        resolve({ status: response.statusCode, location: response.headers.location })
      },
    )
    outgoing.on('error', reject)
    outgoing.end()
  })
}

// Proves: track-17
test('links of a domain use its tracking host while it is verified, and redirect under it', async () => {
  await using sink = await startSink()
  await using dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  await using service = await createEmailApi({
    delivers: true,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(sink.port),
      TASSIS_PUBLIC_URL: 'https://mail.tassis.test:8443',
    },
  })
  const { api, accepted } = service
  const domains = at((await api('GET', '/v1/domains')).body, 'data') as Domain[]
  const { id = '', dns_records: records = {} } = domains.find(({ domain }) => domain === 'sender.test') ?? {}
  for (const { type, host, value, priority: preference = 0 } of Object.values(records)) {
    const published = type === 'MX' ? { MX: [{ preference, exchange: value }] } : { TXT: [value] }
    dns.zone[host] = { ...(dns.zone[host] as NameEntry | undefined), ...published }
  }
  dns.zone['mail.tassis.test'] = { A: ['127.0.0.1'] }
  expect(at((await api('POST', `/v1/domains/${id}/verify`)).body, 'data', 'fully_verified')).toBe(true)
  /** Link and pixel of the next tracked email. */
  const nextUrls = async (): Promise<URL[]> => {
    const before = sink.messages.length
    await accepted({ html_body: HTML, tracking: true })
    const { raw } = await eventually(() => sink.messages[before])
    const { html } = await simpleParser(Buffer.from(raw, 'latin1'))
    return [...String(html).matchAll(/(?:href|src)="([^"]*)"/g)].map(([, url = '']) => new URL(url))
  }
  const origins = async () => (await nextUrls()).map(({ origin }) => origin)
  const own = 'https://mail.tassis.test:8443'
  const tracking = `https://${HOST}:8443`

  const set = await api('PUT', `/v1/domains/${id}/tracking-domain`, { tracking_domain: HOST })
  expect([set.status, at(set.body, 'cname_target')]).toEqual([200, 'mail.tassis.test'])
  expect(await origins()).toEqual([own, own])

  dns.zone[HOST] = { CNAME: String(at(set.body, 'data', 'dns_records', 'tracking', 'value')) }
  const check = await api('POST', `/v1/domains/${id}/verify-tracking`)
  expect(at(check.body, 'tracking_check', 'verified')).toBe(true)
  const urls = await nextUrls()
  expect(urls.map(({ origin }) => origin)).toEqual([tracking, tracking])
  const { port } = new URL(service.url)
  const visited = await Promise.all(urls.map((url) => visit(port, url)))
  expect(visited).toEqual([
    { status: 302, location: TARGET },
    { status: 200, location: undefined },
  ])

  // A scheduled check without a DNS response leaves the links unchanged.
  dns.zone[HOST] = 'SERVFAIL'
  service.clock.advance(minutes(5))
  expect(await recheckDomains(service.app)).toBeGreaterThan(0)
  expect(await origins()).toEqual([tracking, tracking])

  dns.zone[HOST] = { CNAME: 'elsewhere.test' }
  await api('POST', `/v1/domains/${id}/verify-tracking`)
  expect(await origins()).toEqual([own, own])
  // Links in mail sent earlier keep working, if the name resolves to this host again.
  expect(await visit(port, urls[0] ?? new URL(own))).toEqual({ status: 302, location: TARGET })
})
