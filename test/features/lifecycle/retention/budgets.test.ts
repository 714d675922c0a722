import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { fstatSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { sweep } from '#features/core/content-gc/sweep.ts'
import { type Budgets, computeBudgets, mapKinds } from '#features/lifecycle/retention/budgets.ts'
import { measureUse, sumBytes } from '#features/lifecycle/retention/cuts.ts'
import { findOldest } from '#features/lifecycle/retention/disk.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { releasePages } from '#platform/db/scrub.ts'
import { GiB, hours, KiB, MiB, minutes } from '#platform/units.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { endAttempts, rowsOf, sizeFor } from './year.ts'

function useOf({ dataDir }: EmailApi): Budgets {
  using db = new Database(join(dataDir, 'tassis.db'), { readonly: true })
  const { kinds } = measureUse(db, dataDir)
  return mapKinds((kind) => sumBytes(kinds[kind].accounts))
}

const random = (bytes: number): string => crypto.getRandomValues(new Uint8Array(bytes)).toHex()

/** Sends some emails an hour, each with its own body, and completes them. */
async function sendHours(service: EmailApi, count: number, bytes: number): Promise<void> {
  for (let hour = 0; hour < count; hour++) {
    const sends = Array.from({ length: 10 }, (_, n) =>
      service.accepted({ to: `r${hour}-${n}@receiver.test`, text_body: random(bytes), subject: 'x'.repeat(200) }),
    )
    await Promise.all(sends)
    service.clock.advance(minutes(1))
    await endAttempts(service, 'receiver.test', [{ kind: 'sent', reply: '250 OK' }])
    service.clock.advance(hours(1))
  }
}

test('content over its limit is removed, oldest first, until it fits; waiting mail keeps its content', async () => {
  await using service = await createEmailApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('content', MiB) } })
  const { app, accepted } = service
  const waiting = await accepted({ to: 'later@waiting.test', text_body: 'Still to be sent' })
  await sendHours(service, 30, 8000)
  const before = useOf(service)
  expect(before.content).toBeGreaterThan(1.5 * MiB)
  // Estimated by averages: the next measurement, an hour later, shows what was freed.
  for (let run = 0; run < 3; run++) {
    await runRetention(app)
    await sweep(app)
  }
  const after = useOf(service)
  expect(after.content).toBeLessThanOrEqual(1 * MiB)
  // Nothing beyond that was removed.
  expect(after.content).toBeGreaterThan(0.8 * MiB)
  const [newestWithout, oldestWith] = [
    'max(id) AS id FROM emails WHERE text_ref IS NULL',
    'min(id) AS id FROM emails WHERE text_ref IS NOT NULL AND status = 3',
  ].map((sql) => app.db.query<{ id: number }, []>(`SELECT ${sql}`).get()?.id ?? 0)
  expect(newestWithout).toBeLessThan(oldestWith ?? 0)
  const { at } = app.db
    .query<{ at: number }, [number]>('SELECT created_at AS at FROM emails WHERE id = ?')
    .get(oldestWith ?? 0) ?? { at: 0 }
  expect(findOldest(app.db).content).toBe(at)
  expect(await service.detail(waiting.id)).toMatchObject({ status: 'queued', text_body: 'Still to be sent' })
  expectBalanced(service)
  // Below the limit nothing more is removed.
  expect(await runRetention(app)).toMatchObject({ content: 0 })
})

test('events and emails over their limits are removed, oldest first', async () => {
  await using service = await createEmailApi({
    settings: { TASSIS_DATA_MAX_BYTES: sizeFor('logs', 256 * KiB) },
  })
  const { app } = service
  await sendHours(service, 120, 20)
  const [emails, events] = [rowsOf(service, 'emails'), rowsOf(service, 'events')]
  for (let run = 0; run < 5; run++) await runRetention(app)
  const use = useOf(service)
  expect({ events: use.events <= 103 * KiB, logs: use.logs <= 256 * KiB }).toEqual({ events: true, logs: true })
  // The search index counts as well: each of these, with its long subject, takes some 1.3 KiB.
  expect({
    emails: rowsOf(service, 'emails') < emails && rowsOf(service, 'emails') > 150,
    events: rowsOf(service, 'events') < events && rowsOf(service, 'events') > 200,
  }).toEqual({ emails: true, events: true })
  expectBalanced(service)
})

test('received mail over its limit is removed, oldest first, with its raw form', async () => {
  await using service = await createEmailApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', MiB) } })
  const { app, actor, clock } = service
  const domainId = app.db.query<{ id: number }, []>('SELECT id FROM domains ORDER BY id LIMIT 1').get()?.id ?? 0
  for (let n = 0; n < 40; n++) {
    await storeTestInbound(
      app,
      { accountId: actor.accountId, domainId },
      { raw: `Subject: ${n}\r\n\r\n${random(25_000)}\r\n` },
    )
    clock.advance(hours(1))
  }
  expect(useOf(service).inbound).toBeGreaterThan(1 * MiB)
  await runRetention(app)
  await sweep(app)
  expect(useOf(service).inbound).toBeLessThanOrEqual(1 * MiB)
  const { first, last } = app.db
    .query<{ first: number; last: number }, []>('SELECT min(id) AS first, max(id) AS last FROM inbound_emails')
    .get() ?? { first: 0, last: 0 }
  expect({ first: first > 1, last }).toEqual({ first: true, last: 40 })
  expectBalanced(service)
})

test('removed data frees disk space: the files and the write-ahead log shrink', async () => {
  await using service = await createEmailApi({
    settings: { TASSIS_CONTENT_DAYS: '1', TASSIS_LOGS_DAYS: '1', TASSIS_EVENTS_DAYS: '1' },
  })
  const { app, clock, dataDir } = service
  await sendHours(service, 60, 4000)
  const sizes = async () => {
    for (const committer of app.content.committers()) await releasePages(committer)
    for (const db of [app.db, ...app.content.databases()]) db.run('PRAGMA wal_checkpoint(TRUNCATE)')
    return {
      database: statSync(join(dataDir, 'tassis.db')).size,
      content: app.content.committers().reduce((sum, { fileFd }) => sum + fstatSync(fileFd).size, 0),
      wal: statSync(join(dataDir, 'tassis.db-wal')).size,
    }
  }
  const before = await sizes()
  clock.advance(hours(48))
  expect(await runRetention(app)).toMatchObject({ logs: 600 })
  await sweep(app)
  const after = await sizes()
  expect({
    // Empty tables and indexes keep one page each.
    database: before.database - after.database > 300 * KiB,
    content: after.content < before.content * 0.2,
    wal: after.wal,
  }).toEqual({ database: true, content: true, wal: 0 })
})

const sizesOn = (availableGiB: number, usedGiB: number, minFreeDisk: number, dataMaxBytes = 0): number[] =>
  Object.values(
    computeBudgets({ sizeBytes: 100 * GiB, availableBytes: availableGiB * GiB }, usedGiB * GiB, {
      minFreeDisk,
      dataMaxBytes,
    }),
  ).map((bytes) => bytes / GiB)

// Proves: storage-9
test.each([
  ['80 % of the disk', sizesOn(60, 40, 0), [25, 10, 20, 25]],
  ['as set', sizesOn(60, 40, 0, 16 * GiB), [5, 2, 4, 5]],
  ['as set, and at most 80 % of the disk', sizesOn(60, 40, 0, 1000 * GiB), [25, 10, 20, 25]],
  ['without the reserve', sizesOn(80, 20, 20 * GiB), [20, 8, 16, 20]],
  ['without at most half of the disk for the reserve', sizesOn(95, 5, 90 * GiB), [12.5, 5, 10, 12.5]],
  ['without the data of others', sizesOn(50, 10, 20 * GiB), [10, 4, 8, 10]],
  ['those of the whole disk once new mail is refused', sizesOn(19, 10, 20 * GiB), [20, 8, 16, 20]],
])('the sizes are %s', (_, sizes, expected) => expect(sizes).toEqual(expected))
