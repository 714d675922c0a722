import { expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createDataFolder, startServing } from '../process.ts'

setDefaultTimeout(300_000)

test('a service of one node loads nothing that connects to PostgreSQL, writes a log or follows one', async () => {
  using data = createDataFolder()
  // Says at the end which modules were loaded.
  const preload = join(data.path, 'modules.ts')
  const list = join(data.path, 'modules.txt')
  writeFileSync(
    preload,
    `process.on('exit', () => require('node:fs').writeFileSync(${JSON.stringify(list)}, Object.keys(require.cache).join('\\n')))`,
  )
  await using service = await startServing({ ...data.settings, BUN_OPTIONS: `--preload ${preload}` })
  service.signal('SIGTERM')
  expect(await service.exited).toBe(0)
  const modules = (await Bun.file(list).text()).split('\n').filter((path) => path.includes('/src/'))
  expect(modules.length).toBeGreaterThan(400)
  // What is not in this list: the setting, the shape of the status, and who may read a directory.
  const parts =
    /(?:replication\/(?:postgres|log|tables|writer|leader|follower|applier|wal-tail|recover|snapshots)|cluster\/(?:node|member|snapshot|standby-server))\.ts$/
  expect(modules.filter((path) => parts.test(path))).toEqual([])
  expect(modules.filter((path) => path.endsWith('/replication/postgres-url.ts'))).toHaveLength(1)
})
