import { expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPairs } from '#app/operator/providers.ts'
import { minutes } from '#platform/units.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { createTestApp } from '#test/support/app.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { createDataFolder, runTassis, runTassisJson } from './process.ts'

// Processes start slowly on a busy machine.
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
  expect(stdout).toMatch(/gmail .* suspended, next attempt .* \(gmail-rate-4\.7\.28\): 421 4\.7\.28 unusual rate/)
  expect(stdout).toContain('`tassis providers resume NAME` ends a suspension at once')
  expect(await runTassisJson(['providers'], data.settings)).toMatchObject({
    total: 1,
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

test('a mistake in the file of providers stops the start with exit code 2, file, line and what is allowed', async () => {
  using data = createDataFolder()
  const folder = mkdtempSync(join(tmpdir(), 'tassis-providers-'))
  const file = join(folder, 'providers.toml')
  writeFileSync(file, '[gmail]\nper_minute = "many"\n')
  const settings = { ...data.settings, TASSIS_PROVIDERS_FILE: file, TASSIS_HTTP_ADDR: '127.0.0.1:0' }
  const { exitCode, stderr } = await runTassis(['serve'], settings)
  expect(exitCode).toBe(2)
  expect(stderr).toContain(`${file}:2: per_minute is "many"; allowed is a whole number from 0 to 1000000.`)
  rmSync(folder, { recursive: true, force: true })
})
