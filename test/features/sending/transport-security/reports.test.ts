import { describe, expect, test } from 'bun:test'
import { sendTlsReports } from '#features/sending/transport-security/reports.ts'
import { toDay } from '#features/sending/transport-security/session-counts.ts'
import { hours, minutes } from '#platform/units.ts'
import { readTlsReport } from '#protocols/aggregate-reports/tls.ts'
import { eventually } from '#test/support/app.ts'
import { startHttpsReceiver } from '#test/support/https-receiver.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import {
  MX,
  OTHER_NAME,
  policyText,
  RECIPIENT_DOMAIN,
  TLS_START as START,
  startTlsFlow,
  startTlsReceiver,
  type TlsReceiverOptions,
} from '#test/support/tls-receivers.ts'

const TO = `bob@${RECIPIENT_DOMAIN}`
const ENFORCE = policyText('enforce')

const NEVER = new AbortController().signal

interface Row {
  readonly day: number
  readonly domain: string
  readonly sessions: number
}

const readRows = ({ app }: MailFlow): Row[] =>
  app.db.query<Row, []>('SELECT day, domain, sessions FROM tls_session_counts').all()

/** Stores the counts of the first minute. */
async function flush(flow: MailFlow & { clock: ManualClock }): Promise<void> {
  flow.clock.advance(minutes(1))
  await eventually(() => readRows(flow).length > 0)
}

describe('a domain that asks for TLS reports by https', () => {
  async function report(options: TlsReceiverOptions) {
    await using receiver = await startTlsReceiver(options)
    await using reports = await startHttpsReceiver({ names: ['reports.test'], ca: receiver.ca })
    receiver.zone['reports.test'] = { A: ['127.0.0.1'] }
    receiver.zone[`_smtp._tls.${RECIPIENT_DOMAIN}`] = {
      TXT: [`v=TLSRPTv1; rua=${reports.url('reports.test', '/tls')}`],
    }
    // The time that a session stays open without mail is real, and only has to be longer than the second send takes.
    await using flow = await startTlsFlow(receiver, { settings: siteLimits({ idle_seconds: 300 }) })
    const { recipient } = await flow.outcome(TO)
    // The second message goes over the session of the first.
    if (recipient.status === 'sent') await flow.outcome(TO)
    await flush(flow)
    await sendTlsReports(flow.app, NEVER)
    expect(reports.requests).toEqual([])
    flow.clock.advance(hours(13))
    reports.answer({ status: 500 })
    await sendTlsReports(flow.app, NEVER)
    expect(readRows(flow)).not.toEqual([])
    reports.answer({ status: 201 })
    await sendTlsReports(flow.app, NEVER)
    expect(readRows(flow)).toEqual([])
    const [, request] = reports.requests
    if (!request) throw new Error('no report was sent')
    const headers = { 'content-type': 'application/tlsrpt+gzip' }
    expect(request).toMatchObject({ method: 'POST', url: '/tls', headers })
    const content = Bun.gunzipSync(Uint8Array.from(request.body))
    return { read: readTlsReport(content, undefined), json: JSON.parse(new TextDecoder().decode(content)) }
  }

  test('gets one for a day of successful sessions, which our own reader understands', async () => {
    const { read, json } = await report({ policy: ENFORCE })
    expect(read).toMatchObject({
      domain: RECIPIENT_DOMAIN,
      organisation: 'mail.tassis.test',
      beginMs: Date.UTC(2026, 2, 15),
      endMs: Date.UTC(2026, 2, 16) - 1000,
    })
    expect(json).toEqual({
      'organization-name': 'mail.tassis.test',
      'date-range': { 'start-datetime': '2026-03-15T00:00:00Z', 'end-datetime': '2026-03-15T23:59:59Z' },
      'contact-info': 'postmaster@mail.tassis.test',
      'report-id': `2026-03-15.${RECIPIENT_DOMAIN}@mail.tassis.test`,
      policies: [
        {
          policy: {
            'policy-type': 'sts',
            'policy-string': ['version: STSv1', 'mode: enforce', `mx: ${MX}`, 'max_age: 86400'],
            'policy-domain': RECIPIENT_DOMAIN,
            'mx-host': [MX],
          },
          summary: { 'total-successful-session-count': 1, 'total-failure-session-count': 0 },
        },
      ],
    })
  })

  const failures: [string, TlsReceiverOptions, type: string][] = [
    [
      'what a policy of mode testing would have refused',
      { ...OTHER_NAME, policy: policyText('testing') },
      'certificate-host-mismatch',
    ],
    ['what a policy of mode enforce refused', { ...OTHER_NAME, policy: ENFORCE }, 'certificate-host-mismatch'],
    [
      'a host that the policy does not name',
      { policy: policyText('testing', 'mx.elsewhere.test') },
      'validation-failure',
    ],
    ['a missing STARTTLS', { offersTls: false }, 'starttls-not-supported'],
    ['a policy that is not valid', { policy: 'nonsense' }, 'sts-policy-invalid'],
  ]
  test.each(failures)('is told about %s', async (_, options, type) => {
    const { json } = await report(options)
    const details = { 'result-type': type, 'receiving-mx-hostname': MX, 'receiving-ip': '127.0.0.1' }
    expect(json.policies).toMatchObject([
      { summary: { 'total-successful-session-count': 0 }, 'failure-details': [details] },
    ])
    const [{ summary, 'failure-details': failed }] = json.policies
    expect(failed[0]['failed-session-count']).toBe(summary['total-failure-session-count'])
    expect(summary['total-failure-session-count']).toBeGreaterThan(0)
  })
})

test('a report by mail is a signed multipart/report, sent despite the policy of its domain and never reported', async () => {
  await using receiver = await startTlsReceiver({ ...OTHER_NAME, policy: ENFORCE })
  receiver.zone[`_smtp._tls.${RECIPIENT_DOMAIN}`] = { TXT: [`v=TLSRPTv1;rua=mailto:tls@${RECIPIENT_DOMAIN}`] }
  await using flow = await startTlsFlow(receiver)
  flow.app.db.run("INSERT INTO tls_session_counts VALUES (?, ?, ?, '', 1)", [
    toDay(START) - 1,
    RECIPIENT_DOMAIN,
    JSON.stringify({ 'policy-type': 'sts', 'policy-domain': RECIPIENT_DOMAIN }),
  ])
  await sendTlsReports(flow.app, NEVER)
  const mail = await eventually(() => receiver.sink.messages[0])
  expect(mail.rcptTo).toEqual([`tls@${RECIPIENT_DOMAIN}`])
  const header = mail.raw.slice(0, mail.raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ')
  expect(header).toContain('DKIM-Signature: ')
  expect(header).toMatch(/\r\nContent-Type: multipart\/report; report-type=tlsrpt; boundary=/)
  expect(header).toContain(`\r\nTLS-Report-Domain: ${RECIPIENT_DOMAIN}\r\n`)
  expect(header).toContain('\r\nTLS-Report-Submitter: mail.tassis.test\r\n')
  expect(header).toMatch(/\r\nSubject: Report Domain: receiver\.test Submitter: mail\.tassis\.test Report-ID: </)
  const packed = /application\/tlsrpt\+gzip[\s\S]*?\r\n\r\n([A-Za-z0-9+/=\r\n]+)\r\n--/.exec(mail.raw)?.[1] ?? ''
  const report = readTlsReport(Bun.gunzipSync(Buffer.from(packed, 'base64')), undefined)
  expect(report).toMatchObject({ domain: RECIPIENT_DOMAIN })
  flow.clock.advance(minutes(1))
  await Bun.sleep(20)
  expect(readRows(flow)).toEqual([])
})

describe('sessions', () => {
  test('of domains that ask for no reports are not stored', async () => {
    await using receiver = await startTlsReceiver()
    receiver.zone['open.test'] = { MX: [{ preference: 10, exchange: MX }] }
    receiver.zone['_smtp._tls.open.test'] = { TXT: ['v=TLSRPTv1; rua=mailto:tls@open.test'] }
    await using flow = await startTlsFlow(receiver, { settings: siteLimits({ idle_seconds: 0 }) })
    await flow.outcome(TO)
    await flow.outcome('ada@open.test')
    await flush(flow)
    expect(readRows(flow)).toMatchObject([{ domain: 'open.test', sessions: 1 }])
  })

  test('of old days and of days to come are deleted', async () => {
    const clock = new ManualClock(START)
    await using flow = await startMailFlow({ clock, zone: { '_smtp._tls.x.test': 'SERVFAIL' } })
    const today = toDay(START)
    for (const day of [today - 3, today - 2, today, today + 2])
      flow.app.db.run("INSERT INTO tls_session_counts VALUES (?, 'x.test', '{}', '', 1)", [day])
    await sendTlsReports(flow.app, NEVER)
    expect(readRows(flow).map(({ day }) => day)).toEqual([today - 2, today])
  })
})

test('a destination gets at most 100 reports of one run', async () => {
  const clock = new ManualClock(START)
  await using reports = await startHttpsReceiver({ names: ['reports.test'] })
  const domains = Array.from({ length: 105 }, (_, i) => `d${i}.test`)
  const rua = reports.url('reports.test')
  const zone = Object.fromEntries(
    domains.map((domain) => [`_smtp._tls.${domain}`, { TXT: [`v=TLSRPTv1; rua=${rua}`] }]),
  )
  await using flow = await startMailFlow({
    clock,
    zone: { ...zone, 'reports.test': { A: ['127.0.0.1'] } },
    settings: { TASSIS_EXTRA_CA_FILE: reports.caFile },
  })
  for (const domain of domains)
    flow.app.db.run("INSERT INTO tls_session_counts VALUES (?, ?, '{}', '', 1)", [toDay(START) - 1, domain])
  await sendTlsReports(flow.app, NEVER)
  expect(reports.requests).toHaveLength(100)
  expect(readRows(flow)).toEqual([])
})
