import { expect, setDefaultTimeout, test } from 'bun:test'
import { watchDisk } from '#app/disk-watch.ts'
import { loadConfig } from '#app/settings.ts'
import { createLog } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createDataFolder, type Settings } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

/** Collects the levels and messages of the log after two disk checks. */
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

test('the log says that new mail is refused, and why', async () => {
  using folder = createDataFolder()
  const withBound = (bound: string, path = folder.path) =>
    collectLog({ ...folder.settings, TASSIS_DATA_DIR: path, TASSIS_MIN_FREE_DISK: bound })
  expect(await withBound('1')).toEqual([])
  expect(await withBound('1024GiB')).toEqual([
    'error: free disk space below TASSIS_MIN_FREE_DISK: refusing new mail; see `tassis disk`',
  ])
  expect(await withBound('1', `${folder.path}/gone`)).toEqual(['error: cannot read free disk space: refusing new mail'])
})
