/** @module Tests of commands while the service is suspended: they say so after 10 s, and those that only read still work. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { createDataFolder, runTassisProcess, setUpAccount, startServing } from './process.ts'

// Each command waits 10 s, and the machine may be busy.
setDefaultTimeout(300_000)

test('commands end when the service does not respond, with a sentence or as JSON; commands that only read do not wait for it', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await using service = await startServing(data.settings)
  service.signal('SIGSTOP')
  const settings = { ...data.settings, TASSIS_HTTP_ADDR: new URL(service.url).host }
  const run = (...args: string[]) => runTassisProcess(args, settings)
  const unresponsive = `The service that uses ${data.path} does not respond within 10 s: it is suspended, or its disk hangs`
  const [queue, explained, retried, config, health, ...readOnly] = await Promise.all([
    run('queue'),
    run('explain', 'bob@receiver.test', '--json'),
    run('queue', 'retry', '--domain', 'receiver.test', '--yes'),
    run('config'),
    run('health'),
    run('check'),
    run('disk'),
    run('audit', 'list'),
  ])
  for (const { exitCode, stdout, stderr } of [queue, retried]) {
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(stderr).toStartWith(`tassis: ${unresponsive}`)
  }
  expect(JSON.parse(explained.stderr)).toEqual({
    error: { code: 'service_unresponsive', message: expect.stringContaining(unresponsive) as string },
  })
  expect(config.exitCode).toBe(0)
  expect(config.stderr).toContain('does not respond, so its settings are not compared')
  expect([health.exitCode, health.stderr]).toEqual([1, expect.stringContaining('does not respond within 5 s')])
  for (const { exitCode, stderr } of readOnly) expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  service.signal('SIGCONT')
  expect((await run('queue')).exitCode).toBe(0)
})
