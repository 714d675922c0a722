import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkConsistency, checkContent, findCorruption } from '#app/cli/check.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { checkBalances, readBalances } from '#features/sending/queue/consistency.ts'
import { AppError } from '#platform/errors.ts'
import { days, hours, KiB } from '#platform/units.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { rowsOf, sendAndEnd, sizeFor } from './year.ts'

const SHORT = { TASSIS_CONTENT_DAYS: '10', TASSIS_EVENTS_DAYS: '20', TASSIS_LOGS_DAYS: '30' } as const

const CHILD = join(import.meta.dir, 'child.ts')

/** Differences found by the consistency rules and the content check. */
function differencesOf(dataDir: string): string[] {
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  const findings = [
    ...checkConsistency(db),
    checkBalances(readBalances(db)),
    ...checkContent(db, join(dataDir, 'content')),
    { differences: findCorruption(db, 'tassis.db') },
  ]
  return findings.flatMap(({ differences }) => differences)
}

/**
 * Runs retention in processes that kill themselves during the given numbers of writes, then in one that ends, and
 * checks what each leaves.
 */
async function runKilled(
  dataDir: string,
  { now, writes, settings }: { now: number; writes: readonly number[]; settings: Readonly<Record<string, string>> },
): Promise<void> {
  const run = async (lastWrite: number): Promise<number> => {
    await using child = Bun.spawn([process.execPath, CHILD, String(now), String(lastWrite)], {
      env: {
        PATH: process.env['PATH'] ?? '',
        TASSIS_DATA_DIR: dataDir,
        TASSIS_HOSTNAME: 'mail.tassis.test',
        TASSIS_LOG_LEVEL: 'silent',
        TASSIS_DNS_SERVERS: '127.0.0.1:9',
        ...settings,
      },
      stdout: 'ignore',
      stderr: 'inherit',
    })
    return await child.exited
  }
  for (const lastWrite of writes) {
    expect(await run(lastWrite)).toBe(128 + 9)
    expect(differencesOf(dataDir)).toEqual([])
  }
  expect(await run(0)).toBe(0)
  expect(differencesOf(dataDir)).toEqual([])
}

test('a run killed in the middle of a transaction leaves nothing half done, and the next continues there', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-retention-'))
  try {
    let now = 0
    {
      await using service = await createEmailApi({ settings: SHORT, dataDir })
      for (let month = 0; month < 4; month++) await sendAndEnd(service, 200, month)
      await service.accepted({ to: 'waiting@waiting.test' })
      now = service.clock.now() + days(31)
    }
    // Content first, then events, then emails: each is interrupted in its middle.
    await runKilled(dataDir, { now, writes: [2, 12, 20, 30, 9], settings: SHORT })
    using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
    const tables = ['emails', 'recipients', 'events', 'link_clicks', 'idempotency_keys']
    const counts = tables.map((table) => db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n)
    expect(counts).toEqual([1, 1, 0, 0, 0])
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}, 120_000)

test('a run killed while it applies budgets leaves nothing half done, and the next gets within them', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-retention-'))
  const settings = { TASSIS_DATA_MAX_BYTES: sizeFor('logs', 200 * KiB) }
  try {
    let now = 0
    {
      await using service = await createEmailApi({ dataDir })
      for (let month = 0; month < 4; month++) await sendAndEnd(service, 200, month)
      now = service.clock.now() + hours(1)
    }
    await runKilled(dataDir, { now, writes: [3, 8, 5], settings })
    using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
    const count = (table: string): number =>
      db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0
    expect({ emails: count('emails') < 600, events: count('events') < 1200 }).toEqual({ emails: true, events: true })
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}, 120_000)

test('a full disk ends a run, which keeps its earlier changes only; the next continues', async () => {
  await using service = await createEmailApi({ settings: SHORT })
  const { app, clock } = service
  for (let month = 0; month < 3; month++) await sendAndEnd(service, 200, month)
  clock.advance(days(11))
  const pages = app.db.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
  app.db.run(`PRAGMA max_page_count = ${pages}`)
  const failure: unknown = await runRetention(app).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(AppError)
  expect(failure).toMatchObject({ code: 'insufficient_storage' })
  const left = rowsOf(service, 'emails WHERE html_ref IS NOT NULL')
  expect(left).toBeGreaterThan(0)
  expectBalanced(service)
  app.db.run('PRAGMA max_page_count = 1000000')
  clock.advance(hours(1))
  expect(await runRetention(app)).toMatchObject({ content: left })
  expectBalanced(service)
})

test('an aborted run stops after its step, and callers during a run share it', async () => {
  await using service = await createEmailApi({ settings: SHORT })
  const { app, clock } = service
  await sendAndEnd(service, 200, 0)
  clock.advance(days(31))
  const ending = new AbortController()
  const run = runRetention(app, ending.signal)
  expect(runRetention(app)).toBe(run)
  ending.abort()
  await run
  expect(rowsOf(service, 'emails')).toBe(200)
  expect(await runRetention(app)).toMatchObject({ logs: 200 })
})
