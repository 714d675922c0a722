/** What receivers report, from their mail at the SMTP listener to the sentences that a user reads. */
import { afterAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { checkDomainReports } from '#app/doctor/checks/state.ts'
import type { DoctorContext } from '#app/doctor/context.ts'
import { REPORTS_NOTICE, watchReports } from '#features/receiving/domain-reports/alerts.ts'
import { MiB } from '#platform/units.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'
import { createOperatorClient } from '#test/support/operator-client.ts'
import { type SampleRecord, writeReport } from './dialects.ts'
import { BEGIN, DAY_MS, OUR_IP, type ReportsFixture, startReportsFixture } from './fixture.ts'

setDefaultTimeout(120_000)

let t: ReportsFixture
beforeEach(async () => {
  await t?.[Symbol.asyncDispose]()
  t = await startReportsFixture()
})
afterAll(() => t[Symbol.asyncDispose]())

const own = (count: number, changes: Partial<SampleRecord> = {}): SampleRecord => ({
  ip: OUR_IP,
  count,
  dkim: 'pass',
  spf: 'pass',
  signatures: [['sender.test', t.selector, 'pass']],
  sender: ['send.sender.test', 'pass'],
  ...changes,
})

const findText = async (key: string) => (await t.reports()).findings.find((finding) => finding.key === key)

/** A week of reports, each with these records. */
async function receiveWeek(...records: readonly SampleRecord[]): Promise<void> {
  for (let day = 0; day < 7; day++) await t.receiveRecords(records, { begin: BEGIN + day * DAY_MS })
}

test.each([
  [null, /^No DMARC record of sender\.test .* Publish the one/],
  ['{"p":"none"}', /asks for no reports here\. Add mailto:dmarc-reports@send\.sender\.test to its rua=/],
  ['{"p":"none","rua":"mailto:a@b.test,mailto:dmarc-reports@send.sender.test!10m"}', /^The DMARC record asks for/],
])('before the first report, what is missing for it is said: policy %j', async (policy, text) => {
  t.app.db.run('UPDATE domains SET dmarc_policy = ?', [policy])
  expect((await findText('none'))?.text).toMatch(text)
})

// Proves: domain-39
test('story 1: 400 sessions lost to our own expired certificate', async () => {
  await t.receiveTls(600, [['certificate-expired', 400, 'mail.tassis.test']])
  expect(await findText('tls:certificate-expired')).toEqual({
    key: 'tls:certificate-expired',
    level: 'bad',
    text: '400 TLS sessions of 1,000 to mail.tassis.test failed, because its certificate has expired. Renew it (tassis doctor, certificates). Mail of senders that require TLS was delayed or lost (reported by google.com).',
  })
  expect((await t.reports()).tls).toMatchObject({ ok: 600, failed: 400 })
  // Causes that a reporter invents are one.
  await t.receiveTls(0, [
    ['invented', 5, ''],
    ['invented-too', 6, ''],
  ])
  expect((await t.reports()).tls.failures[1]).toMatchObject({ cause: 'unspecified', count: 11 })
})

// Proves: domain-39
test('story 2: a forwarder is harmless, with our signature intact or broken; p=quarantine is safe', async () => {
  t.countSent(1000)
  await receiveWeek(
    own(200),
    own(20, { ip: '198.51.100.7', spf: 'fail', sender: ['forwarder.test', 'pass'] }),
    own(3, {
      ip: '198.51.100.8',
      dkim: 'fail',
      spf: 'fail',
      signatures: [['sender.test', t.selector, 'fail']],
      sender: ['list.test', 'pass'],
    }),
  )
  expect((await findText('forwarded:198.51.100.7'))?.text).toBe(
    '198.51.100.7 forwards mail of sender.test: in 140 messages our DKIM signature survived, so they pass DMARC. This is harmless.',
  )
  expect((await findText('modified:198.51.100.8'))?.text).toContain(
    'our DKIM signature does not survive in 21 messages',
  )
  const { advice, findings, totals, series } = await t.reports()
  expect(advice).toEqual({
    next: 'quarantine',
    is_safe: true,
    missing: [],
    text: 'It is safe to go to p=quarantine.',
  } as never)
  expect(findings.every(({ level }) => level === 'info' || level === 'good')).toBe(true)
  expect([totals, series.length]).toEqual([
    { aligned: 1540, broken: 21, other: 0, service: 0, foreign: 0, tls_ok: 0, tls_failed: 0 },
    7,
  ])
})

// Proves: domain-39
test('story 3: foreign abuse is mailed to the owners once, and the policy would stop it', async () => {
  t.countSent(1000)
  await receiveWeek(own(200))
  await t.receiveRecords([{ ip: '203.0.113.66', count: 1200, sender: ['sender.test', 'fail'] }], {
    begin: BEGIN + 6 * DAY_MS,
  })
  const sentence =
    '1,200 messages that claim to be from sender.test came from 203.0.113.66, which is neither ours nor a known service, and all fail DMARC: somebody abuses the domain. p=quarantine or p=reject would stop such mail.'
  expect(await findText('foreign:203.0.113.66')).toMatchObject({ level: 'bad', text: sentence })
  expect((await t.reports()).advice.text).toBe('It is safe to go to p=quarantine.')
  const { app } = t
  const sendNotices = createNoticeSender(app, REPORTS_NOTICE)
  for (let run = 0; run < 2; run++) {
    await watchReports(app, new AbortController().signal)
    await sendNotices()
  }
  expect(app.db.query('SELECT cause, text FROM report_alerts').all()).toEqual([
    { cause: 'foreign:203.0.113.66', text: sentence },
  ])
  expect(listServiceMail(app).map(({ to, text }) => [to, text.includes(sentence)])).toEqual([
    ['owner@tassis.test', true],
  ])
  expect(await checkDomainReports({ ...app, resolver: undefined } as unknown as DoctorContext)).toMatchObject([
    { status: 'warning', message: sentence },
  ])
})

// Proves: domain-39
test('story 4: a forgotten newsletter service must sign as the domain before the policy is raised', async () => {
  t.countSent(1000)
  await receiveWeek(
    own(100),
    { ip: '198.2.130.1', count: 20, signatures: [['mcsv.net', 'k1', 'pass']], sender: ['mail1.mcsv.net', 'pass'] },
    { ip: '198.2.130.2', count: 22, signatures: [['mcsv.net', 'k1', 'pass']], sender: ['mail2.mcsv.net', 'pass'] },
  )
  expect((await findText('service:Mailchimp'))?.text).toBe(
    'Mailchimp sent 294 messages as sender.test that fail DMARC: it is a legitimate service, perhaps a forgotten one. If you use it, set up its DKIM for sender.test before you raise the policy; if not, this is abuse.',
  )
  expect((await t.reports()).advice).toMatchObject({
    is_safe: false,
    text: 'Do not go to p=quarantine yet. Set up DKIM for sender.test at Mailchimp first, or make sure that it is not yours: 294 messages of it fail.',
  })
})

test('our own mail that fails is explained by its cause, and by the receiver where DKIM fails', async () => {
  t.countSent(1000)
  const signed = (selector: string, result: string, note?: string) => ({
    dkim: 'fail' as const,
    signatures: [['sender.test', selector, result, note]] as SampleRecord['signatures'] & {},
  })
  t.app.db.run(
    `INSERT INTO dkim_keys (domain_id, selector, dkim_public_key, created_at, retired_at) SELECT id, 'tsold', 'x', 1, 1 FROM domains WHERE domain = 'sender.test'`,
  )
  await t.receiveRecords(
    [
      own(21, signed(t.selector, 'fail')),
      own(22, { ...signed(t.selector, 'fail', 'no key for signature'), spf: 'fail' }),
      own(23, signed('tsold', 'fail')),
      own(24, signed('other', 'pass')),
      own(30, { ...signed(t.selector, 'pass'), spf: 'fail', sender: ['news.sender.test', 'fail'] }),
      own(25, { dkim: 'fail', signatures: [] }),
      own(26, { spf: 'fail', sender: ['send.sender.test', 'fail'] }),
      own(27, {
        ip: '198.51.100.9',
        spf: 'fail',
        dkim: 'fail',
        signatures: [],
        sender: ['send.sender.test', 'fail'],
        reason: 'forwarded',
      }),
      {
        ip: '198.51.100.3',
        count: 28,
        dkim: 'pass',
        signatures: [['sender.test', 'google', 'pass']],
        sender: ['google.com', 'pass'],
      },
      { ip: '198.51.100.4', count: 29, sender: ['lists.test', 'pass'], reason: 'mailing_list' },
    ],
    {},
  )
  const { sources, findings } = await t.reports()
  expect(sources.map(({ class: kind, cause, count, name }) => [kind, cause, count, name])).toEqual([
    ['broken', 'alignment', 30, OUR_IP],
    ['foreign', 'list', 29, '198.51.100.4'],
    ['other', '', 28, 'Google Workspace'],
    ['broken', 'forwarder', 27, '198.51.100.9'],
    ['aligned', 'spf_missing', 26, OUR_IP],
    ['aligned', 'unsigned', 25, OUR_IP],
    ['aligned', 'other_selector', 24, OUR_IP],
    ['aligned', 'old_selector', 23, OUR_IP],
    ['broken', 'missing_key', 22, OUR_IP],
    ['aligned', 'dkim_failed', 21, OUR_IP],
  ])
  expect(findings[0]).toMatchObject({ key: 'dkim:google.com', level: 'bad' })
  const keys = findings.map(({ key }) => key)
  expect(keys).toContain('broken:missing_key')
  expect(keys).toContain('broken:alignment')
})

test('an imported report about the time before the account sent here is counted, though it tells of mail of our address', async () => {
  t.countSent(100)
  const { operator } = createOperatorClient(t.opened)
  const load = async (begin: number) => {
    const { name, content } = writeReport([own(5000)], { id: `${begin}`, begin })
    return (await operator.createReport({ name, content: Buffer.from(content).toString('base64') })).data
  }
  expect(await load(BEGIN - 30 * DAY_MS)).toMatchObject({ counted: 5000, uncounted: null })
  expect((await load(BEGIN)).uncounted).toStartWith('It is doubtful: with it, its sender says that 5000 messages')
  expect((await t.receiveRecords([own(5000)], { begin: BEGIN - 30 * DAY_MS }))?.uncounted).toContain('14 days ago')
})

// Proves: inbound-33
test('forged, doubtful, foreign, repeated and oversized reports count nothing, and are listed with the reason', async () => {
  t.countSent(100)
  const abuse = { ip: '203.0.113.66', count: 5000 }
  expect((await t.receiveRecords([abuse], {}, 'forger.test'))?.uncounted).toBe(
    'The message that brought it fails DMARC or is not authenticated, so anybody may have written it.',
  )
  expect((await t.receiveRecords([own(100_000), abuse], {}))?.uncounted).toBe(
    'It is doubtful: with it, its sender says that 100000 messages left our addresses that day, but the account sent 700 at most. Does another program send from them?',
  )
  expect((await t.receiveRecords([abuse], { begin: BEGIN - 500 * DAY_MS }))?.uncounted).toContain(
    'more than 14 days ago',
  )
  expect(
    (
      await t.receiveRecords(
        [
          { ...abuse, ip: 'x' },
          { ...abuse, count: -3 },
        ],
        {},
      )
    )?.uncounted,
  ).toContain('no record with a valid')
  expect(Object.values((await t.reports()).totals)).toEqual([0, 0, 0, 0, 0, 0, 0])
  expect((await t.reports()).advice.text).toStartWith('Nothing is known yet')
  // The genuine report with the id of a forged one replaces it; then its repetition changes nothing.
  for (const from of ['forger.test', 'reporter.test', 'forger.test', 'reporter.test'])
    await t.receiveRecords([abuse], { id: 'same' }, from)
  expect((await t.reports()).totals).toMatchObject({ foreign: 5000 })
  // 20 MiB unpacked, and about a domain that is not here: refused as before.
  await t.receive({ name: 'a!sender.test!1!2.xml', type: 'text/xml', content: new Uint8Array(20 * MiB).fill(60) })
  await t.receiveRecords([abuse], { domain: 'elsewhere.test' })
  const mail = t.app.db.query<{ reason: string }, []>('SELECT reason FROM operator_mail ORDER BY id').all()
  expect(mail.map(({ reason }) => reason)).toEqual([
    'The report cannot be read: The report is larger than 10 MiB.',
    'The report is about a domain that no account here has.',
  ])
})
