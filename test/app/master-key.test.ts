import { expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { createDataFolder, runTassis } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

// Proves: storage-8
test('an existing database is never opened without its master key or with another, and no new key is created', async () => {
  using folder = createDataFolder()
  const open = (more: Record<string, string> = {}) => openApp(loadConfig({ ...folder.settings, ...more }).config)
  await open().close()
  const path = join(folder.path, 'master.key')
  const key = readFileSync(path, 'utf8')

  renameSync(path, `${path}.away`)
  expect(() => open()).toThrow(
    new ConfigError(`The master key file ${path} is missing, but the database needs it; restore it.`),
  )
  const refused = { exitCode: 2, stdout: '', stderr: expect.stringContaining('is missing, but the database needs it') }
  for (const command of ['check', 'serve']) expect(await runTassis([command], folder.settings)).toEqual(refused)
  expect(existsSync(path)).toBe(false)

  writeFileSync(path, Buffer.alloc(32, 1).toString('base64'))
  expect(() => open()).toThrow('The master key does not match the database')
  expect(() => open({ TASSIS_MASTER_KEY: 'short' })).toThrow('32 bytes in base64')

  // The right key works from any source.
  await open({ TASSIS_MASTER_KEY: key.trim() }).close()
  await open({ TASSIS_MASTER_KEY_FILE: `${path}.away` }).close()
})
