/**
 * @module What Google Postmaster Tools and SNDS say, asked of stubs that are held against their public descriptions:
 * OAuth's signed assertion (RFC 7523), the discovery document of the API's version v2, the columns of SNDS's CSV.
 */
import { expect, test } from 'bun:test'
import { generateKeyPairSync, verify } from 'node:crypto'
import { checkDomainReports } from '#app/doctor/checks/state.ts'
import type { DoctorContext } from '#app/doctor/context.ts'
import { askGoogle, askSnds } from '#features/reporting/sender-rules/receiver-data.ts'
import { readLedger } from '#features/reporting/sender-rules/routes.ts'
import { createDomain, findDomainById } from '#features/setup/domains/domains.ts'
import { createLog } from '#platform/log/log.ts'
import { days, hours } from '#platform/units.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { createFolder } from '#test/support/folder.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const IP = '192.0.2.25'
const signal = new AbortController().signal
const decode = (part = '') => JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))

interface Stub {
  /** Paths with their methods, in order. */
  asked: string[]
  /** Replaces all responses. */
  fails: number | undefined
  /** The API is not enabled in the project. */
  isDisabled: boolean
  rows: Record<string, string>
  rates: number[]
  csv: string
}

/** A service, and a stub of both receivers that knows example.com only. */
async function startReceiversTest(more: Readonly<Record<string, string>> = {}) {
  const stub: Stub = { asked: [], fails: undefined, isDisabled: false, rows: {}, rates: [], csv: '' }
  const respond = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url)
    stub.asked.push(`${request.method} ${pathname}${search}`)
    if (stub.isDisabled && pathname !== '/token')
      return Response.json({ error: { code: 403, details: [{ reason: 'SERVICE_DISABLED' }] } }, { status: 403 })
    if (stub.fails) return Response.json({ error: 'unavailable' }, { status: stub.fails })
    if (pathname === '/token') return grantToken(new URLSearchParams(await request.text()))
    if (pathname === '/snds/data.aspx')
      return search === '?key=right%20key' ? new Response(stub.csv) : new Response('<html>', { status: 200 })
    if (request.headers.get('authorization') !== 'Bearer token-1') return new Response('', { status: 401 })
    if (pathname.startsWith('/v2/domains/failing.org/')) return new Response('', { status: 503 })
    if (pathname.startsWith('/v2/domains/strange.org/')) return Response.json({ error: {} }, { status: 400 })
    if (!pathname.startsWith('/v2/domains/example.com/')) return Response.json({ error: {} }, { status: 403 })
    if (pathname.endsWith('/complianceStatus') && request.method === 'GET')
      return Response.json({
        name: 'domains/example.com/complianceStatus',
        complianceData: {
          domainId: 'example.com',
          rowData: Object.entries(stub.rows).map(([requirement, status]) => ({ requirement, status: { status } })),
          oneClickUnsubscribeVerdict: { status: { status: 'NEEDS_WORK' }, reason: 'NO_UNSUB_GENERAL' },
        },
      })
    const { metricDefinitions, timeQuery, aggregationGranularity } = (await request.json()) as Record<string, unknown>
    expect({ metricDefinitions, aggregationGranularity }).toEqual({
      metricDefinitions: [{ name: 'spam', baseMetric: { standardMetric: 'SPAM_RATE' } }],
      aggregationGranularity: 'DAILY',
    })
    expect(timeQuery).toHaveProperty('dateRanges.dateRanges.0.start.year')
    const domainStats = stub.rates.map((doubleValue) => ({ metric: 'spam', value: { doubleValue } }))
    return Response.json({ domainStats })
  }
  const grantToken = (form: URLSearchParams): Response => {
    const [header, claims, signature = ''] = (form.get('assertion') ?? '').split('.')
    const isSigned = verify(
      'sha256',
      Buffer.from(`${header}.${claims}`),
      publicKey,
      Buffer.from(signature, 'base64url'),
    )
    const { iss, aud, scope, iat, exp } = decode(claims)
    const isRight =
      isSigned &&
      decode(header).alg === 'RS256' &&
      form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:jwt-bearer' &&
      iss === 'robot@project.iam.gserviceaccount.com' &&
      aud === `${url}/token` &&
      scope === 'https://www.googleapis.com/auth/postmaster.traffic.readonly' &&
      exp - iat === 3600
    return isRight
      ? Response.json({ access_token: 'token-1' })
      : Response.json({ error: 'invalid_grant' }, { status: 400 })
  }
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: respond })
  const url = `http://127.0.0.1:${server.port}`
  const account = { client_email: 'robot@project.iam.gserviceaccount.com', private_key: PEM, token_uri: `${url}/token` }
  const folder = createFolder({ 'account.json': JSON.stringify(account), 'other.json': '{"client_email": 1}' })
  const lines: string[] = []
  const clock = new ManualClock()
  const service = await createTestApp({
    clock,
    log: createLog('info', { write: (line) => void lines.push(line) }),
    settings: {
      TASSIS_GOOGLE_SERVICE_ACCOUNT: folder.pathOf('account.json'),
      TASSIS_SNDS_KEY: 'right key',
      ...Object.fromEntries(Object.entries(more).map(([name, value]) => [name, value.replace('FOLDER', folder.path)])),
    },
  })
  const { app } = service
  const actor = await createTestAccount(app)
  const { domain } = await createDomain(app, actor, 'example.com')
  await createDomain(app, actor, 'secret.org')
  app.db.run('UPDATE domains SET verified_at = 1, dmarc_verified = 1, checked_at = ?', [clock.now()])
  const source = { ip: IP, ehloName: 'mail.tassis.test', problem: undefined, isChecked: true }
  return {
    app,
    actor,
    clock,
    stub,
    problems: () => lines.flatMap((line) => JSON.parse(line).problem ?? []),
    lines,
    askGoogle: () => askGoogle(app, signal, url),
    askSnds: () => askSnds(app, signal, `${url}/snds`),
    diagnose: async () =>
      [await checkDomainReports({ ...app, resolver: undefined } as unknown as DoctorContext)].flat(),
    rule(receiver: string, check: string) {
      const found = findDomainById(app.db, domain.id)
      if (!found) throw new Error('no domain')
      const ledger = readLedger(app, { sources: () => [source], doctor: () => undefined }, found)
      return ledger.receivers.find(({ id }) => id === receiver)?.rules.find((rule) => rule.check === check)
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await server.stop(true)
      folder[Symbol.dispose]()
    },
  }
}

// Proves: domain-72
test('Google is asked once a day about each domain; its word decides what we see as met or cannot see', async () => {
  await using r = await startReceiversTest()
  r.stub.rows = { DMARC_POLICY: 'COMPLIANT', ENCRYPTION: 'NEEDS_WORK', USER_REPORTED_SPAM_RATE: 'COMPLIANT' }
  r.stub.rates = [0, 0.0004, 0.0002]
  await r.askGoogle()
  expect(r.stub.asked).toEqual([
    'POST /token',
    'GET /v2/domains/example.com/complianceStatus',
    'POST /v2/domains/example.com/domainStats:query',
    'GET /v2/domains/secret.org/complianceStatus',
  ])
  expect(r.rule('gmail', 'dmarc')).toMatchObject({ state: 'met', witness: 'google' })
  expect(r.rule('gmail', 'tls')).toMatchObject({
    state: 'broken',
    witness: 'google',
    seen_at: '2026-01-01T00:00:00.000Z',
  })
  expect(r.rule('gmail', 'spam_rate')).toMatchObject({
    state: 'met',
    evidence: expect.stringContaining(
      'Google Postmaster Tools: compliant, highest spam rate of the last 7 days 0.04 %.',
    ),
  })
  expect(r.rule('gmail', 'one_click')).toMatchObject({ state: 'broken', witness: 'google' })
  // Google's word is about Gmail.
  expect(r.rule('yahoo', 'spam_rate')?.state).toBe('unknown')
  await r.askGoogle()
  expect(r.stub.asked.length).toBe(4)
  r.clock.advance(hours(24))
  r.stub.rates = [0.0012]
  await r.askGoogle()
  expect(r.stub.asked.length).toBe(8)
  expect(r.rule('gmail', 'spam_rate')?.state).toBe('at_risk')
  r.stub.rows = { USER_REPORTED_SPAM_RATE: 'NEEDS_WORK' }
  r.clock.advance(hours(24))
  await r.askGoogle()
  expect(r.rule('gmail', 'spam_rate')?.state).toBe('broken')
})

// Proves: domain-72
test('while Google is down the last answer stays, with its time, for three days; then it counts no more', async () => {
  await using r = await startReceiversTest()
  r.stub.rows = { USER_REPORTED_SPAM_RATE: 'COMPLIANT' }
  await r.askGoogle()
  r.stub.fails = 503
  for (let hour = 0; hour < 70; hour++) {
    r.clock.advance(hours(1))
    await r.askGoogle()
  }
  expect(r.rule('gmail', 'spam_rate')).toMatchObject({ state: 'met', seen_at: '2026-01-01T00:00:00.000Z' })
  expect(r.problems()).toEqual(['it responded with 503'])
  r.clock.advance(hours(3))
  expect(r.rule('gmail', 'spam_rate')).toMatchObject({
    state: 'unknown',
    evidence: expect.stringContaining('last answered at 2026-01-01T00:00:00.000Z, which is too old'),
  })
  r.stub.fails = undefined
  await r.askGoogle()
  expect(r.rule('gmail', 'spam_rate')?.state).toBe('met')
  expect(r.lines.filter((line) => line.includes('the receiver answers again'))).toHaveLength(1)
})

test('a domain that Google does not know by its name keeps no other from being asked', async () => {
  await using r = await startReceiversTest()
  const { actor } = r
  await createDomain(r.app, actor, 'strange.org')
  r.app.db.run("UPDATE domains SET verified_at = 1, id = -id WHERE domain = 'strange.org'")
  await r.askGoogle()
  expect(r.stub.asked.filter((path) => path.endsWith('/complianceStatus'))).toHaveLength(3)
  expect(r.problems()).toEqual([])
})

test('a domain about which Google always fails does not keep the others from being asked', async () => {
  await using r = await startReceiversTest()
  r.app.db.run("UPDATE domains SET id = 1000 + id WHERE domain = 'example.com'")
  await createDomain(r.app, r.actor, 'failing.org')
  r.app.db.run("UPDATE domains SET verified_at = 1, id = -id WHERE domain = 'failing.org'")
  for (let run = 0; run < 2; run++) {
    await r.askGoogle()
    r.clock.advance(hours(1))
  }
  expect(r.stub.asked.filter((path) => path.endsWith('/complianceStatus'))).toEqual(
    ['failing.org', 'secret.org', 'example.com', 'failing.org'].map(
      (name) => `GET /v2/domains/${name}/complianceStatus`,
    ),
  )
  expect(r.problems()).toEqual(['it responded with 503'])
})

test('an API that is not enabled is a failure, and not a domain that is not shared', async () => {
  await using r = await startReceiversTest()
  r.stub.isDisabled = true
  await r.askGoogle()
  expect(r.problems()).toEqual(["the API is not enabled in the service account's project"])
  expect(await r.diagnose()).toMatchObject([{ status: 'warning', message: expect.stringContaining('not enabled') }])
  // It is asked again within the hour.
  r.stub.isDisabled = false
  r.clock.advance(hours(1))
  await r.askGoogle()
  expect(r.stub.asked).toContain('POST /v2/domains/example.com/domainStats:query')
  expect(await r.diagnose()).toMatchObject([{ status: 'ok' }])
})

test('a file without a key is one line of the log, and no request', async () => {
  await using r = await startReceiversTest({ TASSIS_GOOGLE_SERVICE_ACCOUNT: 'FOLDER/other.json' })
  await r.askGoogle()
  r.clock.advance(hours(1))
  await r.askGoogle()
  expect(r.stub.asked).toEqual([])
  expect(r.problems()).toEqual(['the file of TASSIS_GOOGLE_SERVICE_ACCOUNT is no key of a service account'])
})

// Proves: domain-72
test('SNDS says by colour and spam traps what Microsoft thinks of our addresses', async () => {
  await using r = await startReceiversTest()
  const row = (ip: string, result: string, traps: string) =>
    `${ip},12/31/2025 10:00 AM,12/31/2025 7:00 PM,1894,1894,1900,${result},< 0.1%,,,${traps},mail.tassis.test,a@example.com,\r\n`
  const say = async (csv: string) => {
    r.stub.csv = csv
    r.clock.advance(hours(24))
    await r.askSnds()
    return r.rule('microsoft', 'ip_reputation')
  }
  expect(r.rule('microsoft', 'ip_reputation')?.state).toBe('unknown')
  expect(await say(row('198.51.100.1', 'RED', '9'))).toMatchObject({ state: 'unknown', witness: 'snds' })
  expect(await say(row(IP, 'GREEN', '0'))).toMatchObject({
    state: 'met',
    evidence: `${IP}: GREEN, complaints < 0.1%, 0 hits of spam traps.`,
  })
  expect((await say(row(IP, 'GREEN', '2')))?.state).toBe('at_risk')
  expect((await say(row(IP, 'YELLOW', '0')))?.state).toBe('at_risk')
  // It is advised by Microsoft, not demanded.
  expect(await say(row(IP, 'RED', '0'))).toMatchObject({ state: 'at_risk', evidence: expect.stringContaining('RED') })
  r.stub.fails = 500
  expect((await say(''))?.evidence).toContain('RED')
  r.clock.advance(days(3))
  expect(r.rule('microsoft', 'ip_reputation')?.state).toBe('unknown')
})

test('a wrong key of SNDS is one line of the log, without the key', async () => {
  await using r = await startReceiversTest({ TASSIS_SNDS_KEY: 'wrong key' })
  for (let hour = 0; hour < 5; hour++) {
    await r.askSnds()
    r.clock.advance(hours(1))
  }
  expect(r.problems()).toEqual(['TASSIS_SNDS_KEY is refused (200)'])
  expect(await r.diagnose()).toMatchObject([
    { status: 'warning', message: expect.stringContaining('Microsoft SNDS does not say what it thinks of our mail') },
  ])
  expect(r.lines.join('')).not.toContain('wrong')
  expect(r.rule('microsoft', 'ip_reputation')?.state).toBe('unknown')
})
