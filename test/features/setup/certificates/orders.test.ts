import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import type { App } from '#features/core/app/app.ts'
import { Challenges } from '#features/setup/certificates/challenges.ts'
import { CertificateOrders } from '#features/setup/certificates/orders.ts'
import {
  certificateFile,
  NO_FAILURES,
  type OrderState,
  type OrdersState,
  readCertificate,
  readOrdersState,
  resetOrderDelays,
  writeCertificate,
  writeOrdersState,
} from '#features/setup/certificates/store.ts'
import { createLog } from '#platform/log/log.ts'
import { createSignal } from '#platform/process/signal.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { type AcmeResource, type AcmeStub, problem, startAcmeStub } from '#test/support/acme-stub.ts'
import { eventually } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

setDefaultTimeout(60_000)

const HOST = 'mail.tassis.test'
const START = Date.UTC(2026, 0, 1)

let stub: AcmeStub
let clock: ManualClock

beforeAll(async () => {
  stub = await startAcmeStub(() => clock.now())
})
afterAll(() => stub[Symbol.asyncDispose]())
beforeEach(() => {
  for (const resource of Object.keys(stub.faults)) delete stub.faults[resource as AcmeResource]
  stub.issue = (names, options) => stub.authority.issue(names, options).cert
  stub.requests.length = 0
  stub.payloads.length = 0
  clock = new ManualClock(START)
})

interface Fixture extends AsyncDisposable {
  readonly dataDir: string
  readonly logged: Record<string, unknown>[]
  readonly certificatesDue: App['certificatesDue']
  /** Starts orders on the same files; a second call is a restart. */
  start(hosts?: readonly string[]): Promise<CertificateOrders>
  /** Lets orders run until `done` returns something; moves the clock only where an order waits between two looks. */
  until<T>(done: () => T | undefined | false): Promise<T>
  server(): OrderState
  host(name?: string): OrderState | undefined
}

function createFixture(settings: Readonly<Record<string, string>> = {}): Fixture {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-orders-'))
  const caFile = join(dataDir, 'ca.pem')
  writeFileSync(caFile, stub.authority.pem)
  const { config } = loadConfig({
    TASSIS_DATA_DIR: dataDir,
    TASSIS_HTTPS_ADDR: '127.0.0.1:443',
    TASSIS_ACME_TERMS_AGREED: 'true',
    TASSIS_ACME_URL: stub.directoryUrl,
    ...settings,
  })
  const logged: Record<string, unknown>[] = []
  const log = createLog('info', { write: (line: string) => void logged.push(JSON.parse(line)) }, clock)
  const certificatesDue: App['certificatesDue'] = createSignal()
  let running: CertificateOrders | undefined
  return {
    dataDir,
    logged,
    certificatesDue,
    async start(hosts = [HOST]) {
      await running?.stop()
      running = new CertificateOrders({
        app: { config, clock, log, certificatesDue },
        authorities: [stub.authority.pem],
        challenges: new Challenges(),
        listHosts: () => hosts,
      })
      running.start()
      return running
    },
    until: (done) =>
      eventually(() => {
        const result = done()
        if (result !== undefined && result !== false) return result
        const waitMs = clock.msUntilNextTimer()
        if (waitMs <= seconds(10)) clock.advance(waitMs)
        return undefined
      }),
    server: () => readOrdersState(dataDir).server,
    host: (name = HOST) => readOrdersState(dataDir).hosts[name],
    async [Symbol.asyncDispose]() {
      await running?.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** Whether the loop waits for its next look at the hosts. */
const isIdle = (): boolean => clock.msUntilNextTimer() > seconds(10) && clock.msUntilNextTimer() <= seconds(15)

/** A certificate that is due for renewal: 80 of its 90 days have passed. */
function storeOld(dataDir: string, host = HOST, leftMs = days(10)): string {
  const times = { notBefore: new Date(START + leftMs - days(90)), notAfter: new Date(START + leftMs) }
  writeCertificate(dataDir, host, stub.authority.issue([host], times))
  return readFileSync(certificateFile(dataDir, host), 'utf8')
}

const daysLeft = (dataDir: string, host = HOST): number | undefined => {
  const stored = readCertificate(dataDir, host)
  return stored && Math.round((stored.notAfter - clock.now()) / days(1))
}

// Proves: certificate-6
test('a certificate is renewed with a third of its lifetime left, not before', async () => {
  await using t = createFixture()
  await t.start()
  await t.until(() => daysLeft(t.dataDir) === 90)
  await t.until(isIdle)
  const first = readFileSync(certificateFile(t.dataDir, HOST), 'utf8')
  clock.advance(days(59))
  await t.until(isIdle)
  expect(readFileSync(certificateFile(t.dataDir, HOST), 'utf8')).toBe(first)
  expect(stub.requests.filter((resource) => resource === 'order')).toHaveLength(1)
  clock.advance(days(2))
  await t.until(() => readFileSync(certificateFile(t.dataDir, HOST), 'utf8') !== first)
  expect(daysLeft(t.dataDir)).toBe(90)
})

test('an expired certificate that is found at the start is replaced, and served until then', async () => {
  await using t = createFixture()
  storeOld(t.dataDir, HOST, -days(1))
  const orders = await t.start()
  expect(orders.contextFor(HOST)).toBeDefined()
  await t.until(() => daysLeft(t.dataDir) === 90)
  expect(t.host()).toEqual({ failures: 0, nextAttemptAt: 0 })
})

/** Name, where the server misbehaves and how, who is blamed, the reason, and the time to the next attempt. */
const FAULTS: readonly (readonly [
  string,
  AcmeResource,
  (usual: () => Response) => Response,
  'server' | 'host',
  RegExp,
  number,
])[] = [
  ['is down', 'directory', () => new Response('oops', { status: 503 }), 'server', /responded 503/, minutes(1)],
  [
    'is down and says until when',
    'directory',
    () => new Response('', { status: 503, headers: { 'retry-after': '7200' } }),
    'server',
    /responded 503/,
    hours(2),
  ],
  ['is another server', 'directory', () => new Response('<html>'), 'server', /no JSON object/, minutes(1)],
  ['floods', 'directory', () => new Response('x'.repeat(1_000_000)), 'server', /larger than/, minutes(1)],
  [
    'leads elsewhere',
    'directory',
    () => new Response(null, { status: 302, headers: { location: 'https://127.0.0.1:9/' } }),
    'server',
    /responded 302/,
    minutes(1),
  ],
  [
    'names a URL without TLS',
    'directory',
    () => Response.json({ newNonce: 'http://127.0.0.1:9/nonce', newAccount: 'http://127.0.0.1:9/account' }),
    'server',
    /not https/,
    minutes(1),
  ],
  ['has no nonce', 'nonce', () => new Response(null), 'server', /no nonce/, minutes(1)],
  ['takes no nonce', 'account', () => problem(400, 'badNonce', 'Again'), 'server', /badNonce: Again/, minutes(1)],
  [
    'refuses the account',
    'account',
    () => problem(403, 'unauthorized', 'No'),
    'server',
    /unauthorized: No/,
    minutes(1),
  ],
  [
    'limits the rate',
    'order',
    () => problem(429, 'rateLimited', 'too many certificates', { 'retry-after': '172800' }),
    'host',
    /rateLimited: too many certificates/,
    days(2),
  ],
  ['limits the rate without an end', 'order', () => problem(429, 'rateLimited', 'slow'), 'host', /slow/, hours(1)],
  [
    'limits the rate for ever',
    'order',
    () => problem(429, 'rateLimited', 'slow', { 'retry-after': '9999999999' }),
    'host',
    /slow/,
    days(7),
  ],
  [
    'refuses the host',
    'order',
    () => problem(400, 'rejectedIdentifier', 'No'),
    'host',
    /rejectedIdentifier/,
    minutes(1),
  ],
  [
    'wants proof for another name',
    'authorization',
    () => Response.json({ status: 'pending', identifier: { type: 'dns', value: 'other.test' }, challenges: [] }),
    'server',
    /a name other than mail\.tassis\.test/,
    minutes(1),
  ],
  [
    'wants a token that is a path',
    'authorization',
    () =>
      Response.json({
        status: 'pending',
        identifier: { type: 'dns', value: HOST },
        challenges: [{ type: 'http-01', token: '../../../../etc/passwd-of-it', url: stub.directoryUrl }],
      }),
    'host',
    /no usable challenge/,
    minutes(1),
  ],
  [
    'cannot reach the host',
    'authorization',
    () =>
      Response.json({
        status: 'invalid',
        identifier: { type: 'dns', value: HOST },
        challenges: [
          {
            type: 'tls-alpn-01',
            token: 'a-token-of-the-stub-0123456789',
            url: stub.directoryUrl.replace('directory', 'challenge'),
            error: { type: 'urn:ietf:params:acme:error:connection', detail: 'Connection\nrefused' },
          },
        ],
      }),
    'host',
    /connection: Connection refused/,
    minutes(1),
  ],
  [
    'never finishes',
    'orderState',
    () => Response.json({ status: 'pending' }, { headers: { 'retry-after': '3600' } }),
    'server',
    /took too long/,
    minutes(1),
  ],
  ['sends no certificate', 'certificate', () => new Response('-----BEGIN'), 'host', /not a certificate/, minutes(1)],
  [
    'sends the certificate of another key',
    'certificate',
    () => new Response(stub.authority.issue([HOST]).cert),
    'host',
    /not a certificate for our key/,
    minutes(1),
  ],
]

describe('an authority that', () => {
  // Proves: certificate-5
  test.each(FAULTS)('%s: the certificate stays in use, and the next attempt is later', async (...row) => {
    const [, resource, fault, blamed, reason, delayMs] = row
    await using t = createFixture()
    const before = storeOld(t.dataDir)
    stub.faults[resource] = fault
    const orders = await t.start()
    const failed = await t.until(() => {
      const state = blamed === 'server' ? t.server() : t.host()
      return state?.lastError !== undefined && state
    })
    expect(failed.lastError).toMatch(reason)
    expect(failed.nextAttemptAt - (failed.lastErrorAt ?? 0)).toBe(delayMs)
    expect(readFileSync(certificateFile(t.dataDir, HOST), 'utf8')).toBe(before)
    expect(orders.contextFor(HOST)).toBeDefined()
    // Ten days are left.
    expect(t.logged.at(-1)).toMatchObject({
      level: 'error',
      host: HOST,
      msg: 'certificate expires soon and could not be renewed',
    })
  })

  // Proves: certificate-5
  test.each([
    ['other names', (options: object) => stub.authority.issue([HOST, 'other.test'], options).cert, /it is for/],
    ['another name', (options: object) => stub.authority.issue(['other.test'], options).cert, /it is for/],
    [
      'the past',
      (options: object) =>
        stub.authority.issue([HOST], { ...options, notBefore: new Date(START - days(2)), notAfter: new Date(START) })
          .cert,
      /it expired/,
    ],
    [
      'the future',
      (options: object) => stub.authority.issue([HOST], { ...options, notBefore: new Date(START + days(2)) }).cert,
      /valid only from/,
    ],
  ] as const)('issues a certificate for %s: it is not used', async (_, issue, reason) => {
    await using t = createFixture()
    const before = storeOld(t.dataDir)
    stub.issue = (_names, options) => issue(options)
    await t.start()
    const lastError = await t.until(() => t.host()?.lastError)
    expect(lastError).toMatch(reason)
    expect(readFileSync(certificateFile(t.dataDir, HOST), 'utf8')).toBe(before)
  })

  test('is silent: the request ends after half a minute', async () => {
    await using t = createFixture()
    stub.faults.directory = () => new Promise(() => undefined)
    await t.start()
    await t.until(() => stub.requests.includes('directory'))
    clock.advance(seconds(30))
    expect(await t.until(() => t.server().lastError)).toMatch(/no response in 30 s/)
  })
})

// Proves: certificate-6
test('delays grow, and a restart does not shorten them', async () => {
  await using t = createFixture()
  stub.faults.order = () => problem(400, 'rejectedIdentifier', 'No')
  await t.start()
  const delays: number[] = []
  for (let failures = 1; failures <= 7; failures++) {
    const state = await t.until(() => {
      const now = t.host()

      return now?.failures === failures && now.lastErrorAt === clock.now() && now
    })
    delays.push((state.nextAttemptAt - clock.now()) / minutes(1))
    const asked = stub.requests.length
    await t.start()
    await t.until(isIdle)
    expect(stub.requests).toHaveLength(asked)
    clock.advance(state.nextAttemptAt - clock.now())
  }
  expect(delays).toEqual([1, 15, 60, 240, 720, 720, 720])
})

test('an operator can make failed orders due now, of a host and of all', async () => {
  await using t = createFixture()
  await t.start()
  for (const [resource, has] of [
    ['order', () => t.host()?.lastError],
    ['directory', () => t.server().lastError],
  ] as const) {
    stub.faults[resource] = () => new Response('', { status: resource === 'order' ? 403 : 500 })
    resetOrderDelays(t.dataDir)
    t.certificatesDue.emit()
    await t.until(has)
    await t.until(isIdle)
    delete stub.faults[resource]
  }
  resetOrderDelays(t.dataDir)
  t.certificatesDue.emit()
  await t.until(() => daysLeft(t.dataDir) === 90)
  expect(clock.now() - START).toBeLessThan(minutes(1))
})

test('a state of orders that lacks everything counts as no failures', async () => {
  await using t = createFixture()
  writeOrdersState(t.dataDir, {} as OrdersState)
  expect([t.server(), t.host()]).toEqual([NO_FAILURES, undefined])
})

test('an order that ends with the process counts as a failure', async () => {
  await using t = createFixture()
  stub.faults.finalize = () => new Promise(() => undefined)
  await t.start()
  await t.until(() => stub.requests.includes('finalize'))
  // What the next process would read.
  expect(t.host()).toEqual({ failures: 1, nextAttemptAt: clock.now() + minutes(1) })
})

test('a host that fails delays no other; each is ordered alone', async () => {
  await using t = createFixture()
  stub.faults.order = (usual) => {
    const { identifiers } = stub.payloads.at(-1) as { identifiers: { value: string }[] }
    return identifiers[0]?.value === HOST ? problem(403, 'caa', 'CAA record forbids it') : usual()
  }
  await t.start([HOST, 'a.customer.test', 'b.customer.test'])
  await t.until(() => daysLeft(t.dataDir, 'a.customer.test') && daysLeft(t.dataDir, 'b.customer.test'))
  expect(t.host()).toMatchObject({ failures: 1, lastError: 'caa: CAA record forbids it' })
  expect(stub.payloads.flatMap(({ identifiers }) => (identifiers ? [identifiers] : []))).toEqual(
    [HOST, 'a.customer.test', 'b.customer.test'].map((value) => [{ type: 'dns', value }]),
  )
})

test('after a rate limit the other hosts are tried a minute apart, since the limit may be that of the account', async () => {
  await using t = createFixture()
  const times: number[] = []
  stub.faults.order = () => {
    times.push(clock.now())
    return problem(429, 'rateLimited', 'too many orders', { 'retry-after': '7200' })
  }
  await t.start([HOST, 'a.customer.test', 'b.customer.test'])
  await t.until(() => {
    if (isIdle()) clock.advance(seconds(15))
    return times.length === 3
  })
  const [first = 0, second = 0, third = 0] = times
  for (const pauseMs of [second - first, third - second]) expect(pauseMs).toBeWithin(minutes(1), minutes(2))
  expect(t.host()).toMatchObject({ failures: 1, lastError: 'rateLimited: too many orders' })
})

test.each([
  ['HTTPS', {}, ['tls-alpn-01', 'http-01', 'tls-alpn-01']],
  ['HTTPS and port 80', { TASSIS_HTTP_ADDR: '127.0.0.1:80' }, ['http-01', 'tls-alpn-01', 'http-01']],
  ['no HTTPS', { TASSIS_HTTPS_ADDR: '' }, ['http-01', 'http-01', 'http-01']],
] as const)(
  'with %s, the kinds of challenge alternate after failures as far as they are possible',
  async (_, settings, expected) => {
    await using t = createFixture(settings)
    const used: string[] = []
    stub.faults.authorization = () => {
      const challenges = ['http-01', 'tls-alpn-01'].map((type) => ({
        type,
        token: 'a-token-of-the-stub-0123456789',
        url: stub.directoryUrl.replace('directory', `challenge/${type}`),
      }))
      return Response.json({ status: 'pending', identifier: { type: 'dns', value: HOST }, challenges })
    }
    stub.faults.challenge = () => {
      used.push(stub.urls.at(-1)?.split('/').at(-1) ?? '')
      return problem(400, 'connection', 'refused')
    }
    await t.start()
    for (const failures of [1, 2, 3]) {
      const state = await t.until(
        () => t.host()?.failures === failures && t.host()?.lastErrorAt === clock.now() && t.host(),
      )
      clock.advance(state.nextAttemptAt - clock.now())
    }
    expect(used).toEqual([...expected])
  },
)

test('the certificate of a host that needs none any more is served until it expires, and then deleted', async () => {
  await using t = createFixture()
  storeOld(t.dataDir, 'old.customer.test', days(10))
  const orders = await t.start([])
  expect(orders.contextFor('OLD.customer.test.')).toBeDefined()
  clock.advance(days(10))
  await t.until(() => readCertificate(t.dataDir, 'old.customer.test') === undefined)
  expect(orders.contextFor('old.customer.test')).toBeUndefined()
  expect(stub.requests).toEqual([])
})
