/** Whose reports the advice rests on, and how much of them is stored: reports as they come from the parser. */
import { afterAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { checkDomainReports } from '#app/doctor/checks/state.ts'
import type { DoctorContext } from '#app/doctor/context.ts'
import { listReportAlerts, watchReports } from '#features/receiving/domain-reports/alerts.ts'
import type { ReportOrigin } from '#features/receiving/domain-reports/assess.ts'
import { areRowsFull, purgeReports, storeDomainReport } from '#features/receiving/domain-reports/store.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { foundIpsOf } from '#platform/settings/outbound-source.ts'
import type { AggregateReport, DmarcRow } from '#protocols/aggregate-reports/report.ts'
import { createTestAccount } from '#test/support/app.ts'
import { NOW } from '#test/support/email-api.ts'
import { BEGIN, DAY_MS, OUR_IP, type ReportsFixture, startReportsFixture } from './fixture.ts'

setDefaultTimeout(60_000)

let t: ReportsFixture
beforeEach(async () => {
  await t?.[Symbol.asyncDispose]()
  t = await startReportsFixture()
})
afterAll(() => t[Symbol.asyncDispose]())

const row = (sourceIp: string, count: number, changes: Partial<DmarcRow> = {}): DmarcRow => ({
  sourceIp,
  count,
  from: 'sender.test',
  disposition: 'none',
  isDkimAligned: false,
  isSpfAligned: false,
  reasons: [],
  envelopeFrom: '',
  dkim: [],
  spf: [],
  ...changes,
})
const signed = (result: string) => ({
  isDkimAligned: result === 'pass',
  dkim: [{ domain: 'sender.test', selector: t.selector, result, isKeyMissing: false }],
})
const own = (count: number, changes: Partial<DmarcRow> = {}) =>
  row(OUR_IP, count, { ...signed('pass'), isSpfAligned: true, ...changes })
/** Ours; fails. */
const broken = (count: number) => own(count, { ...signed('fail'), isSpfAligned: false })
const mailchimp = (count: number) => row('198.2.130.1', count, { spf: [{ domain: 'x.mcsv.net', result: 'pass' }] })

const authentic = (domain: string) =>
  ({
    spf: 'pass',
    dkim: 'none',
    dmarc: 'pass',
    details: { dmarc: { domain }, spf: { domain } },
  }) as unknown as ReportOrigin

let reports = 0
const put = (rows: readonly DmarcRow[], origin: ReportOrigin, changes: Partial<AggregateReport> = {}) => {
  const beginMs = changes.beginMs ?? BEGIN
  const report = {
    kind: 'dmarc' as const,
    domain: 'sender.test',
    organisation: 'https://evil.test/login',
    reportId: `p${++reports}`,
    beginMs,
    endMs: beginMs + DAY_MS - 1000,
    content: new Uint8Array(1),
    contentRef: 0,
    origin,
    records: { rows, sessions: [] },
    ...changes,
  }
  return t.app.commit.write((tx) => storeDomainReport(t.app, tx, report, NOW))
}
const putWeek = async (rows: readonly DmarcRow[], domain = 'google.com') => {
  for (let day = 0; day < 7; day++) await put(rows, authentic(domain), { beginMs: BEGIN + day * DAY_MS })
}
const newest = () =>
  t.app.db.query('SELECT reporter, counted, uncounted FROM received_reports ORDER BY id DESC').get() as {
    reporter: string | null
    counted: number | null
    uncounted: string | null
  }
const countRows = () => t.app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM report_rows').get()?.n
const readAdvice = async () => (await t.reports()).advice.text
const SAFE = 'It is safe to go to p=quarantine.'

// Proves: inbound-33
test('a stranger with authentic mail makes no advice safe, neither alone nor beside receivers', async () => {
  t.countSent(1000)
  const stranger = [own(900), row('198.51.100.1', 1_000_000, { isSpfAligned: true })]
  await putWeek(stranger, 'reports.stranger.test')
  expect(newest()).toEqual({ reporter: 'stranger.test', counted: 1_000_900, uncounted: null })
  expect(await readAdvice()).toStartWith('Do not go to p=quarantine yet. Reports of large receivers cover 0 days')
  await putWeek([own(200), broken(10)])
  expect(await readAdvice()).toStartWith('Do not go to p=quarantine yet. Mend our own mail first: 70 messages.')
  // Mail that others send in the name of the domain does not make ours a smaller part.
  await t.app.commit.write((tx) => tx.db.run("DELETE FROM report_rows WHERE reporter = 'stranger.test'"))
  await putWeek([row('198.51.100.1', 1_000_000, { isSpfAligned: true })])
  expect(await readAdvice()).toContain('Mend our own mail first: 70 messages.')
  // Of all its reports about a day, 14,010 at most can be ours.
  for (const count of [900, 900]) await put([own(count)], authentic('other.test'))
  for (const domain of ['a.other.test', 'b.other.test']) await put([own(6200)], authentic(domain))
  expect(newest().uncounted).toStartWith('It is doubtful: with it, its sender says that 14200 messages')
  // Gmail users are not Google.
  await put([own(1)], authentic('gmail.com'))
  expect(t.app.db.query("SELECT is_proven AS n FROM report_rows WHERE reporter = 'gmail.com'").get()).toEqual({ n: 0 })
})

test('no claim of another makes a report of a large receiver doubtful', async () => {
  t.countSent(1000)
  // Users of a freemail domain have the name of its receiver, and the first signature may be a forged one.
  const users = authentic('yahoo.com')
  const forged = {
    ...{ spf: 'none', dkim: 'pass', dmarc: 'none' },
    details: {
      dmarc: { domain: 'stranger.test' },
      dkim: [
        { domain: 'google.com', result: 'fail' },
        { domain: 'stranger.test', result: 'pass' },
      ],
    },
  } as unknown as ReportOrigin
  await put([own(14_000)], forged)
  expect(newest()).toMatchObject({ reporter: 'stranger.test', counted: 14_000 })
  await put([own(14_000)], users)
  expect(newest()).toMatchObject({ reporter: 'yahoo.com', counted: 14_000 })
  await put([own(900)], authentic('dmarc.yahoo.com'))
  expect(newest()).toMatchObject({ reporter: 'yahoo.com', counted: 900 })
})

test('whether the table is full is known without reading all of it', () => {
  t.app.db.run(
    `INSERT INTO report_rows (report_id, account_id, domain, day, reporter, is_proven, class, cause, source, sender, disposition, is_from_us, dkim, spf, count)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)
     SELECT i, 1, 'other.test', 1, 'x', 0, 'foreign', '', '', '', 'none', 0, 0, 0, 1 FROM n`,
  )
  const times = Array.from({ length: 5 }, () => {
    const startMs = performance.now()
    expect(areRowsFull(t.app.db, false)).toBe(false)
    return performance.now() - startMs
  })
  expect(Math.min(...times)).toBeLessThan(3)
})

test('mail of ours from addresses that are not known blocks the advice; those of the host name are known', async () => {
  t.countSent(1000)
  const lost = row('192.0.2.77', 100, signed('fail'))
  await putWeek([own(300), lost])
  expect(await readAdvice()).toContain(
    '700 messages of ours came from addresses that are not known to be ours, and fail',
  )
  foundIpsOf(t.app.config).ips = ['192.0.2.77']
  await put([lost], authentic('google.com'), { beginMs: BEGIN + 7 * DAY_MS })
  expect((await t.reports()).sources).toContainEqual(expect.objectContaining({ cause: 'dkim_failed', count: 100 }))
})

test('a service below the 100 largest sources still blocks the advice', async () => {
  t.countSent(1000)
  const foreign = Array.from({ length: 150 }, (_, i) => row(`203.0.113.${i}`, 100))
  await putWeek([own(100), ...foreign, mailchimp(13)])
  expect((await t.reports()).sources.some(({ name }) => name === 'Mailchimp')).toBe(false)
  expect(await readAdvice()).toContain('at Mailchimp first, or make sure that it is not yours: 91 messages of it fail.')
})

// Proves: inbound-33
test('rows are limited by domain and day, by source of the advice, in all, and by age; sums stay', async () => {
  t.countSent(1000)
  const many = Array.from({ length: 5000 }, (_, i) => row(`10.0.${i >> 8}.${i & 255}`, 1))
  await put([...many, mailchimp(1)], authentic('stranger.test'))
  expect(countRows()).toBe(202)
  for (let i = 0; i < 201; i++) await put(many.slice(0, 2), authentic('stranger.test'))
  expect(newest()).toMatchObject({ counted: null, uncounted: 'As many rows of reports are stored as may be.' })
  expect((await t.reports()).totals).toMatchObject({ foreign: 5000 + 199 * 2, service: 1 })
  await put(many.slice(0, 50), authentic('google.com'))
  expect((await t.reports()).sources.filter(({ name }) => name === '10.0.0.7')).toEqual([
    expect.objectContaining({ count: 2 }),
  ])
  const doctor = async () =>
    [await checkDomainReports({ ...t.app, resolver: undefined } as unknown as DoctorContext)].flat()
  expect((await doctor()).map(({ status }) => status)).toEqual(['ok'])
  // As after a million rows.
  t.app.db.run("UPDATE sqlite_sequence SET seq = seq + 1000000 WHERE name = 'report_rows'")
  await put([own(1)], authentic('stranger.test'))
  await put([own(1)], authentic('stranger.test'))
  expect(newest().counted).toBeNull()
  await put([own(1)], authentic('google.com'))
  expect(newest().counted).toBe(1)
  expect((await doctor()).map(({ message }) => message)).toContain(
    'So many rows of DMARC and TLS reports are stored that new ones are not counted.',
  )
  t.app.db.run('UPDATE received_reports SET created_at = created_at - 96 * 86400000 WHERE id <= 100')
  const before = countRows() ?? 0
  expect(await purgeReports(t.app)).toBe(0)
  expect(countRows()).toBe(before - 202 - 99)
})

test('records about a subdomain of another account are counted there, by what that account sent', async () => {
  t.countSent(1000)
  const other = await createTestAccount(t.app)
  await createDomain(t.app, other, 'news.sender.test')
  t.app.db.run("UPDATE domains SET verified_at = 1 WHERE domain = 'news.sender.test'")
  const news = own(50_000, { from: 'x.news.sender.test', dkim: [] })
  await put([own(5), news], authentic('google.com'))
  expect(newest().uncounted).toContain('but the account sent 0 at most')
  t.app.db.run('UPDATE daily_figures SET account_id = ? WHERE day = ?', [other.accountId, BEGIN / DAY_MS])
  t.app.db.run('UPDATE daily_figures SET sent = 50000 WHERE account_id = ?', [other.accountId])
  await put([own(5), news], authentic('google.com'))
  const sums = 'SELECT domain, account_id AS account, sum(count) AS n FROM report_rows GROUP BY 1, 2 ORDER BY 1'
  expect(t.app.db.query(sums).all()).toEqual([
    { domain: 'news.sender.test', account: other.accountId, n: 50_000 },
    { domain: 'sender.test', account: expect.any(Number) as number, n: 5 },
  ])
})

test('a replayed report is looked up before anything in it is read', async () => {
  await put([row('203.0.113.1', 1)], authentic('google.com'), { reportId: 'same' })
  const records = { rows: [null as never], sessions: [] }
  expect(await put([], authentic('google.com'), { reportId: 'same', records })).toMatchObject({ isNew: false })
})

test('a small sender is warned, by mail that has no words of the reporter, also about reports that came while it was off', async () => {
  t.countSent(1000)
  await put([own(100), broken(20), row('203.0.113.66', 12)], authentic('google.com'), { beginMs: BEGIN + 7 * DAY_MS })
  t.app.db.run('UPDATE received_reports SET created_at = created_at - 2 * 86400000')
  await watchReports(t.app, new AbortController().signal)
  const alerts = listReportAlerts(t.app.db, null, NOW)
  expect(alerts.map(({ cause }) => cause).sort()).toEqual([
    'broken:dkim_failed',
    'dkim:google.com',
    'foreign:203.0.113.66',
  ])
  expect(JSON.stringify(alerts)).not.toContain('evil')
  await put([own(30), broken(30)], 'operator', { beginMs: BEGIN + 7 * DAY_MS })
  expect((await t.reports()).findings.map(({ key }) => key)).toContain('dkim:https evil.test login')
})

test('with aspf=s the return path passes SPF without alignment, and nothing is missing', async () => {
  t.countSent(1000)
  const spf = (result: string) => ({ isSpfAligned: false, spf: [{ domain: 'send.sender.test', result }] })
  await put([own(20, spf('pass')), own(21, spf('fail'))], authentic('google.com'))
  const { sources } = await t.reports()
  expect(sources.map(({ cause, count }) => [cause, count])).toEqual([
    ['spf_missing', 21],
    ['', 20],
  ])
})

test.each([
  [null, SAFE],
  ['{"p":"none"}', SAFE],
  ['{"p":"quarantine"}', 'It is safe to go to p=reject.'],
  ['{"p":"quarantine","t":"y"}', `${SAFE} t=y and pct in the DMARC record weaken the policy: remove them.`],
  [
    '{"p":"reject","pct":"20"}',
    'It is safe to go to p=reject. t=y and pct in the DMARC record weaken the policy: remove them.',
  ],
  ['{"p":"reject","pct":"100"}', 'The policy is p=reject, the strictest: there is nothing to raise.'],
  [
    '{"p":"reject","sp":"none"}',
    'The policy is p=reject, the strictest; mail of subdomains without a record of their own has only sp=none.',
  ],
])('with the policy %s in DNS the advice is: %s', async (policy, text) => {
  t.countSent(1000)
  t.app.db.run('UPDATE domains SET dmarc_policy = ?', [policy])
  await putWeek([own(100)])
  expect(await readAdvice()).toBe(text)
})

test('doctor says that no report came after a week of mail', async () => {
  const doctor = () => checkDomainReports({ ...t.app, resolver: undefined } as unknown as DoctorContext)
  expect(await doctor()).toMatchObject({ status: 'ok' })
  t.countSent(10)
  expect(await doctor()).toMatchObject([
    { status: 'warning', message: 'No DMARC report came in the last 14 days, though mail was sent on 14 of them.' },
  ])
})
