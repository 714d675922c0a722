import { expect, test } from 'bun:test'
import { watchDisk } from '#app/disk-watch.ts'
import { loadConfig } from '#app/settings.ts'
import { systemClock } from '#platform/clock.ts'
import { createLog } from '#platform/log.ts'
import { createDataFolder, type Settings } from './process.ts'

/** The severities and sentences in the log after the disk was asked for twice. */
async function collectLog(settings: Settings): Promise<string[]> {
  const lines: string[] = []
  const log = createLog('info', { write: (line) => lines.push(line) })
  const guard = watchDisk(loadConfig({ ...settings }).config, systemClock, log)
  await guard.isLow()
  await guard.isLow()
  return lines.map((line) => {
    const { level, msg } = JSON.parse(line) as { level: string; msg: string }
    return `${level}: ${msg}`
  })
}

test('the log says that new mail is refused for want of space, and why', async () => {
  using folder = createDataFolder()
  const withBound = (bound: string, path = folder.path) =>
    collectLog({ ...folder.settings, TASSIS_DATA_DIR: path, TASSIS_MIN_FREE_DISK: bound })
  expect(await withBound('1')).toEqual([])
  expect(await withBound('1024GiB')).toEqual([
    'error: the disk has less free space than TASSIS_MIN_FREE_DISK: new mail is refused; see `tassis disk`',
  ])
  expect(await withBound('1', `${folder.path}/gone`)).toEqual([
    'error: how much of the disk is free cannot be read: new mail is refused',
  ])
})
