import { expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { openPairs } from '#features/sending/delivery/control/operator-providers.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { createClient, createDataFolder, runTassis, runTassisJson, setUpAccount } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

/** Suspends a provider for 10 minutes, as a reply would. */
async function suspend(service: { readonly app: Parameters<typeof openPairs>[0] }, name: string): Promise<void> {
  const pairs = openPairs(service.app, undefined)
  const pair = pairs.get(pairs.registry.byName(name), '')
  const cause = { rule: 'gmail-rate-4.7.28', reason: '421 4.7.28 unusual rate', durationMs: minutes(10) }
  pair.suspend(pair.generation, cause, pairs.instant())
  pairs.onOutcome(pair, true)
  await pairs.flush()
}

test('tassis providers shows suspensions with rule and reason; resume lifts them, once, with an audit entry', async () => {
  using data = createDataFolder()
  {
    await using service = await createTestApp({ dataDir: data.path })
    await suspend(service, 'gmail')
  }
  const { stdout } = await runTassis(['providers'], data.settings)
  expect(stdout).toMatch(/gmail .* until .*, gmail-rate-4\.7\.28: 421 4\.7\.28 unusual rate/)
  expect(stdout).toContain('`tassis providers resume NAME` ends a suspension at once')
  expect(await runTassisJson(['providers'], data.settings)).toMatchObject({
    pagination: { total: 1 },
    data: [{ provider: 'gmail', source: null, suspension: { rule: 'gmail-rate-4.7.28', failures: 1 } }],
  })
  expect(
    at(await runTassisJson(['providers', '--all', '--limit', '1000'], data.settings), 'data', 5, 'limits'),
  ).toBeDefined()
  expect(await runTassisJson(['providers', 'resume', 'gmail'], data.settings)).toEqual({
    provider: 'gmail',
    resumed: 1,
  })
  expect((await runTassis(['providers'], data.settings)).stdout).toContain('Nothing was sent yet')
  const again = await runTassis(['providers', 'resume', 'gmail'], data.settings)
  expect([again.exitCode, again.stderr]).toEqual([1, expect.stringContaining('Nothing was sent to a provider')])
  await using service = await createTestApp({ dataDir: data.path })
  expect(
    service.app.db
      .query("SELECT action, resource_id AS id, actor_id AS actor FROM audit_logs WHERE action LIKE 'operator.%'")
      .all(),
  ).toEqual([{ action: 'operator.provider_resumed', id: 'gmail', actor: 'cli' }])
})

// Proves: operator-12
test('operators list providers, suspended ones first, and resume one', async () => {
  await using service = await createTestApi()
  const operator = await signInAsOperator(service)
  await suspend(service, 'yahoo')
  await suspend(service, 'mx.site.test')
  const { body } = await operator.ask('GET', '/v1/operator/providers?per_page=2')
  expect(at(body, 'pagination', 'total')).toBeGreaterThan(50)
  expect(at(body, 'data', 0)).toMatchObject({
    provider: 'yahoo',
    is_listed: true,
    limits: { messages_per_connection: 20, figures_from: expect.stringContaining('https://') },
    rate_factor: 0.25,
    suspension: { rule: 'gmail-rate-4.7.28', reason: '421 4.7.28 unusual rate', failures: 1 },
    last_hour: { attempted: 0 },
  })
  expect(at(body, 'data', 1)).toMatchObject({ provider: 'mx.site.test', is_listed: false })
  const resumed = await operator.ask('POST', '/v1/operator/providers/yahoo/resume')
  expect([resumed.status, at(resumed.body, 'data')]).toEqual([200, { provider: 'yahoo', resumed: 1 }])
  expect(at((await operator.ask('GET', '/v1/operator/providers')).body, 'data', 0)).toMatchObject({
    provider: 'mx.site.test',
  })
  expect((await operator.ask('POST', '/v1/operator/providers/nobody/resume')).status).toBe(404)
  expect(
    service.app.db.query("SELECT count(*) AS n FROM audit_logs WHERE action = 'operator.provider_resumed'").get(),
  ).toEqual({
    n: 1,
  })
})

test('a mistake in the file of providers stops the start with exit code 2, file, field and what is allowed', async () => {
  using data = createDataFolder()
  const folder = mkdtempSync(join(tmpdir(), 'tassis-providers-'))
  const file = join(folder, 'providers.toml')
  writeFileSync(file, '[gmail]\nper_minute = "many"\n')
  const settings = { ...data.settings, TASSIS_PROVIDERS_FILE: file, TASSIS_HTTP_ADDR: '127.0.0.1:0' }
  const { exitCode, stderr } = await runTassis(['serve'], settings)
  expect(exitCode).toBe(2)
  expect(stderr).toContain(`${file}: gmail.per_minute must be a whole number`)
  rmSync(folder, { recursive: true, force: true })
})

const LISTED = '554 5.7.1 Client host [127.0.0.2] blocked using zen.spamhaus.org'

// Proves: operator-15, operator-5
test('a block and a missing PTR record are shown by tassis providers and to operators; the start waits for no DNS', async () => {
  await using receiver = await startScriptedSmtp({ mail: () => LISTED })
  await using dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 1, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
    '2.0.0.127.in-addr.arpa': 'SILENCE',
  })
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(receiver.port),
    TASSIS_OUTBOUND_IPS: '127.0.0.2=two.mail.test',
    TASSIS_LOG_LEVEL: 'silent',
  }
  const { accountId, key } = await setUpAccount(settings, { verified: true })
  const { config } = loadConfig(settings)
  const service = await startService(config)
  try {
    const { app, sourceNames } = service.opened
    // The silent server has not been given up yet.
    expect(sourceNames.all()).toEqual([])
    dns.zone['2.0.0.127.in-addr.arpa'] = 'NXDOMAIN'
    const account = findAccountByUuid(config, app.db, parseUuid(accountId) as Uint8Array)
    if (!account) throw new Error('no account')
    const operator = await signInAsOperator({ app, actor: toOperatorActor(account), url: service.url } as TestApi)
    for (const to of ['a@receiver.test', 'b@receiver.test']) {
      const mail = { from: 'a@sender.test', to, subject: 'x', text_body: 'Hello.' }
      const { status } = await createClient(service.url, key)('POST', '/v1/emails', mail)
      expect(status).toBe(202)
    }
    const { body } = await eventually(async () => {
      const alerts = await operator.ask('GET', '/v1/operator/alerts')
      return at(alerts.body, 'pagination', 'total') === 1 && sourceNames.all().length === 1 ? alerts : undefined
    }, 60_000)
    expect(at(body, 'data', 0)).toMatchObject({
      provider: 'mx.receiver.test',
      source: '127.0.0.2',
      rule: 'block-list',
      category: 'reputation',
      reply: LISTED,
      advice: expect.stringContaining('Ask for its removal where the reply says.'),
    })
    await sourceNames.check()
    expect(sourceNames.all()[0]?.problem).toStartWith('127.0.0.2 has no PTR record, so many receivers reject its mail.')
    // The first rejection stores the alert; the other message may still be in its session.
    const inFlight = app.db.query('SELECT 1 FROM recipients WHERE status = ?')
    await eventually(() => inFlight.get(statusCode('processing')) === null)
    const { stdout } = await runTassis(['providers'], settings)
    expect(stdout).toContain('mx.receiver.test')
    const suspended = /mx\.receiver\.test from 127\.0\.0\.2 is suspended until \S+ \(block-list\): 554 5\.7\.1/
    expect((await runTassis(['queue'], settings)).stdout).toMatch(suspended)
    const [attempted] = app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM emails ORDER BY id').all()
    const { stdout: explained } = await runTassis(['explain', formatUuid(attempted?.uuid as Uint8Array)], settings)
    expect(explained).toMatch(suspended)
    expect(explained).toContain('`tassis providers` shows what to do about it.')
    expect(stdout).toMatch(/Alert: mx\.receiver\.test from 127\.0\.0\.2, rule block-list: /)
    expect(stdout).toContain(LISTED)
    expect((await operator.ask('GET', '/v1/operator/alerts?page=2')).body).toMatchObject({ data: [] })
  } finally {
    await service.stop()
  }
})
