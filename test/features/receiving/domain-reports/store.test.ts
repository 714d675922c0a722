import { expect, test } from 'bun:test'
import type { Actor, App } from '#features/core/app/app.ts'
import type { ReportOrigin } from '#features/receiving/domain-reports/assess.ts'
import {
  findReport,
  findReportRefusal,
  listReports,
  purgeReports,
  storeDomainReport,
} from '#features/receiving/domain-reports/store.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

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

const store = async (app: App, changes: Partial<typeof dmarc> = {}, at = app.clock.now()): Promise<string> => {
  const report = { ...dmarc, ...changes }
  const refusal = findReportRefusal(app, report, at)
  if (refusal !== undefined) return refusal
  const stored = await app.commit.write((tx) => storeDomainReport(app, tx, report, at))
  return stored?.isNew ? 'stored' : stored ? 'known' : 'gone'
}

/** An account with verified domains. */
async function registered(app: App, ...domains: readonly string[]): Promise<Actor> {
  const actor = await createTestAccount(app)
  for (const domain of domains) await createDomain(app, actor, domain)
  app.db.run('UPDATE domains SET verified_at = 1')
  return actor
}

const ids = (app: App): string[] =>
  listReports(app.db, undefined, { limit: 100, offset: 0 }).reports.map(({ reportId }) => reportId)

// Proves: inbound-33
test('a report is stored with its metadata and found by its id', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  await registered(app, 'sender.test')
  expect(await store(app)).toBe('stored')
  const [stored] = listReports(app.db, undefined, { limit: 100, offset: 0 }).reports
  expect(stored).toEqual({
    id: expect.any(Number) as number,
    uuid: expect.any(Uint8Array) as Uint8Array,
    kind: 'dmarc',
    account: 'Test',
    domain: 'sender.test',
    organisation: 'receiver.example',
    reportId: '1',
    beginAt: BEGIN,
    endAt: BEGIN + days(1),
    contentRef: 7,
    sizeBytes: 11,
    createdAt: clock.now(),
    counted: null,
    uncounted: 'The message that brought it fails DMARC or is not authenticated, so anybody may have written it.',
    reporter: null,
  })
  expect(findReport(app.db, formatUuid(stored?.uuid ?? new Uint8Array()))).toEqual(stored as never)
  for (const id of ['nothing', '00000000-0000-7000-8000-000000000000'])
    expect(() => findReport(app.db, id)).toThrow(
      expect.objectContaining({ status: 404, code: 'report_not_found' }) as unknown as Error,
    )
})

test('a repeated report is not stored again; another kind, organisation, id or domain is another report', async () => {
  await using service = await createTestApp()
  const { app } = service
  await registered(app, 'sender.test', 'other.test')
  expect([
    await store(app),
    await store(app),
    await store(app, { contentRef: 8, beginMs: null, endMs: null }),
    await store(app, { kind: 'tls' }),
    await store(app, { organisation: 'other.example' }),
    await store(app, { reportId: '2' }),
    await store(app, { domain: 'other.test' }),
  ]).toEqual(['stored', 'known', 'known', 'stored', 'stored', 'stored', 'stored'])
  expect(listReports(app.db, undefined, { limit: 100, offset: 0 }).reports.map(({ contentRef }) => contentRef)).toEqual(
    [7, 7, 7, 7, 7],
  )
})

test('a report belongs to the account of the nearest verified domain at or above its own; none for the host and unverified domains', async () => {
  await using service = await createTestApp()
  const { app } = service
  const second = await createTestAccount(app)
  app.db.run(`UPDATE accounts SET name = 'second'`)
  await createDomain(app, second, 'sender.test')
  const first = await createTestAccount(app)
  await createDomain(app, first, 'sender.test')
  await createDomain(app, first, 'deleted.test')
  app.db.run(`UPDATE domains SET verified_at = CASE account_id WHEN ? THEN 1 END`, [first.accountId])
  app.db.run(`UPDATE domains SET deleted_at = 1 WHERE domain = 'deleted.test'`)
  await createDomain(app, second, 'news.sender.test')
  await createDomain(app, second, 'new.test')
  app.db.run(`UPDATE domains SET verified_at = 1 WHERE domain = 'news.sender.test'`)
  const REFUSED = 'The report is about a domain that no account here has.'
  const expected = {
    'sender.test': 'Test',
    'a.b.sender.test': 'Test',
    'x.news.sender.test': 'second',
    'new.test': null,
    'mail.tassis.test': null,
    'tassis.test': null,
    'x.mail.tassis.test': null,
    'xsender.test': REFUSED,
    'xtassis.test': REFUSED,
    'deleted.test': REFUSED,
    test: REFUSED,
  }
  const told: Record<string, string | null> = {}
  for (const domain of Object.keys(expected)) {
    const why = findReportRefusal(app, { ...dmarc, domain }, app.clock.now())
    const result = await store(app, { domain })
    expect<unknown>([domain, result]).toEqual([domain, why ?? 'stored'])
    const [stored] = listReports(app.db, domain, { limit: 1, offset: 0 }).reports
    told[domain] = stored ? stored.account : result
  }
  expect(told).toEqual(expected)
})

test('a domain and its subdomains are limited to 1,000 reports within a day, without imported ones and other domains', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  await registered(app, 'sender.test', 'other.test')
  await app.commit.write((tx) => {
    for (let number = 0; number < 999; number++)
      storeDomainReport(app, tx, { ...dmarc, reportId: `r${number}`, domain: `d${number}.sender.test` }, clock.now())
    for (const reportId of ['i1', 'i2'])
      storeDomainReport(app, tx, { ...dmarc, reportId, origin: 'operator' }, clock.now())
  })
  const full = 'The report is about sender.test, which already has 1000 reports within a day.'
  const results = [await store(app), await store(app, { reportId: 'next' }), await store(app, { domain: 'other.test' })]
  const about = { ...dmarc, domain: 'x.sender.test' }
  const refusal = findReportRefusal(app, about, clock.now())
  // What strangers send does not keep out those of large receivers.
  const from = (domain: string) => {
    const details = { dmarc: { domain }, spf: { domain } }
    return { spf: 'pass', dkim: 'none', dmarc: 'pass', details } as unknown as ReportOrigin
  }
  expect(findReportRefusal(app, { ...about, origin: from('google.com') }, clock.now())).toBeUndefined()
  expect(findReportRefusal(app, { ...about, origin: from('stranger.test') }, clock.now())).toBe(full)
  clock.advance(days(1))
  results.push(await store(app, { reportId: 'a day later' }))
  expect({ results, refusal }).toEqual({ results: ['stored', full, 'stored', 'stored'], refusal: full })
})

test('lists are newest first, filtered by domain if requested, and limited', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  await registered(app, 'a.test', 'b.test')
  for (const [reportId, domain] of [
    ['1', 'a.test'],
    ['2', 'b.test'],
    ['3', 'a.test'],
  ] as const) {
    await store(app, { reportId, domain })
    clock.advance(1000)
  }
  const of = (limit: number, domain?: string) =>
    listReports(app.db, domain, { limit, offset: 0 }).reports.map(({ reportId }) => reportId)
  expect([of(10), of(2), of(10, 'a.test'), of(1, 'a.test'), of(10, 'test')]).toEqual([
    ['3', '2', '1'],
    ['3', '2'],
    ['3', '1'],
    ['3'],
    [],
  ])
})

test('reports older than 400 days are deleted; others stay', async () => {
  const clock = new ManualClock()
  await using service = await createTestApp({ clock })
  const { app } = service
  const start = clock.now()
  const domains = ['sender.test', 'other.test']
  await registered(app, ...domains)
  await app.commit.write((tx) => {
    for (let number = 0; number < 1_200; number++)
      storeDomainReport(app, tx, { ...dmarc, domain: domains[number % 2] ?? '', reportId: `old ${number}` }, start)
  })
  await store(app, { reportId: 'later' }, start + 1)
  clock.advance(days(400))
  expect([await purgeReports(app), ids(app).length]).toEqual([0, 100])
  clock.advance(1)
  expect([await purgeReports(app), ids(app)]).toEqual([1_200, ['later']])
  clock.advance(1)
  expect([await purgeReports(app), await purgeReports(app), ids(app)]).toEqual([1, 0, []])
})
