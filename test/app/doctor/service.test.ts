import { expect, setDefaultTimeout, test } from 'bun:test'
import { recordFailure, recordSuccess } from '#app/backup/state.ts'
import { Doctor } from '#app/doctor/doctor.ts'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { startSink } from '#test/support/sink.ts'
import { createDataFolder, runTassis, runTassisJson, setUpAccount } from '../process.ts'

setDefaultTimeout(300_000)

/** The source of a message without soft line breaks. */
const joinLines = (raw: string): string => raw.replaceAll('=\r\n', '')

// Proves: operator-16
test('a backup that failed is noticed: by mail over SMTP, by tassis doctor and by operators; and that it is mended', async () => {
  await using sink = await startSink()
  const mx = { MX: [{ preference: 1, exchange: 'mx.ops.test' }] }
  await using dns = await startDnsServer({
    'ops.test': mx,
    'other.test': mx,
    'mx.ops.test': { A: ['127.0.0.1'] },
    'mail.tassis.test': { A: ['127.0.0.1'] },
    '1.0.0.127.in-addr.arpa': { PTR: ['mail.tassis.test'] },
  })
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(sink.port),
    TASSIS_DOCTOR_SMTP_DOMAINS: 'ops.test, other.test',
    TASSIS_DOCTOR_BLOCK_LISTS: 'none',
    TASSIS_DOCTOR_TIME_SERVERS: 'none',
    TASSIS_OPERATOR_EMAIL: 'olga@ops.test',
    TASSIS_BACKUP_DIR: '/backups',
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test:9',
    TASSIS_LOG_LEVEL: 'silent',
  }
  const { accountId } = await setUpAccount(settings, { verified: true })
  const { config } = loadConfig(settings)
  const clock = new ManualClock(Date.now())
  const service = await startService(config, { clock })
  try {
    const { app } = service.opened
    const account = findAccountByUuid(config, app.db, parseUuid(accountId) as Uint8Array)
    if (!account) throw new Error('no account')
    recordFailure(config.dataDir, clock.now(), 'The disk of /backups is full.')
    const operator = await signInAsOperator({ app, actor: toOperatorActor(account), url: service.url } as TestApi)
    const read = async () => at((await operator.ask('GET', '/v1/operator/doctor')).body, 'data')
    expect(await read()).toEqual({ checked_at: null, findings: [] })

    // The loop sets its next timer some time after its work is seen to be done, so the time passes while waiting.
    const passTimeUntil = <T>(condition: () => T | undefined | Promise<T | undefined>) =>
      eventually(async () => {
        const value = await condition()
        if (value === undefined) {
          clock.advance(minutes(1))
          await Bun.sleep(50)
        }
        return value
      }, 200_000)
    // On a slow machine the time that passes makes DNS late for other checks, whose findings are mailed too.
    const findMail = (text: string) => sink.messages.find(({ raw }) => joinLines(raw).includes(text))

    await passTimeUntil(async () => at(await read(), 'checked_at') ?? undefined)
    expect(sink.messages).toEqual([])
    const mail = await passTimeUntil(() => findMail('The disk of /backups is full.'))
    expect(mail.rcptTo).toEqual(['olga@ops.test'])
    expect(mail.raw).toMatch(/^Subject: mail\.tassis\.test: .*(problems|backups)/m)

    const { findings } = (await read()) as { findings: Record<string, unknown>[] }
    expect(findings).toContainEqual({
      check: 'backups',
      status: 'warning',
      subject: null,
      message: expect.stringContaining('The disk of /backups is full.'),
      fix: expect.stringContaining('`tassis backup`'),
    })
    // The service makes the checks of the command itself.
    const printed = await runTassisJson<{ findings: unknown[] }>(['doctor'], settings)
    expect(printed.findings).toContainEqual(
      expect.objectContaining({ check: 'service', status: 'ok', message: 'The service takes and delivers mail.' }),
    )
    expect(printed.findings).toContainEqual(expect.objectContaining({ check: 'outgoing_port', status: 'ok' }))
    expect((await runTassis(['doctor'], settings)).stdout).toContain('WARNING backups: The scheduled backup of')

    recordSuccess(config.dataDir, clock.now(), { path: '/backups', total_bytes: 1, duration_ms: 1, warnings: [] })
    const mended = await passTimeUntil(() => findMail('Mended (backups)'))
    expect(mended.raw).toMatch(/^Subject: mail\.tassis\.test: .*mended/m)
  } finally {
    await service.stop()
  }
})

test('a clock that is set back by a day delays no check', async () => {
  const clock = new ManualClock(Date.UTC(2026, 10, 24, 9))
  await using service = await createTestApp({ clock, settings: { TASSIS_DELIVERY: 'capture' } })
  const { app, sourceNames } = service.opened
  const doctor = new Doctor({ app, sourceNames })
  const loop = doctor.start(undefined)
  const passTimeUntil = (condition: () => boolean) =>
    eventually(async () => {
      if (condition()) return true
      clock.advance(minutes(5))
      await Bun.sleep(50)
      return false
    })
  expect(doctor.latest()).toBeUndefined()
  await passTimeUntil(() => doctor.latest() !== undefined)
  const first = doctor.latest()
  const at = clock.monotonicMs()
  clock.jumpTo(clock.now() - days(1))
  await passTimeUntil(() => doctor.latest() !== first)
  // By the wall clock it would be 25 hours.
  expect(clock.monotonicMs() - at).toBeLessThan(hours(24))
  await loop.stop()
})

test('without a service the command checks by itself; blocked mail hosts are exit code 1, each finding with its fix', async () => {
  const mx = (host: string) => ({ MX: [{ preference: 1, exchange: host }] })
  await using dns = await startDnsServer({
    'one.test': mx('mx.one.test'),
    'two.test': mx('mx.two.test'),
    'mx.one.test': { A: ['127.0.0.41'] },
    'mx.two.test': { A: ['127.0.0.42'] },
    'mail.tassis.test': { A: ['127.0.0.1'] },
  })
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    // Discard: nothing listens there.
    TASSIS_SMTP_PORT: '9',
    TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test, two.test',
    TASSIS_PUBLIC_URL: 'https://mail.tassis.test:9',
  }
  const { exitCode, stdout, stderr } = await runTassis(['doctor'], settings)
  expect([exitCode, stderr]).toEqual([1, ''])
  expect(stdout).toMatch(/FAILED {2}outgoing_port: Outgoing port 9 is blocked.*one\.test \(127\.0\.0\.41\): refused/)
  expect(stdout).toContain('-> Ask the provider of this server to open outgoing TCP port 25')
  expect(stdout).toContain('WARNING service: The service is not running.')
  // It created nothing.
  expect((await runTassis(['queue'], settings)).stderr).toContain('There is no Tassis data')

  // With data it reads them, and captured mail needs no network.
  await setUpAccount(settings, { verified: true })
  const captured = { ...settings, TASSIS_DELIVERY: 'capture' }
  const { findings } = await runTassisJson<{
    findings: { check: string; status: string; fix: string | null }[]
  }>(['doctor', '--all'], captured)
  const statusOf = (check: string) => findings.find((finding) => finding.check === check)?.status
  expect(['backups', 'queue', 'received', 'outgoing_port', 'resolver'].map(statusOf)).toEqual([
    'warning',
    'ok',
    'ok',
    'skipped',
    'skipped',
  ])
  for (const { status, fix } of findings) expect(status === 'warning' || status === 'failure').toBe(fix !== null)
})
