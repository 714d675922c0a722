import { expect, setDefaultTimeout, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { setMeta } from '#features/core/events/record.ts'
import type { DiskUse } from '#features/lifecycle/retention/disk.ts'
import type { ServerDisk } from '#features/lifecycle/retention/disk-routes.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { watchDisk } from '#platform/disk/disk.ts'
import { createLog } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { KiB, MiB } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import {
  createDataFolder,
  type DataFolder,
  runTassis,
  runTassisJson,
  type Settings,
  setUpAccount,
  withApp,
} from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

type Use = DiskUse & Pick<ServerDisk, 'file_system'>

/** Whatever the disk of the machine; the default is a share of it. */
const SIZES = { TASSIS_DATA_MAX_BYTES: '160MiB' }

/** Returns the size of a folder according to du(1), in bytes. */
async function du(path: string): Promise<number> {
  await using child = Bun.spawn(['du', '-s', '--block-size=1', path], { stdout: 'pipe' })
  return Number((await child.stdout.text()).split('\t')[0])
}

/** Stores months of content, raw mail, a waiting import and rows. */
async function fill(data: DataFolder): Promise<void> {
  await withApp(data.settings, async (app) => {
    for (const month of [8, 9, 10]) {
      const at = Date.UTC(2025, month, 3)
      const large = crypto.getRandomValues(new Uint8Array(300 * KiB).subarray(0, 60_000))
      await app.content.put([large, Buffer.from('Hello')], at)
      await app.content.put(
        [Buffer.concat(Array.from({ length: 8 }, () => crypto.getRandomValues(new Uint8Array(60_000))))],
        at,
      )
      await app.rawMail.put([crypto.getRandomValues(new Uint8Array(50_000))], at)
    }
    await app.commit.write((tx) => setMeta(tx.db, 'filler', 'x'.repeat(3 * MiB)))
  })
  mkdirSync(join(data.path, 'imports'), { recursive: true })
  writeFileSync(join(data.path, 'imports', 'waiting.csv'), 'a@b.test\n'.repeat(40_000))
}

test('the sizes add up to the total, which equals du; the table shows them, limits and what is deleted next', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await fill(data)
  // Blocks are allocated shortly after they are written, so the two may see different sizes.
  const use = await eventually(async () => {
    const found = await runTassisJson<Use>(['disk'], { ...data.settings, ...SIZES })
    const duBytes = await du(data.path)
    return Math.abs(found.total_bytes - duBytes) <= duBytes / 100 && found
  })
  expect(
    [...use.content, ...use.raw_mail].reduce((sum, { bytes }) => sum + bytes, 0) +
      use.database.file_bytes +
      use.database.wal_bytes +
      use.captures_bytes +
      use.imports_bytes +
      use.other_bytes,
  ).toBe(use.total_bytes)
  expect({
    months: use.content.map(({ month }) => month),
    raw: use.raw_mail.map(({ month }) => month),
    imports: use.imports_bytes >= 360_000,
    groups: Object.values(use.database.groups).reduce((sum, bytes) => sum + bytes, use.database.free_bytes),
    kinds: use.kinds.map(({ kind, max_bytes, max_days }) => [kind, max_bytes, max_days]),
    hasFree: use.file_system.free_bytes > 0,
  }).toEqual({
    months: ['2025-09', '2025-10', '2025-11'],
    raw: ['2025-09', '2025-10', '2025-11'],
    imports: true,
    groups: use.database.file_bytes,
    kinds: [
      ['content', 50 * MiB, 90],
      ['events', 20 * MiB, 365],
      ['inbound', 40 * MiB, 365],
      ['logs', 50 * MiB, 730],
      ['audit', null, 1095],
    ],
    hasFree: true,
  })
  const { stdout, stderr, exitCode } = await runTassis(['disk'], { ...data.settings, ...SIZES })
  expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 })
  expect(stdout).toMatch(/^Total: +\d[\s\S]*\nFree on this disk: +\d/m)
  expect(stdout).toMatch(/\nDatabase:\n {2}File: +\d.*\n {2}Wal: +\d.*\n {2}Free: +\d/)
  expect(stdout).toMatch(/\nCONTENT OF +BYTES +FREE\n[\s\S]*\n2025-11 +\d/)
  expect(stdout).toMatch(/\nlogs +0 B +50.0 MiB +730\n/)
  expect(stdout).not.toContain('New mail is refused')
  const full = await runTassis(['disk'], { ...data.settings, TASSIS_MIN_FREE_DISK: '1024GiB' })
  expect(full.stdout).toContain('\nNew mail is refused until 1.0 TiB are free (TASSIS_MIN_FREE_DISK).\n')
  const send = ['send', '--from', 'a@sender.test', '--to', 'b@c.test', '--text', 'x']
  expect(
    await runTassis(send, { ...data.settings, TASSIS_MIN_FREE_DISK: '1024GiB', TASSIS_LOG_LEVEL: 'silent' }),
  ).toEqual({
    exitCode: 1,
    stdout: '',
    stderr:
      'tassis: The disk of the data is full, or has less than TASSIS_MIN_FREE_DISK left; nothing was changed. `tassis disk` shows what uses it; free space or use a larger disk.\n',
  })
})

test('the table names the accounts that use the most, and what is deleted next from those above their share', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await withApp(data.settings, async (app) => {
    const heavy = await createTestAccount(app)
    const light = await createTestAccount(app)
    for (const [owner, messages] of [
      [heavy, 30],
      [light, 3],
    ] as const) {
      const { domain } = await createDomain(app, owner, `${owner.accountId}.test`)
      for (let n = 0; n < messages; n++)
        await storeTestInbound(
          app,
          { accountId: owner.accountId, domainId: domain.id },
          { raw: crypto.getRandomValues(new Uint8Array(50_000)).toHex(), routeId: 1 },
        )
    }
  })
  const settings = { ...data.settings, TASSIS_DATA_MAX_BYTES: '4MiB' }
  const { kinds } = await runTassisJson<Use>(['disk'], settings)
  const inbound = kinds.find(({ kind }) => kind === 'inbound')
  const [first, second] = inbound?.accounts ?? []
  expect(first?.used_bytes).toBeGreaterThan(1.3 * MiB)
  expect(first?.share_bytes).toBeLessThan(1 * MiB)
  const fits = { used_bytes: expect.any(Number), kept_bytes: 0, share_bytes: null, goes_before: null }
  expect({ over: inbound?.over_before, first, second }).toMatchObject({
    over: first?.goes_before ?? 'none',
    first: { share_bytes: expect.any(Number), goes_before: expect.any(String) },
    second: fits,
  })
  const { stdout } = await runTassis(['disk'], settings)
  expect(stdout).toMatch(/\nKIND +NAME +ID +USED +SHARE +DELETED NOW BEFORE\n/)
  expect(stdout).toMatch(new RegExp(`\ninbound .* ${first?.id} +1\\.\\d MiB +\\d+ KiB +\\d{4}-.*Z\n`))
  expect(stdout).toMatch(new RegExp(`\ninbound .* ${second?.id} +\\d+ KiB\n`))
})

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
