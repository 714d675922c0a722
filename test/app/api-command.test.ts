/** @module `tassis api`, and how commands fail: against real services, in real processes. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createDataFolder, type DataFolder, runTassis, setUpAccount, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const UNKNOWN = '0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000'

describe('with a service', () => {
  let data: DataFolder
  let service: Awaited<ReturnType<typeof startServing>>
  beforeAll(async () => {
    data = createDataFolder()
    await setUpAccount(data.settings)
    service = await startServing({ ...data.settings, TASSIS_DELIVERY: 'capture' })
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    data[Symbol.dispose]()
  })

  const call = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['api', ...args], data.settings)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    return stdout === '' ? undefined : (JSON.parse(stdout) as { data: unknown }).data
  }

  // Proves: operator-31, operator-32, operator-33
  test('commands have the service check, hold off deletion, record a backup and delete what is due', async () => {
    expect(await call('GET', '/v1/operator/service')).toEqual({ url: service.url, warnings: [] })
    expect(await call('POST', '/v1/operator/doctor/run')).toEqual({
      checked_at: expect.stringMatching(/Z$/) as string,
      findings: expect.arrayContaining([
        { check: 'service', status: 'ok', subject: null, message: 'The service takes and delivers mail.', fix: null },
      ]) as unknown,
    })
    const backup = `/v1/operator/backups/${UNKNOWN}`
    expect(await call('POST', `${backup}/hold`)).toEqual({ is_held: true })
    expect(await call('POST', `${backup}/release`)).toBeUndefined()
    const report = { path: '/backups/1', total_bytes: 1, duration_ms: 1, warnings: [] }
    expect(await call('POST', '/v1/operator/backups', JSON.stringify(report))).toBeUndefined()
    expect(await call('POST', '/v1/operator/retention/run')).toEqual({
      content: 0,
      events: 0,
      inbound: 0,
      logs: 0,
      audit: 0,
    })
  })
})
