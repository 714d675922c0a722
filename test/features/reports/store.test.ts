import { expect, test } from 'bun:test'
import type { App } from '#features/app.ts'
import { createDomain } from '#features/domains/domains.ts'
import { findReport, listReports, storeReport, trimReports } from '#features/reports/store.ts'
import { ManualClock } from '#platform/clock.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/reports/report.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'

const BEGIN = Date.UTC(2025, 10, 20)

const dmarc: AggregateReport & { contentRef: number } = {
  kind: 'dmarc',
  domain: 'sender.test',
  organisation: 'receiver.example',
  reportId: '1',
  beginMs: BEGIN,
  endMs: BEGIN + days(1),
  content: Buffer.from('<feedback/>'),
  contentRef: 7,
}

const store = (app: App, changes: Partial<typeof dmarc> = {}, at = app.clock.now()): Promise<boolean> =>
  app.commit.write((tx) => storeReport(app, tx, { ...dmarc, ...changes }, at))

const ids = (app: App): string[] => listReports(app.db, { limit: 100 }).map(({ reportId }) => reportId)

test('a report is stored with what it says of itself, and found again by its id', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  expect(await store(app)).toBe(true)
  const [stored] = listReports(app.db, { limit: 100 })
  expect(stored).toEqual({
    uuid: expect.any(Uint8Array) as Uint8Array,
    kind: 'dmarc',
    account: null,
    domain: 'sender.test',
    organisation: 'receiver.example',
    reportId: '1',
    beginAt: BEGIN,
    endAt: BEGIN + days(1),
    contentRef: 7,
    sizeBytes: 11,
    createdAt: clock.now(),
  })
  expect(findReport(app.db, formatUuid(stored?.uuid ?? new Uint8Array()))).toEqual(stored as never)
  for (const id of ['nothing', '00000000-0000-7000-8000-000000000000'])
    expect(() => findReport(app.db, id)).toThrow(
      expect.objectContaining({ status: 404, code: 'report_not_found' }) as unknown as Error,
    )
})

test('a report that is sent again is not stored again, whatever else it says; another kind, organisation, id or domain is another report', async () => {
  await using service = await createTestApp()
  const { app } = service
  expect([
    await store(app),
    await store(app),
    await store(app, { contentRef: 8, beginMs: null, endMs: null }),
    await store(app, { kind: 'tls' }),
    await store(app, { organisation: 'other.example' }),
    await store(app, { reportId: '2' }),
    await store(app, { domain: 'other.test' }),
  ]).toEqual([true, false, false, true, true, true, true])
  expect(listReports(app.db, { limit: 100 }).map(({ contentRef }) => contentRef)).toEqual([7, 7, 7, 7, 7])
})

test('the account is that of the nearest verified domain at or above; the first of several; nobody for one that is not verified or deleted', async () => {
  await using service = await createTestApp()
  const { app } = service
  const actors = { first: await createTestAccount(app), second: await createTestAccount(app) }
  app.db.run(`UPDATE accounts SET name = 'second' WHERE id = ?`, [actors.second.accountId])
  await createDomain(app, actors.first, 'sender.test')
  await createDomain(app, actors.second, 'sender.test')
  await createDomain(app, actors.second, 'news.sender.test')
  await createDomain(app, actors.second, 'deleted.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  app.db.run(`UPDATE domains SET deleted_at = 1 WHERE domain = 'deleted.test'`)
  await createDomain(app, actors.second, 'new.test')
  const names = [
    'sender.test',
    'a.b.sender.test',
    'x.news.sender.test',
    'xsender.test',
    'new.test',
    'deleted.test',
    'test',
  ]
  for (const domain of names) await store(app, { domain })
  expect(
    Object.fromEntries(listReports(app.db, { limit: 100 }).map(({ domain, account }) => [domain, account])),
  ).toEqual({
    'sender.test': 'Test',
    'a.b.sender.test': 'Test',
    'x.news.sender.test': 'second',
    'xsender.test': null,
    'new.test': null,
    'deleted.test': null,
    test: null,
  })
})

test('lists are newest first, of one domain when asked, and end at the limit', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  for (const [reportId, domain] of [
    ['1', 'a.test'],
    ['2', 'b.test'],
    ['3', 'a.test'],
  ] as const) {
    await store(app, { reportId, domain })
    clock.advance(1000)
  }
  const of = (filter: Parameters<typeof listReports>[1]) => listReports(app.db, filter).map(({ reportId }) => reportId)
  expect([
    of({ limit: 10 }),
    of({ limit: 2 }),
    of({ limit: 10, domain: 'a.test' }),
    of({ limit: 1, domain: 'a.test' }),
    of({ limit: 10, domain: 'test' }),
  ]).toEqual([['3', '2', '1'], ['3', '2'], ['3', '1'], ['3'], []])
})

test('reports of over 400 days go, however many, and the others stay', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  const start = clock.now()
  await app.commit.write((tx) => {
    for (let number = 0; number < 1_200; number++) storeReport(app, tx, { ...dmarc, reportId: `old ${number}` }, start)
  })
  await store(app, { reportId: 'later' }, start + 1)
  clock.advance(days(400))
  expect([await trimReports(app), ids(app).length]).toEqual([0, 100])
  clock.advance(1)
  expect([await trimReports(app), ids(app)]).toEqual([1_200, ['later']])
  clock.advance(1)
  expect([await trimReports(app), await trimReports(app), ids(app)]).toEqual([1, 0, []])
})
