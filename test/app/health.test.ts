import { expect, setDefaultTimeout, test } from 'bun:test'
import { createTestApi } from '#test/support/api.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { createDataFolder, runTassis, runTassisJson, startServing } from './process.ts'

setDefaultTimeout(300_000)

test('health reports a running service as ready, and what to do when none answers', async () => {
  using folder = createDataFolder()
  await using service = await startServing(folder.settings)
  const settings = { ...folder.settings, TASSIS_HTTP_ADDR: new URL(service.url).host }
  expect(await runTassis(['health'], settings)).toEqual({ exitCode: 0, stdout: `ready: ${service.url}\n`, stderr: '' })
  expect(await runTassisJson(['health'], settings)).toEqual({ ready: true, url: service.url })
  service.signal('SIGTERM')
  await service.exited
  const { exitCode, stderr } = await runTassis(['health'], settings)
  expect([exitCode, stderr]).toEqual([
    1,
    `tassis: No service answers at ${service.url}/readyz; start it with \`tassis serve\`, or set TASSIS_HTTP_ADDR to that of the service.\n`,
  ])
})

test('health says why a service is not ready', async () => {
  await using service = await createTestApi({ disk: createTestDisk(() => true) })
  expect(await runTassis(['health'], { TASSIS_HTTP_ADDR: new URL(service.url).host })).toEqual({
    exitCode: 1,
    stdout: '',
    stderr: 'tassis: The service is not ready: the disk has too little free space (TASSIS_MIN_FREE_DISK).\n',
  })
})
