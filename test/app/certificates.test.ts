import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { createHttp } from '#app/http.ts'
import { type Service, startCertificates, startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { Challenges } from '#features/setup/certificates/challenges.ts'
import { createScreen } from '#features/setup/certificates/screen.ts'
import { certificateStates } from '#features/setup/certificates/states.ts'
import { readOrdersState, writeCertificate } from '#features/setup/certificates/store.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { dkimKeyFromFile } from '#test/support/dkim-keys.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { isPebbleAvailable, type Pebble, startPebble } from '#test/support/pebble.ts'
import { createDataFolder, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const HOST = 'mail.tassis.test'
const TRACKING_HOST = 'links.customer.test'

interface Setup {
  readonly dns: DnsServer
  readonly pebble: Pebble
  readonly service: Service
  readonly dataDir: string
  readonly httpPort: number
  readonly httpsPort: number
}

let t: Setup

/** Runs curl against the HTTPS listener; resolves with its output: the body and `%{http_code}`. */
async function curl(url: string, ...options: readonly string[]): Promise<{ code: number; output: string }> {
  const { hostname } = new URL(url)
  const root = join(t.dataDir, 'root.pem')
  writeFileSync(root, await t.pebble.rootPem())
  await using child = Bun.spawn(
    [
      ...['curl', '--silent', '--show-error', '--cacert', root, '--max-time', '20'],
      ...['--connect-to', `${hostname}::127.0.0.1:${t.httpsPort}`, '--write-out', ' %{http_code}', ...options, url],
    ],
    { stdout: 'pipe', stderr: 'pipe' },
  )
  const [out, errors, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, output: `${out}${errors}`.trim() }
}

/** The certificate of a TLS server, seen by OpenSSL. */
async function seenCertificate(...options: readonly string[]): Promise<X509Certificate> {
  await using child = Bun.spawn(['openssl', 's_client', '-connect', `127.0.0.1:${t.httpsPort}`, ...options], {
    stdin: new Blob([]),
    stdout: 'pipe',
    stderr: 'ignore',
  })
  const pem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(await child.stdout.text())?.[0]
  return new X509Certificate(pem ?? '')
}

describe.skipIf(!isPebbleAvailable())('certificates of an ACME server', () => {
  beforeAll(async () => {
    const [httpPort, httpsPort] = await Promise.all([findFreePort(), findFreePort()])
    const dns = await startDnsServer({ [HOST]: { A: ['127.0.0.1'] }, [TRACKING_HOST]: { A: ['127.0.0.1'] } })
    const pebble = await startPebble({ dnsServer: dns.address, httpPort, tlsPort: httpsPort })
    const dataDir = mkdtempSync(join(tmpdir(), 'tassis-certificates-'))
    const { config } = loadConfig({
      TASSIS_DATA_DIR: dataDir,
      TASSIS_HOSTNAME: HOST,
      TASSIS_PUBLIC_URL: `https://${HOST}`,
      TASSIS_HTTP_ADDR: `127.0.0.1:${httpPort}`,
      TASSIS_HTTPS_ADDR: `127.0.0.1:${httpsPort}`,
      TASSIS_INBOUND_ADDR: '127.0.0.1:0',
      TASSIS_ACME_TERMS_AGREED: 'true',
      TASSIS_ACME_URL: pebble.directoryUrl,
      TASSIS_EXTRA_CA_FILE: pebble.caFile,
      TASSIS_DELIVERY: 'capture',
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_LOG_LEVEL: 'silent',
      TASSIS_MIN_FREE_DISK: '0',
    })
    const options = { createDkimKey: dkimKeyFromFile }
    const opened = openApp(config, options)
    const { domain } = await createDomain(opened.app, await createTestAccount(opened.app), 'customer.test')
    opened.app.db.run(
      'UPDATE domains SET verified_at = 1, tracking_domain = ?, tracking_verified_at = 1 WHERE id = ?',
      [TRACKING_HOST, domain.id],
    )
    await opened.close()
    // What a service finds that was off for long.
    const times = { notBefore: new Date(Date.UTC(2020, 0, 1)), notAfter: new Date(Date.UTC(2021, 0, 1)) }
    writeCertificate(dataDir, HOST, createCertificateAuthority().issue([HOST], times))
    const service = await startService(config, options)
    t = { dns, pebble, service, dataDir, httpPort, httpsPort }
    await eventually(() => certificateStates(service.opened.app).every(({ notAfter = 0 }) => notAfter > Date.now()))
  })

  afterAll(async () => {
    await t.service.stop()
    await t.pebble[Symbol.asyncDispose]()
    await t.dns.close()
    rmSync(t.dataDir, { recursive: true, force: true })
  })

  // Proves: certificate-2, certificate-3
  test('the public host has a new one in place of the expired one, and curl accepts it', async () => {
    expect(await curl(`https://${HOST}/healthz`)).toEqual({ code: 0, output: '{"status":"ok"} 200' })
    const states = certificateStates(t.service.opened.app)
    expect(states.map(({ host, use, source, lastError }) => [host, use, source, lastError])).toEqual([
      [HOST, 'api', 'acme', undefined],
      [HOST, 'smtp', 'acme', undefined],
      [TRACKING_HOST, 'tracking', 'acme', undefined],
    ])
    const folder = join(t.dataDir, 'certificates')
    const modes = ['', 'account.key', 'orders.json', `${HOST}.pem`].map((name) => modeOf(join(folder, name)))
    expect(modes).toEqual([0o700, 0o600, 0o600, 0o600])
  })

  // Proves: certificate-2, certificate-4
  test('a verified tracking host has its own by SNI, and serves tracked links only', async () => {
    const statuses: string[] = []
    for (const path of [`/t/tls-allowed?domain=${TRACKING_HOST}`, '/app', '/v1/emails', '/docs', '/'])
      statuses.push((await curl(`https://${TRACKING_HOST}${path}`, '--output', '/dev/null')).output)
    expect(statuses).toEqual(['200', '404', '404', '404', '404'])
    expect((await curl(`https://${HOST}/v1/emails`, '--output', '/dev/null')).output).toBe('401')
    expect((await seenCertificate('-servername', TRACKING_HOST)).subjectAltName).toBe(`DNS:${TRACKING_HOST}`)
  })

  // Proves: certificate-3
  test('a name that no account has verified gets the one of the public host, and causes no order', async () => {
    for (const options of [
      ['-servername', 'stranger.test'],
      ['-noservername'],
      ['-servername', `${HOST.toUpperCase()}`],
    ])
      expect((await seenCertificate(...options)).subjectAltName).toBe(`DNS:${HOST}`)
    expect((await curl('https://stranger.test/healthz')).code).toBe(60)
    expect(Object.keys(readOrdersState(t.dataDir).hosts).sort()).toEqual([TRACKING_HOST, HOST])
    expect(t.pebble.log()).not.toContain('stranger')
    // Port 443 is enough: both were validated by TLS-ALPN-01.
    expect(t.pebble.log()).not.toContain('validate w/ HTTP')
  })

  test('clients with an old protocol or another application protocol are refused, and the listener stays up', async () => {
    for (const options of [
      ['-tls1_1', '-cipher', 'DEFAULT@SECLEVEL=0'],
      ['-alpn', 'acme-tls/1'],
      ['-alpn', 'h2'],
    ])
      await expect(seenCertificate(...options)).rejects.toThrow()
    const socket = await Bun.connect({ hostname: '127.0.0.1', port: t.httpsPort, socket: { data: () => undefined } })
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    expect((await curl(`https://${HOST}/healthz`)).output).toBe('{"status":"ok"} 200')
    socket.end()
  })

  test('a large body goes in, and a request reaches its route with method and headers', async () => {
    const body = join(t.dataDir, 'body')
    writeFileSync(body, JSON.stringify({ email: 'x'.repeat(50_000) }))
    const { output } = await curl(
      `https://${HOST}/v1/auth/login`,
      ...['--data-binary', `@${body}`, '--header', 'Content-Type: application/json'],
    )
    expect(output).toMatch(/"field":"email".* 422$/s)
  })

  // Proves: certificate-1
  test('without an order no token is known, over HTTP and HTTPS', async () => {
    const path = '/.well-known/acme-challenge/some-token'
    const plain = await fetch(`http://127.0.0.1:${t.httpPort}${path}`)
    expect([plain.status, (await curl(`https://${HOST}${path}`, '--output', '/dev/null')).output]).toEqual([404, '404'])
  })
})

// Proves: certificate-1
test.skipIf(!isPebbleAvailable())('without HTTPS, as behind a proxy, HTTP-01 gets one for SMTP', async () => {
  const httpPort = await findFreePort()
  await using dns = await startDnsServer({ [HOST]: { A: ['127.0.0.1'] } })
  await using pebble = await startPebble({ dnsServer: dns.address, httpPort, tlsPort: await findFreePort() })
  await using given = await createTestApp({
    settings: {
      TASSIS_HOSTNAME: HOST,
      TASSIS_INBOUND_ADDR: '127.0.0.1:0',
      TASSIS_ACME_TERMS_AGREED: 'true',
      TASSIS_ACME_URL: pebble.directoryUrl,
      TASSIS_EXTRA_CA_FILE: pebble.caFile,
    },
  })
  const { app, opened } = given
  const challenges = new Challenges()
  const http = createHttp(opened, { challenges })
  http.listen('127.0.0.1', httpPort)
  const running = await startCertificates(app, { http, challenges })
  try {
    await eventually(() => certificateStates(app)[0]?.notAfter)
    expect(certificateStates(app)).toMatchObject([{ host: HOST, use: 'smtp', source: 'acme' }])
    expect(pebble.log()).toContain('validate w/ HTTP')
    expect(running.endpoint).toBeUndefined()
  } finally {
    await running.stop()
    await http.stop()
  }
})

const modeOf = (path: string): number => statSync(path).mode & 0o777

const DAY_MS = 86_400_000

// Proves: operator-73
test('certificates are listed with their end and why an order failed, and ordered again on request', async () => {
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_DELIVERY: 'capture',
    TASSIS_LOG_LEVEL: 'silent',
    TASSIS_HOSTNAME: 'mx.tassis.test',
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    TASSIS_HTTPS_ADDR: '127.0.0.1:0',
    TASSIS_INBOUND_ADDR: '127.0.0.1:0',
    TASSIS_ACME_TERMS_AGREED: 'true',
    // Nothing listens there.
    TASSIS_ACME_URL: 'https://127.0.0.1:9/directory',
  }
  mkdirSync(data.path, { recursive: true })
  const times = { notBefore: new Date(Date.now() - 85 * DAY_MS), notAfter: new Date(Date.now() + 5 * DAY_MS) }
  writeCertificate(data.path, 'mx.tassis.test', createCertificateAuthority().issue(['mx.tassis.test'], times))
  {
    await using service = await startServing(settings)
    expect(service.output()).toMatch(/, HTTPS at 127\.0\.0\.1:\d+, inbound mail at /)
    const { stdout } = await eventually(async () => {
      const listed = await runTassis(['certificates', 'list'], settings)
      // One for each host.
      return listed.stdout.split('Next attempt').length === 3 && listed
    })
    const [heading, api, smtp, ...rest] = stdout.split('\n')
    expect([heading, api, smtp].map((line) => line?.split(/ {2,}/))).toEqual([
      ['HOST', 'FOR', 'SOURCE', 'NOT AFTER'],
      ['mail.tassis.test', 'HTTPS', 'acme'],
      ['mx.tassis.test', 'SMTP', 'acme', expect.stringMatching(/^20.*Z \(in [45] d\)$/)],
    ])
    expect(rest.join('\n')).toMatch(
      /^\nmail\.tassis\.test: 127\.0\.0\.1:9 cannot be reached: ECONNREFUSED\n {2}Next attempt (?:now|in \d+ s|in 1 min); `tassis certificates retry` makes it now\.\n\nmx\.tassis\.test: /,
    )
    const retried = await runTassis(['certificates', 'retry'], settings)
    expect(retried.stdout).toBe(
      'The service orders again: mail.tassis.test, mx.tassis.test. See `tassis certificates list` in a minute.\n',
    )
    expect(await runTassisJson(['audit', 'list', '--action', 'operator.certificates_retried'], settings)).toMatchObject(
      { data: [{ actor_id: 'cli', metadata: { hosts: ['mail.tassis.test', 'mx.tassis.test'] } }] },
    )
  }
  // Without a service, from its files.
  expect(await runTassisJson(['certificates', 'list'], settings)).toMatchObject({
    data: [
      { host: 'mail.tassis.test', use: 'api', source: 'acme', not_after: null, last_error: expect.any(String) },
      { host: 'mx.tassis.test', use: 'smtp', source: 'acme' },
    ],
  })
  const { exitCode, stderr } = await runTassis(['certificates', 'retry'], {
    ...settings,
    TASSIS_ACME_TERMS_AGREED: 'false',
  })
  expect([exitCode, stderr]).toEqual([
    1,
    'tassis: No certificates are ordered; set TASSIS_ACME_TERMS_AGREED=true (docs/certificates.md).\n',
  ])
})

test('a certificate of the operator that is not for the host is named with what helps', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const { cert, key } = createCertificateAuthority().issue(['mail.tassis.test'])
  const paths = { cert: join(data.path, 'own.pem'), key: join(data.path, 'own.key') }
  writeFileSync(paths.cert, cert)
  writeFileSync(paths.key, key)
  const settings = {
    ...data.settings,
    TASSIS_HOSTNAME: 'mx.tassis.test',
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    TASSIS_HTTPS_ADDR: '127.0.0.1:0',
    TASSIS_INBOUND_ADDR: '127.0.0.1:0',
    TASSIS_TLS_CERT_FILE: paths.cert,
    TASSIS_TLS_KEY_FILE: paths.key,
  }
  const problem = 'The certificate of SMTP is not for mx.tassis.test, so clients that verify it do not deliver.'
  const fix = 'Use a certificate for mx.tassis.test in TASSIS_TLS_CERT_FILE, or set TASSIS_HOSTNAME to its name.'
  const { stdout } = await runTassis(['certificates', 'list'], settings)
  expect(stdout.split('\n').slice(3)).toEqual(['', problem, `  ${fix}`, ''])
  expect(await runTassisJson(['certificates', 'list'], settings)).toMatchObject({
    data: [
      { host: 'mail.tassis.test', source: 'file', mismatch: null },
      { host: 'mx.tassis.test', source: 'file', mismatch: { problem, fix } },
    ],
  })
})

const SETTINGS = {
  TASSIS_HTTPS_ADDR: '0.0.0.0:443',
  TASSIS_HTTP_ADDR: '0.0.0.0:80',
  TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
  TASSIS_HOSTNAME: 'mx.tassis.test',
}

async function startWithTrackingHost(settings: Readonly<Record<string, string>> = {}): Promise<TestApp> {
  const given = await createTestApp({ settings: { ...SETTINGS, ...settings } })
  const { app } = given
  const { domain } = await createDomain(app, await createTestAccount(app), 'customer.test')
  app.db.run('UPDATE domains SET tracking_domain = ?, tracking_verified_at = 1, verified_at = 1 WHERE id = ?', [
    'links.customer.test',
    domain.id,
  ])
  return given
}

/** URL, whether TLS, whether from a trusted proxy, and what happens. */
type Request = readonly [url: string, isTls: boolean, isProxied: boolean, expected: string]
const REQUESTS: readonly (readonly [settings: Readonly<Record<string, string>>, requests: readonly Request[]])[] = [
  [
    {},
    [
      ['http://mail.tassis.test/v1/emails?limit=5', false, false, 'https://mail.tassis.test/v1/emails?limit=5'],
      ['http://links.customer.test/t/c/x', false, false, 'https://links.customer.test/t/c/x'],
      ['http://stranger.test//evil.test/x', false, false, 'https://mail.tassis.test//evil.test/x'],
      ['http://192.0.2.1/', false, false, 'https://mail.tassis.test/'],
      ['http://192.0.2.1/healthz', false, false, 'passes'],
      ['http://192.0.2.1/readyz', false, false, 'passes'],
      ['http://any.test/.well-known/acme-challenge/x', false, false, 'passes'],
      ['http://mail.tassis.test/v1/emails', false, true, 'passes'],
      ['http://mail.tassis.test/v1/emails', true, false, 'passes'],
      ['http://mx.tassis.test/app', true, false, 'passes'],
      ['http://127.0.0.1/app', true, false, 'passes'],
      ['http://[::1]/app', true, false, 'passes'],
      ['http://links.customer.test/t/c/x', true, false, 'passes'],
      ['http://LINKS.customer.test./app', true, false, 'not found'],
      ['http://links.customer.test/tx', true, false, 'not found'],
      ['http://stranger.test/v1/emails', true, false, 'not found'],
    ],
  ],
  [{ TASSIS_HTTP_ADDR: '127.0.0.1:8080' }, [['http://127.0.0.1:8080/v1/emails', false, false, 'passes']]],
  [{ TASSIS_HTTP_ADDR: '[::1]:8080' }, [['http://[::1]:8080/v1/emails', false, false, 'passes']]],
  [
    { TASSIS_PUBLIC_URL: 'https://mail.tassis.test:8443' },
    [['http://x/', false, false, 'https://mail.tassis.test:8443/']],
  ],
  [{ TASSIS_PUBLIC_URL: 'http://mail.tassis.test' }, [['http://mail.tassis.test/', false, false, 'passes']]],
  [{ TASSIS_HTTPS_ADDR: '' }, [['http://mail.tassis.test/', false, false, 'passes']]],
]

// Proves: certificate-4
test.each(REQUESTS)('requests are redirected, not found or pass, with %o', async (settings, requests) => {
  await using given = await startWithTrackingHost(settings)
  const screen = createScreen(given.app)
  const found = requests.map(([url, isTls, isProxied]): Request => {
    const screening = screen?.({ url: new URL(url), isTls, isProxied })
    const result = screening && ('redirectTo' in screening ? screening.redirectTo : 'not found')
    return [url, isTls, isProxied, result ?? 'passes']
  })
  expect(found).toEqual([...requests])
})

// Proves: certificate-4
test('over HTTP a request is redirected with its method, before anything reads its key or body', async () => {
  await using given = await startWithTrackingHost()
  const http = createHttp(given.opened)
  const { port } = http.listen('127.0.0.1', 0)
  try {
    const response = await fetch(`http://127.0.0.1:${port}/v1/emails`, {
      method: 'POST',
      body: '{',
      headers: { authorization: 'Bearer wrong' },
      redirect: 'manual',
    })
    expect([response.status, response.headers.get('location'), await response.text()]).toEqual([
      308,
      'https://mail.tassis.test/v1/emails',
      '',
    ])
    expect(response.headers.get('x-request-id')).toBeTruthy()
    expect((await fetch(`http://127.0.0.1:${port}/healthz`, { redirect: 'manual' })).status).toBe(200)
  } finally {
    await http.stop()
  }
})
