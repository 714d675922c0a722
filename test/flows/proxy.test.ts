/**
 * @module The public side behind a real reverse proxy: Debian's Caddy and nginx with the configuration from
 * contrib, changed only in ports, paths and certificate authority. Clients connect from 127.0.0.2 and ::1,
 * so that they are not taken for the proxy.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect as connectHttp2, constants, type IncomingHttpHeaders } from 'node:http2'
import { request } from 'node:https'
import { connect as connectTls } from 'node:tls'
import { simpleParser } from 'mailparser'
import { HEARTBEAT_MS } from '#features/webhooks/event-feed/stream.ts'
import { MiB } from '#platform/units.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { isChromiumAvailable, startBrowser } from '#test/support/browser.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type Caddy, isProxyAvailable, type ReverseProxy, startCaddy, startNginx } from '#test/support/proxies.ts'
import { startSink } from '#test/support/sink.ts'
import { createTestUser, PASSWORD } from '#test/support/users.ts'

const OWN = 'mail.example.com'
/** The tracking host of sender.test, which is verified. */
const LINKS = 'links.example.com'
const TARGET = 'https://shop.test/order?item=1'
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'
/** A proxy in front of the proxy. */
const FRONT = '127.0.0.3'
/** Headers of a client that pretends to be another one. */
const FORGED = {
  'x-forwarded-for': '198.51.100.7, 127.0.0.1',
  forwarded: 'for=198.51.100.7',
  'x-real-ip': '198.51.100.7',
}

const readContrib = (path: string): string => readFileSync(`${import.meta.dir}/../../contrib/${path}`, 'utf8')

interface ProxyResponse {
  readonly status: number | undefined
  readonly location: string | undefined
  readonly body: string
}

interface ProxyRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The client's address: one of 127.0.0.0/8, or ::1. */
  readonly from?: string
}

/** The service and everything around it except the proxy. */
interface Site extends AsyncDisposable {
  readonly service: EmailApi
  readonly dns: DnsServer
  /** host:port of the service's listener. */
  readonly upstream: string
  /** Receives an email and returns it with the URLs in its HTML. */
  receive(request: Record<string, unknown>, options?: ApiOptions): Promise<{ id: string; raw: string; urls: URL[] }>
  /** Resolves with `count` open and click events: kind and client address. */
  told(id: string, count: number): Promise<unknown[]>
}

async function startSite(): Promise<Site> {
  const sink = await startSink()
  const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  const service = await createEmailApi({
    delivers: true,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(sink.port),
      TASSIS_PUBLIC_URL: `https://${OWN}`,
      TASSIS_TRUSTED_PROXIES: `127.0.0.1,${FRONT}`,
    },
  })
  await setLinks(service, 'sender.test', LINKS)
  dns.zone[LINKS] = { CNAME: OWN }
  await verifyLinks(service, 'sender.test')
  return {
    service,
    dns,
    upstream: new URL(service.url).host,
    async receive(given, options) {
      const { id } = await service.accepted({ html_body: `<a href="${TARGET}">Order</a>`, ...given }, options)
      // Matches by the id in the Message-ID, since mail of other tests may arrive too.
      const { raw } = await eventually(() => sink.messages.find((message) => message.raw.includes(id)))
      const { html } = await simpleParser(Buffer.from(raw, 'latin1'))
      const urls = [...String(html).matchAll(/(?:href|src)="([^"]*)"/g)].map(([, url = '']) => new URL(url))
      return { id, raw, urls }
    },
    told: (id, count) =>
      eventually(async () => {
        const events = at(await service.detail(id), 'events') as { type: string; ip_address: unknown }[]
        const seen = events.filter(({ type }) => type === 'opened' || type === 'clicked')
        return seen.length >= count && seen.map(({ type, ip_address: address }) => [type, address])
      }),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
      await sink[Symbol.asyncDispose]()
    },
  }
}

async function domainPath({ api }: EmailApi, name: string): Promise<string> {
  const domains = at((await api('GET', '/v1/domains')).body, 'data') as { id: string; domain: string }[]
  return `/v1/domains/${domains.find(({ domain }) => domain === name)?.id}`
}

async function setLinks(service: EmailApi, domain: string, host: string): Promise<void> {
  const path = `${await domainPath(service, domain)}/tracking-domain`
  expect((await service.api('PUT', path, { tracking_domain: host })).status).toBe(200)
}

async function verifyLinks(service: EmailApi, domain: string): Promise<void> {
  const { body } = await service.api('POST', `${await domainPath(service, domain)}/verify-tracking`)
  expect(at(body, 'tracking_check', 'verified')).toBe(true)
}

/** Sends a request to `host` through the proxy; rejects when there is no certificate for it. */
function sendRequest(
  proxy: ReverseProxy,
  host: string,
  path: string,
  { from = '127.0.0.2', ...given }: ProxyRequest = {},
): Promise<ProxyResponse> {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: from.includes(':') ? '::1' : '127.0.0.1',
        localAddress: from,
        port: proxy.port,
        servername: host,
        ca: proxy.caPem,
        path,
        method: given.method ?? 'GET',
        headers: { host, 'user-agent': BROWSER, ...given.headers },
      },
      (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece: Buffer) => pieces.push(piece))
        response.on('end', () =>
          resolve({
            status: response.statusCode,
            location: response.headers.location,
            body: Buffer.concat(pieces).toString(),
          }),
        )
      },
    )
    outgoing.on('error', reject)
    outgoing.end(given.body)
  })
}

const isRefused = (proxy: ReverseProxy, host: string): Promise<boolean> =>
  sendRequest(proxy, host, '/t/x').then(
    () => false,
    () => true,
  )

/** Sends a GET over HTTP/2; returns the status, and the body as it arrives. */
async function openHttp2(proxy: ReverseProxy, path: string, headers: Readonly<Record<string, string>>) {
  const socket = connectTls({
    host: '127.0.0.1',
    port: proxy.port,
    servername: OWN,
    ca: proxy.caPem,
    ALPNProtocols: ['h2'],
  })
  const session = connectHttp2(`https://${OWN}`, { createConnection: () => socket })
  const stream = session.request({ [constants.HTTP2_HEADER_PATH]: path, ...headers })
  let text = ''
  stream.on('data', (piece: Buffer) => {
    text += piece.toString()
  })
  const response = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
    stream.on('response', resolve)
    session.on('error', reject)
  })
  return {
    status: response[constants.HTTP2_HEADER_STATUS] as unknown,
    protocol: socket.alpnProtocol,
    text: () => text,
    [Symbol.dispose]: () => session.destroy(),
  }
}

/** An event stream through the proxy delivers stored events, then new ones, then heartbeats, without buffering. */
async function expectLiveStream(site: Site, proxy: ReverseProxy): Promise<void> {
  const { service } = site
  const { id: first } = await service.accepted()
  const headers = { authorization: `Bearer ${service.key}`, accept: 'text/event-stream' }
  using stream = await openHttp2(proxy, '/v1/events', headers)
  expect([stream.status, stream.protocol]).toEqual([200, 'h2'])
  await eventually(() => stream.text().includes(first))
  const { id: second } = await service.accepted()
  await eventually(() => stream.text().includes(second))
  await eventually(() => {
    service.clock.advance(HEARTBEAT_MS)
    return stream.text().includes(': heartbeat\n')
  })
}

async function expectVisitor(site: Site, proxy: ReverseProxy, from: string): Promise<void> {
  const { id, urls } = await site.receive({ tracking: true })
  const answers = await Promise.all(
    urls.map(({ hostname, pathname }) => sendRequest(proxy, hostname, pathname, { from, headers: FORGED })),
  )
  expect(answers.map(({ status, location }) => [status, location])).toEqual([
    [302, TARGET],
    [200, undefined],
  ])
  expect((await site.told(id, 2)).sort()).toEqual([
    ['clicked', from],
    ['opened', from],
  ])
}

async function expectLinksOnly(proxy: ReverseProxy): Promise<void> {
  const paths = ['/', '/healthz', '/v1/events', '/login', '/t/../healthz', '/t/%2e%2e/healthz', '//t/..//healthz']
  const answers = await Promise.all(paths.map((path) => sendRequest(proxy, LINKS, path)))
  expect(answers.map(({ status }, i) => [paths[i], status])).toEqual(paths.map((path) => [path, 404]))
  expect((await sendRequest(proxy, OWN, '/healthz')).status).toBe(200)
}

/**
 * Under a tracking host, a link of another account's mail is a 404, which shows that the proxy passes the host name on.
 */
async function expectOwnLinksOnly({ service, receive }: Site, proxy: ReverseProxy): Promise<void> {
  const other = await service.newAccount()
  await service.addDomain(other, 'other.test')
  const key = await service.newKey([], other)
  const { urls } = await receive({ from: 'eve@other.test', tracking: true }, { key })
  const [{ hostname, pathname } = new URL('none:')] = urls
  const under = await Promise.all([OWN, LINKS].map((host) => sendRequest(proxy, host, pathname)))
  expect([hostname, ...under.map(({ status }) => status)]).toEqual([OWN, 302, 404])
}

/** Sends an email with an attachment through the proxy. */
async function attach({ service }: Site, proxy: ReverseProxy, bytes: number): Promise<unknown> {
  const content = Buffer.alloc(bytes, 7).toString('base64')
  const attachments = [{ filename: 'a.bin', content, content_type: 'application/octet-stream' }]
  const { status, body } = await sendRequest(proxy, OWN, '/v1/emails', {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      from: 'ada@sandbox.test',
      to: 'bob@receiver.test',
      subject: 'Big',
      text_body: 'x',
      attachments,
    }),
  })
  return [status, at(JSON.parse(body), 'data', 'sandbox')]
}

describe.skipIf(!isProxyAvailable('caddy'))('behind Caddy', () => {
  let site: Site
  let caddy: Caddy
  beforeAll(async () => {
    site = await startSite()
    caddy = await startCaddy(readContrib('caddy/Caddyfile.tracking').replaceAll('127.0.0.1:8080', site.upstream), OWN)
  })
  afterAll(async () => {
    await caddy?.[Symbol.asyncDispose]()
    await site?.[Symbol.asyncDispose]()
  })

  // Proves: domain-32, track-17
  test('a tracking host has no certificate until it is verified, and one at the first click after that', async () => {
    const { service, dns } = site
    const fresh = 'click.fresh.test'
    const strangers = ['www.example.com', `deep.${fresh}`, 'localhost']
    const certified = () => [fresh, ...strangers].filter((host) => caddy.certificates().includes(host))
    await service.addDomain(service.actor, 'fresh.test')
    await setLinks(service, 'fresh.test', fresh)
    const before = await Promise.all([fresh, ...strangers].map((host) => isRefused(caddy, host)))
    expect([before, certified()]).toEqual([[true, true, true, true], []])

    dns.zone[fresh] = { CNAME: OWN }
    await verifyLinks(service, 'fresh.test')
    const { urls } = await site.receive({ from: 'ada@fresh.test', tracking: true })
    expect(urls.map(({ hostname }) => hostname)).toEqual([fresh, fresh])
    const [link, pixel] = await Promise.all(
      urls.map(({ hostname, pathname }) => sendRequest(caddy, hostname, pathname)),
    )
    expect([link?.status, link?.location, pixel?.status]).toEqual([302, TARGET, 200])
    const after = await Promise.all(strangers.map((host) => isRefused(caddy, host)))
    expect([after, certified()]).toEqual([[true, true, true], [fresh]])
    const plain = await fetch(`http://[::1]:${caddy.httpPort}/t/x`, { headers: { host: fresh }, redirect: 'manual' })
    expect([plain.status, plain.headers.get('location')]).toEqual([308, `https://${fresh}/t/x`])
  })

  // Proves: status-13
  test.each(['127.0.0.2', '::1'])(
    'a visitor from %s is redirected, and recorded as such whatever headers the client forges',
    (from) => expectVisitor(site, caddy, from),
  )

  test('a tracking host serves links and nothing else, however the path is written', () => expectLinksOnly(caddy))

  // Proves: track-8
  test('a tracking host redirects only links of its own account', async () => expectOwnLinksOnly(site, caddy))

  test('the API supports HTTP/2, and an event stream is not buffered', async () => expectLiveStream(site, caddy))

  test.skipIf(!isChromiumAvailable())(
    'the dashboard works over HTTP/2, with live events',
    async () => {
      const { service } = site
      await createTestUser(service.app, service.actor, 'ada@people.test', 'owner')
      await using browser = await startBrowser([
        `--host-resolver-rules=MAP ${OWN}:443 127.0.0.1:${caddy.port}`,
        '--ignore-certificate-errors',
      ])
      const page = await browser.newPage()
      const errors: string[] = []
      page.on('pageerror', (error) => errors.push(String(error)))
      page.on('requestfailed', (request) => errors.push(`${request.url()} ${request.failure()?.errorText}`))
      await page.goto(`https://${OWN}/login`)
      await page.getByLabel('Email address').fill('ada@people.test')
      await page.getByLabel('Password').fill(PASSWORD)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('link', { name: 'Emails', exact: true }).click()
      await page.getByRole('heading', { name: 'Emails' }).waitFor()
      await page.getByRole('status').getByText('Live', { exact: true }).waitFor({ state: 'attached' })
      expect(await page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol")).toBe('h2')
      const subject = 'Seen live through the proxy'
      await service.accepted({ subject })
      await page.getByRole('button', { name: /new/ }).or(page.getByText(subject)).first().waitFor()
      for (const screen of ['Domains', 'Webhooks', 'Templates', 'Analytics', 'Settings']) {
        await page.getByRole('link', { name: screen, exact: true }).click()
        await page.getByRole('heading', { name: screen, level: 1 }).waitFor()
      }
      expect(errors.filter((error) => !error.includes('net::ERR_ABORTED'))).toEqual([])
    },
    120_000,
  )

  test('attachments of 25 MiB arrive', async () => expect(await attach(site, caddy, 25 * MiB)).toEqual([202, true]))

  test('one click unsubscribes', async () => {
    const { raw } = await site.receive({ transactional: false })
    const [, path = ''] = new RegExp(`<https://${OWN}(/u/[^>]*)>`).exec(raw.replace(/\r\n(?=[ \t])/g, '')) ?? []
    const { status } = await sendRequest(caddy, OWN, path, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'List-Unsubscribe=One-Click',
    })
    const { body } = await site.service.api('GET', '/v1/suppressions')
    expect([status, at(body, 'data', 0, 'email_address'), at(body, 'data', 0, 'reason')]).toEqual([
      200,
      'bob@receiver.test',
      'unsubscribe',
    ])
  })
})

describe.skipIf(!isProxyAvailable('nginx'))('behind nginx', () => {
  let site: Site
  let nginx: ReverseProxy
  const startPrinted = (change = (snippet: string) => snippet): Promise<ReverseProxy> => {
    const files = {
      'snippets/tassis.conf': change(readContrib('nginx/tassis-proxy.conf')).replaceAll(
        '127.0.0.1:8080',
        site.upstream,
      ),
      'conf.d/tassis.conf': readContrib('nginx/tassis.conf'),
      'conf.d/tassis-tracking.conf': readContrib('nginx/tassis-tracking.conf'),
    }
    return startNginx(files, [OWN, LINKS])
  }
  beforeAll(async () => {
    site = await startSite()
    nginx = await startPrinted()
  })
  afterAll(async () => {
    await nginx?.[Symbol.asyncDispose]()
    await site?.[Symbol.asyncDispose]()
  })

  test.each(['127.0.0.2', '::1'])(
    'a visitor from %s is redirected, and recorded as such whatever headers the client forges',
    (from) => expectVisitor(site, nginx, from),
  )

  test('a tracking host serves links and nothing else, however the path is written', () => expectLinksOnly(nginx))

  // Proves: track-8
  test('a tracking host redirects only links of its own account', async () => expectOwnLinksOnly(site, nginx))

  test('the API supports HTTP/2, and an event stream is not buffered', async () => expectLiveStream(site, nginx))

  test("attachments over nginx's default of 1 MiB arrive", async () =>
    expect(await attach(site, nginx, 2 * MiB)).toEqual([202, true]))

  // Proves: status-13
  test('behind another proxy the recorded visitor is the client that this proxy saw, whatever headers the client forges', async () => {
    await using behind = await startPrinted((snippet) =>
      snippet.replace('X-Forwarded-For $remote_addr', 'X-Forwarded-For $proxy_add_x_forwarded_for'),
    )
    for (const [from, forwarded, visitor] of [
      [FRONT, `${FORGED['x-forwarded-for']}, 127.0.0.2`, '127.0.0.2'],
      [FRONT, `${FORGED['x-forwarded-for']}, 2001:db8::7`, '2001:db8::7'],
      // From the trusted proxy itself.
      ['127.0.0.2', FORGED['x-forwarded-for'], '127.0.0.2'],
    ] as const) {
      const { id, urls } = await site.receive({ tracking: true })
      const { pathname } = urls[0] ?? new URL('none:')
      await sendRequest(behind, LINKS, pathname, { from, headers: { 'x-forwarded-for': forwarded } })
      expect(await site.told(id, 1)).toEqual([['clicked', visitor]])
    }
  })
})
