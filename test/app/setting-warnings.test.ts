import { expect, setDefaultTimeout, test } from 'bun:test'
import { findPublicUrlWarnings } from '#app/cli/public-url-warnings.ts'
import { createDataFolder, MAIN, runTassis, runTassisJson, setUpAccount, startServing } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

test.each([
  ['http://127.0.0.1:8080', 'is http://127.0.0.1:8080, which works only on this machine'],
  ['https://localhost', 'works only on this machine'],
  ['https://app.localhost:8443', 'works only on this machine'],
  ['https://[::1]/', 'works only on this machine'],
  ['http://0.0.0.0:8080', 'works only on this machine'],
  ['http://mail.example.com', 'is not https'],
])('a public URL of %s causes the warning that it %s', (publicUrl, fault) => {
  expect(findPublicUrlWarnings({ publicUrl })).toEqual([expect.stringContaining(fault)])
})

test('a public https URL causes no warning', () => {
  for (const publicUrl of ['https://mail.example.com', 'https://mail.example.com:8443/', 'https://127.example.com'])
    expect(findPublicUrlWarnings({ publicUrl })).toEqual([])
})

test('serve and check warn of the public URL only in modes direct and relay, of the host name only in direct', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const found =
    /TASSIS_PUBLIC_URL is http:\/\/[\d.:]+, which works only on this machine\. Every unsubscribe|Set TASSIS_HOSTNAME to a name/g
  const warnedBy = async (delivery: string): Promise<[inLog: number, inCheck: number]> => {
    const settings = {
      ...data.settings,
      TASSIS_DELIVERY: delivery,
      TASSIS_HOSTNAME: 'vm',
      TASSIS_RELAY_URL: 'smtp://127.0.0.1:9',
    }
    await using child = Bun.spawn([process.execPath, MAIN, 'serve'], {
      env: { PATH: process.env['PATH'] ?? '', ...settings },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    await child.stdout.getReader().read()
    child.kill('SIGTERM')
    const inLog = (await child.stderr.text()).match(found)?.length ?? 0
    const { warnings, ok } = await runTassisJson<{ warnings: string[]; ok: boolean }>(['check'], settings)
    expect(ok).toBe(true)
    return [inLog, warnings.join('\n').match(found)?.length ?? 0]
  }
  expect(await warnedBy('direct')).toEqual([2, 2])
  expect(await warnedBy('relay')).toEqual([1, 1])
  expect(await warnedBy('capture')).toEqual([0, 0])
  const { stdout, exitCode } = await runTassis(['check'], data.settings)
  expect({ stdout, exitCode }).toEqual({
    stdout: expect.stringContaining('\nWarning: TASSIS_PUBLIC_URL is http://') as string,
    exitCode: 0,
  })
})

test('check has the warnings of the running service', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const direct = { ...data.settings, TASSIS_DELIVERY: 'direct', TASSIS_HTTP_ADDR: '127.0.0.1:9' }
  const readWarnings = async (settings: typeof direct) =>
    (await runTassisJson<{ warnings: string[] }>(['check'], settings)).warnings.join('\n')
  expect(await readWarnings(direct)).toContain(
    'TASSIS_PUBLIC_URL is http://127.0.0.1:9, which works only on this machine',
  )
  await using _ = await startServing({ ...data.settings, TASSIS_PUBLIC_URL: 'https://mail.example.com' })
  expect(await readWarnings(direct)).not.toContain('TASSIS_PUBLIC_URL')
})
