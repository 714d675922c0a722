import { expect, setDefaultTimeout, test } from 'bun:test'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { createDataFolder, runTassis, setUpAccount } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

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
      const { status } = await fetch(`${service.url}/v1/emails`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ from: 'a@sender.test', to, subject: 'x', text_body: 'Hello.' }),
      })
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
    const warning = '127.0.0.2 has no PTR record, so many receivers reject its mail.'
    expect(at((await operator.ask('GET', '/v1/operator/health')).body, 'data', 'warnings')).toContainEqual(
      expect.stringContaining(warning),
    )
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
    expect(stdout).toContain(`Warning: ${warning}`)
    expect((await operator.ask('GET', '/v1/operator/alerts?page=2')).body).toMatchObject({ data: [] })
  } finally {
    await service.stop()
  }
})
