/**
 * @module Backups and restores that are killed at random moments: there is the old state or the new one, never a third.
 * `BACKUP_KILLS=100 bun test test/app/backup/kill.test.ts` kills more often.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compareFiles, openBackup } from '#app/backup/manifest.ts'
import { requireNoOrphanedContent } from '#app/create.ts'
import { randomBelow } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { createDataFolder, type DataFolder, MAIN, runTassis, setUpAccount } from '../process.ts'

const KILLS = Number(process.env['BACKUP_KILLS'] ?? 4)

setDefaultTimeout(300_000 + KILLS * 60_000)

const NEVER_MS = 2 ** 31 - 1

let data: DataFolder
const root = mkdtempSync(join(tmpdir(), 'tassis-kill-'))

beforeAll(async () => {
  data = createDataFolder()
  await setUpAccount(data.settings)
  // So many files that a kill is likely to meet one.
  mkdirSync(join(data.path, 'imports'))
  for (let file = 0; file < 200; file++)
    writeFileSync(join(data.path, 'imports', `${file}.csv`), Buffer.alloc(64 * KiB, file))
})

afterAll(() => {
  data[Symbol.dispose]()
  rmSync(root, { recursive: true, force: true })
})

/** Runs a command, and kills it after `killAfterMs`; resolves with how long it ran. */
async function run(args: readonly string[], killAfterMs: number): Promise<number> {
  const startedAtMs = performance.now()
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    env: { ...data.settings, PATH: process.env['PATH'] ?? '' },
    stdout: 'ignore',
    stderr: 'ignore',
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  await child.exited
  clearTimeout(timer)
  return performance.now() - startedAtMs
}

test('a killed backup has no name, and the next backup removes what it left', async () => {
  const folder = join(root, 'backups')
  const tookMs = await run(['backup', folder], NEVER_MS)
  for (let kill = 0; kill < KILLS; kill++) {
    const known = new Set(readdirSync(folder))
    await run(['backup', folder], randomBelow(Math.ceil(tookMs)))
    for (const name of readdirSync(folder)) {
      if (known.has(name) || name.endsWith('.partial')) continue
      expect(await compareFiles(openBackup(join(folder, name)))).toEqual([])
    }
  }
  expect((await runTassis(['backup', folder], data.settings)).exitCode).toBe(0)
  expect(readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([])
  // Nothing of the data has changed.
  expect((await runTassis(['check'], data.settings)).exitCode).toBe(0)
})

test('a killed restore leaves nothing, or what no service starts on, or all of it', async () => {
  const folder = join(root, 'one')
  await run(['backup', folder, '--with-key'], NEVER_MS)
  const backup = join(folder, readdirSync(folder)[0] ?? '')
  const tookMs = await run(['restore', backup, '--into', join(root, 'first')], NEVER_MS)
  const ends = { nothing: 0, refused: 0, whole: 0 }
  for (let kill = 0; kill < KILLS; kill++) {
    const into = join(root, `restored-${kill}`)
    const restore = ['restore', backup, '--into', into]
    await run(restore, randomBelow(Math.ceil(tookMs)))
    const names = existsSync(into) ? readdirSync(into) : []
    if (names.includes('restore-in-progress')) {
      ends.refused++
      expect(() => requireNoOrphanedContent(into)).toThrow('run `tassis restore` again')
    } else if (names.includes('tassis.db')) ends.whole++
    else {
      ends.nothing++
      expect(names.filter((name) => name !== 'lock')).toEqual([])
    }
    if (!names.includes('tassis.db') || names.includes('restore-in-progress'))
      expect((await runTassis(restore, data.settings)).exitCode).toBe(0)
    expect(readdirSync(join(into, 'imports'))).toHaveLength(200)
    expect((await runTassis(['check'], { ...data.settings, TASSIS_DATA_DIR: into })).exitCode).toBe(0)
    rmSync(into, { recursive: true })
  }
  expect(ends.nothing + ends.refused + ends.whole).toBe(KILLS)
  if (process.env['BACKUP_KILLS']) console.log(ends)
})
