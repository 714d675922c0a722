import { expect, setDefaultTimeout, test } from 'bun:test'
import { findStartWarnings } from '#app/cli/setting-warnings.ts'
import { loadConfig } from '#app/settings.ts'
import { createDataFolder, MAIN, type Settings, setUpAccount } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

/** Settings without any warning. */
const FINE = {
  TASSIS_DELIVERY: 'direct',
  TASSIS_HOSTNAME: 'mail.tassis.test',
  TASSIS_PUBLIC_URL: 'https://mail.example.com',
  TASSIS_INBOUND_ADDR: '127.0.0.1:25',
}
const LLM = { TASSIS_LLM_URL: 'http://127.0.0.1:9/v1' }
const CAPTURE = { TASSIS_DELIVERY: 'capture', TASSIS_INBOUND_ADDR: '' }

test.each<[Settings, ...string[]]>([
  [{}],
  [{ TASSIS_PUBLIC_URL: 'https://mail.example.com:8443/' }],
  [{ TASSIS_PUBLIC_URL: 'https://127.example.com' }],
  [
    { TASSIS_PUBLIC_URL: 'http://127.0.0.1:8080' },
    'TASSIS_PUBLIC_URL is http://127.0.0.1:8080, which works only on this machine. Every unsubscribe',
  ],
  [{ TASSIS_PUBLIC_URL: 'https://localhost' }, 'works only on this machine'],
  [{ TASSIS_PUBLIC_URL: 'https://app.localhost:8443' }, 'works only on this machine'],
  [{ TASSIS_PUBLIC_URL: 'https://[::1]/' }, 'works only on this machine'],
  [{ TASSIS_PUBLIC_URL: 'http://0.0.0.0:8080' }, 'works only on this machine'],
  [{ TASSIS_PUBLIC_URL: 'http://mail.example.com' }, 'is not https'],
  [{ TASSIS_HOSTNAME: 'vm' }, 'Set TASSIS_HOSTNAME to a name'],
  [{ TASSIS_HOSTNAME: 'vm', TASSIS_DELIVERY: 'relay', TASSIS_RELAY_URL: 'smtp://127.0.0.1:9' }],
  [{ TASSIS_INBOUND_ADDR: '' }, 'TASSIS_INBOUND_ADDR is not set, so bounces'],
  [{ ...CAPTURE, TASSIS_HOSTNAME: 'vm', TASSIS_PUBLIC_URL: 'http://localhost' }],
  [LLM, 'TASSIS_LLM_URL is set but TASSIS_LLM_MODEL is not: no insights are written'],
  [{ ...LLM, TASSIS_LLM_MODEL: 'small' }],
  [{ TASSIS_NODE: 'node-of-nobody' }, 'TASSIS_NODE is set but TASSIS_REPLICATE is not'],
  [{ TASSIS_NODE: 'a', TASSIS_REPLICATE: 'postgres://127.0.0.1/tassis' }],
])('a start with %j has its warnings', (settings, ...warnings) => {
  const found = findStartWarnings(loadConfig({ ...FINE, ...settings }).config)
  expect(found).toEqual(warnings.map((warning) => expect.stringContaining(warning)))
})

test('the log of a service has the warnings', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const direct = { ...data.settings, TASSIS_DELIVERY: 'direct', TASSIS_PUBLIC_URL: 'http://127.0.0.1:9' }
  await using child = Bun.spawn([process.execPath, MAIN, 'serve'], {
    env: { PATH: process.env['PATH'] ?? '', ...direct },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  await child.stdout.getReader().read()
  child.kill('SIGTERM')
  expect(await child.stderr.text()).toContain(
    'TASSIS_PUBLIC_URL is http://127.0.0.1:9, which works only on this machine',
  )
})
