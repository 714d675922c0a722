import { expect, setDefaultTimeout, test } from 'bun:test'
import { dataFolder, startServing, tassis } from './process.ts'

setDefaultTimeout(60_000)

test('health says ready of a running service, and what to do when none answers', async () => {
  using folder = dataFolder()
  await using service = await startServing(folder.settings)
  const settings = { ...folder.settings, TASSIS_HTTP_ADDR: new URL(service.url).host }
  expect(await tassis(['health'], settings)).toEqual({ exitCode: 0, stdout: 'ready\n', stderr: '' })
  service.signal('SIGTERM')
  await service.exited
  const { exitCode, stderr } = await tassis(['health'], settings)
  expect([exitCode, stderr]).toEqual([
    1,
    `tassis: No service answers at ${service.url}/readyz; start it with \`tassis serve\`.\n`,
  ])
})
