import { expect, setDefaultTimeout, test } from 'bun:test'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import { createDataFolder, runTassisJson, runTassisList, startServing } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

const LAST_LINE = 'Ctrl-C stops the service.'

test('the first start sends an email to the capture server and prints a working curl command; the next reuses the key', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_DELIVERY: 'capture' }
  let first: string
  {
    await using service = await startServing(settings, 'start')
    first = await eventually(() => service.output().includes(LAST_LINE) && service.output())
    expect(first).toMatch(/over the API: queued, sent, delivered; sent after \d+ ms\./)
    expect(first).toContain('\n  Inbound mail    off; to enable it, start with TASSIS_INBOUND_ADDR=127.0.0.1:2525\n')
    expect(first).toContain(
      '\n  Submission      off; to enable it, start with TASSIS_SUBMISSION_TLS_ADDR=127.0.0.1:1465\n',
    )
    expect(first).toContain('\n  Simulator       bounce@sim.mail.tassis.test and')
    expect(first.trimEnd().split('\n').length).toBeLessThanOrEqual(20)
    expect(first).toContain(`\n  Dashboard       ${service.url}/setup?token=`)
    expect(statSync(join(data.path, 'first-key')).mode & 0o777).toBe(0o600)
    const curl = /^curl .*\\\n.*$/m.exec(first)?.[0] ?? ''
    await using child = Bun.spawn(['bash', '-c', `${curl} --silent --output /dev/null --write-out '%{http_code}'`], {
      stdout: 'pipe',
    })
    expect(await child.stdout.text()).toBe('202')
    const commands = /^ {2}Commands +(.*) --help$/m.exec(first)?.[1] ?? ''
    await using listing = Bun.spawn(['bash', '-c', `${commands} domains list`], { env: {}, stdout: 'pipe' })
    expect(await listing.stdout.text()).toContain('example.test')
    service.signal('SIGINT')
    expect(await service.exited).toBe(0)
    await eventually(() => service.output().endsWith('\nStopped.\n'))
  }
  await runTassisJson(['domains', 'add', 'newer.test'], settings)
  const listening = { TASSIS_INBOUND_ADDR: '127.0.0.1:0', TASSIS_SUBMISSION_TLS_ADDR: '127.0.0.1:0' }
  await using again = await startServing({ ...settings, ...listening }, 'start')
  const second = await eventually(() => again.output().includes(LAST_LINE) && again.output())
  const keyOf = (output: string) => /Bearer (\S+)'/.exec(output)?.[1]
  expect(keyOf(second)).toBe(keyOf(first) ?? 'no key was printed')
  expect(second).toContain('<ada@example.test>')
  expect(second).toMatch(
    /\n {2}Inbound mail {4}at 127\.0\.0\.1:\d{4,5} for verified domains; `domains verify --without-dns` verifies one/,
  )
  expect(second).toMatch(/\n {2}Submission {6}at 127\.0\.0\.1:\d{4,5}; the password is the key\n/)
  expect(second).not.toContain('Sent a first email')
  expect(await runTassisList(['keys', 'list'], settings)).toHaveLength(1)
})
