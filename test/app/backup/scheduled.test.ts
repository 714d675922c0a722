/** @module Scheduled backups, and what they hold off in the service. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cron } from 'croner'
import { isBackupMissed, runConfiguredBackup, runScheduledBackup, toPatterns } from '#app/backup/scheduled.ts'
import { findBackupProblems, readBackupState, recordFailure, recordSuccess } from '#app/backup/state.ts'
import { startSchedules } from '#app/schedules.ts'
import { startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { createHoldReader, holdDeletion } from '#features/core/content-gc/deletion-hold.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { sweep } from '#features/core/content-gc/sweep.ts'
import { endFence, storeFence } from '#features/core/fence/restored.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createDataFolder, runTassisJson } from '../process.ts'

setDefaultTimeout(300_000)

const ROOT = join(import.meta.dir, '../../..')

const newFolder = () => {
  const path = mkdtempSync(join(tmpdir(), 'tassis-scheduled-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

test('a scheduled backup is recorded, and so is its failure, which the health of the service shows', async () => {
  using folder = newFolder()
  const clock = new ManualClock()
  await using service = await createTestApp({
    settings: { TASSIS_BACKUP_DIR: join(folder.path, 'backups'), TASSIS_BACKUP_KEEP: '2' },
    clock,
  })
  const { app, opened } = service
  const { signal } = new AbortController()
  const problems = () => findBackupProblems(app.config, clock.now())
  for (let count = 0; count < 3; count++) await runScheduledBackup(opened, signal)
  const { path, succeeded_at: succeededAt } = readBackupState(app.config.dataDir)
  expect(readdirSync(join(folder.path, 'backups'))).toHaveLength(2)
  expect(existsSync(join(path ?? '', 'manifest.json'))).toBe(true)
  expect(problems()).toEqual([])

  // A file in the place of the folder: the backup fails.
  rmSync(join(folder.path, 'backups'), { recursive: true })
  writeFileSync(join(folder.path, 'backups'), '')
  await runScheduledBackup(opened, signal)
  expect(problems()).toEqual([
    expect.stringMatching(/^The scheduled backup of \S+ failed: .*backups.* The last one is of \S+\.$/),
  ])
  expect(readBackupState(app.config.dataDir).succeeded_at).toBe(succeededAt)

  rmSync(join(folder.path, 'backups'))
  await runScheduledBackup(opened, signal)
  expect(problems()).toEqual([])
  clock.advance(days(2))
  expect(problems()).toEqual([expect.stringContaining('No scheduled backup was written for more than a day.')])
})

test('a backup whose outcome cannot be recorded does not throw, so that the schedule does not repeat it', async () => {
  using folder = newFolder()
  const settings = { TASSIS_BACKUP_DIR: join(folder.path, 'backups') }
  await using service = await createTestApp({ settings })
  const { config, clock } = service.app
  mkdirSync(join(config.dataDir, 'backup-state.json', 'in-the-way'), { recursive: true })
  const { warnings } = await runConfiguredBackup(config, clock, {})
  expect(warnings).toEqual([expect.stringMatching(/^its success could not be recorded: E/)])
  rmSync(settings.TASSIS_BACKUP_DIR, { recursive: true })
  writeFileSync(settings.TASSIS_BACKUP_DIR, '')
  await runScheduledBackup(service.opened, new AbortController().signal)
})

test('a running service backs up at the times of day that are set, in UTC', () => {
  const { config } = loadConfig({ TASSIS_BACKUP_AT: '03:15, 23:00' })
  const runs = toPatterns(config).map((pattern) =>
    new Cron(pattern, { timezone: 'UTC', paused: true }).nextRun(new Date('2026-03-01T12:00:00Z'))?.toISOString(),
  )
  expect(runs).toEqual(['2026-03-02T03:15:00.000Z', '2026-03-01T23:00:00.000Z'])
  expect(() => loadConfig({ TASSIS_BACKUP_AT: '24:00' })).toThrow('allowed is times such as 03:15')
})

test('a backup that was missed while the service was down is written after the start, once', async () => {
  using folder = newFolder()
  const clock = new ManualClock(Date.UTC(2026, 2, 5, 9))
  await using service = await createTestApp({
    settings: { TASSIS_BACKUP_DIR: folder.path, TASSIS_BACKUP_AT: '03:15,15:15' },
    clock,
  })
  const { app, opened } = service
  const success = { path: '', total_bytes: 0, duration_ms: 0, warnings: [] }
  const isMissed = () => isBackupMissed(app, clock.now())
  expect(isMissed()).toBe(true)
  recordSuccess(app.config.dataDir, Date.UTC(2026, 2, 5, 3, 16), success)
  expect(isMissed()).toBe(false)
  // A place that failed at the last time is not tried before the next.
  recordSuccess(app.config.dataDir, Date.UTC(2026, 2, 4, 15, 16), success)
  expect(isMissed()).toBe(true)
  recordFailure(app.config.dataDir, Date.UTC(2026, 2, 5, 3, 15), 'it failed.')
  expect(isMissed()).toBe(false)
  recordSuccess(app.config.dataDir, Date.UTC(2026, 2, 4, 15, 16), success)
  storeFence(app.db, { kind: 'backup', takenAt: null, fencedAt: 1, lastIds: {}, released: [] })
  expect(isMissed()).toBe(false)
  endFence(app.db)

  for (let start = 0; start < 2; start++) {
    const schedules = startSchedules(opened)
    try {
      clock.advance(minutes(4))
      expect(readdirSync(folder.path)).toHaveLength(start)
      clock.advance(minutes(1))
      if (start === 0) await eventually(() => readBackupState(app.config.dataDir).path !== '')
    } finally {
      await schedules.stop()
    }
    expect(readdirSync(folder.path)).toHaveLength(1)
    expect(isMissed()).toBe(false)
  }
})

test('a scheduled backup that is due while another runs is not written', async () => {
  using folder = newFolder()
  await using service = await createTestApp({ settings: { TASSIS_BACKUP_DIR: folder.path } })
  const { signal } = new AbortController()
  await Promise.all([runScheduledBackup(service.opened, signal), runScheduledBackup(service.opened, signal)])
  expect(readdirSync(folder.path)).toHaveLength(1)
})

test('`tassis backup` without a path writes where the schedule does, and a running service records it', async () => {
  using data = createDataFolder()
  const settings = {
    ...data.settings,
    TASSIS_BACKUP_DIR: join(data.path, 'backups-elsewhere'),
    TASSIS_DELIVERY: 'capture',
  }
  const service = await startService(loadConfig({ ...settings, TASSIS_LOG_LEVEL: 'silent' }).config)
  try {
    const { path } = await runTassisJson<{ path: string }>(['backup'], settings)
    expect(readBackupState(data.path).path).toBe(path)
    expect(createHoldReader(data.path, systemClock)()).toBe(false)
  } finally {
    await service.stop()
  }
})

// Proves: storage-16
test('content stays while a backup holds it, and goes afterwards', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  const [ref = 0] = await app.content.put([Buffer.from('nobody refers to this')], clock.now())
  await app.commit.write((tx) => dropContent(app, tx, { content: [ref] }))
  clock.advance(minutes(10))
  const hold = holdDeletion(app.config.dataDir, clock)
  expect(await sweep(app)).toBe(1)
  expect(await app.content.dropMonthsBefore(clock.now() + days(62))).toBe(0)
  expect(app.content.has(ref)).toBe(true)
  hold.release()
  expect(await sweep(app)).toBe(0)
  expect(app.content.has(ref)).toBe(false)
})

// Proves: storage-16
test('backups hold at the same time; a hold ends with its process, and after some hours in any case', async () => {
  using folder = newFolder()
  const clock = new ManualClock()
  const isHeld = createHoldReader(folder.path, clock)
  expect(isHeld()).toBe(false)
  const [first, second] = [holdDeletion(folder.path, clock), holdDeletion(folder.path, clock)]
  first.release()
  expect(isHeld()).toBe(true)
  clock.advance(hours(6))
  expect(isHeld()).toBe(false)
  // Another one is held for as long again, although nobody looked between both.
  const third = holdDeletion(folder.path, clock)
  expect(isHeld()).toBe(true)
  second.release()
  third.release()
  expect(isHeld()).toBe(false)

  const hold = `import { holdDeletion } from '#features/core/content-gc/deletion-hold.ts'
    // Kept: the garbage collector would close the file, and with it end the lock.
    globalThis.hold = holdDeletion(${JSON.stringify(folder.path)}, { now: () => ${clock.now()} })
    console.log('held')
    setInterval(() => undefined, 1000)`
  await using child = Bun.spawn([process.execPath, '-e', hold], { cwd: ROOT, stdout: 'pipe' })
  await child.stdout.getReader().read()
  expect(isHeld()).toBe(true)
  child.kill('SIGKILL')
  await child.exited
  expect(isHeld()).toBe(false)
})
