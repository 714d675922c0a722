import { expect, setDefaultTimeout, test } from 'bun:test'
import { createTestApi } from '#test/support/api.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { runTassis } from './process.ts'

setDefaultTimeout(300_000)

test('health says whether a service is ready, why not, and what to do when none answers', async () => {
  let isLow = false
  const service = await createTestApi({ disk: createTestDisk(() => isLow) })
  const settings = { TASSIS_HTTP_ADDR: new URL(service.url).host }
  const run = () => runTassis(['health'], settings)
  const failed = (sentence: string) => ({ exitCode: 1, stdout: '', stderr: `tassis: ${sentence}\n` })
  expect(await run()).toEqual({ exitCode: 0, stdout: `ready: ${service.url}\n`, stderr: '' })
  const everywhere = { TASSIS_HTTP_ADDR: settings.TASSIS_HTTP_ADDR.replace('127.0.0.1', '0.0.0.0') }
  expect((await runTassis(['health'], everywhere)).stdout).toBe(`ready: ${service.url}\n`)
  isLow = true
  expect(await run()).toEqual(
    failed('The service is not ready: the disk has too little free space (TASSIS_MIN_FREE_DISK).'),
  )
  await service[Symbol.asyncDispose]()
  expect(await run()).toEqual(
    failed(
      `No service answers at ${service.url} within 5 s; start it with \`tassis serve\`, or set TASSIS_HTTP_ADDR to that of the service.`,
    ),
  )
})
