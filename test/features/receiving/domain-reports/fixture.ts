/**
 * @module A service that receives reports about sender.test at its SMTP listener, and the receivers that send them, whose
 * mail SPF authenticates. For tests.
 */
import { gzipSync } from 'node:zlib'
import { createTransport } from 'nodemailer'
import { listReports } from '#features/receiving/domain-reports/store.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, NOW } from '#test/support/email-api.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type ReportFacts, type SampleRecord, writeReport } from './dialects.ts'

export const DAY_MS = 86_400_000
/** Of a few days ago, when its first day begins. */
export const BEGIN = Math.floor(NOW / DAY_MS) * DAY_MS - 10 * DAY_MS
export const OUR_IP = '192.0.2.25'

export interface ReportsBody {
  readonly findings: readonly { readonly key: string; readonly level: string; readonly text: string }[]
  readonly advice: { readonly is_safe: boolean; readonly text: string; readonly missing: readonly string[] }
  readonly sources: readonly Record<string, unknown>[]
  readonly totals: Readonly<Record<string, number>>
  readonly policy: Readonly<Record<string, string>>
  readonly series: readonly Record<string, unknown>[]
  readonly tls: { readonly ok: number; readonly failed: number; readonly failures: readonly Record<string, unknown>[] }
}

export type ReportsFixture = Awaited<ReturnType<typeof startReportsFixture>>

export async function startReportsFixture(settings: Readonly<Record<string, string>> = {}) {
  const dns = await startDnsServer({
    'google.com': { TXT: ['v=spf1 ip4:127.0.0.0/8 -all'] },
    '_dmarc.google.com': { TXT: ['v=DMARC1; p=reject'] },
    'reporter.test': { TXT: ['v=spf1 ip4:127.0.0.0/8 -all'] },
    '_dmarc.reporter.test': { TXT: ['v=DMARC1; p=reject'] },
    'forger.test': { TXT: ['v=spf1 -all'] },
    '_dmarc.forger.test': { TXT: ['v=DMARC1; p=none'] },
  })
  const service = await createEmailApi({
    receives: true,
    resolver: createResolver(dns, { timeoutMs: 20_000 }),
    settings: { TASSIS_OUTBOUND_IPS: OUR_IP, TASSIS_INBOUND_ADDR: '127.0.0.1:0', ...settings },
  })
  const { app, api, inbound } = service
  const row = app.db
    .query<{ id: string; selector: string; accountId: number }, []>(
      `SELECT lower(hex(uuid)) AS id, dkim_selector AS selector, account_id AS accountId FROM domains WHERE domain = 'sender.test'`,
    )
    .get()
  const { selector = '', accountId = 0 } = row ?? {}
  const domainId = (row?.id ?? '').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  // As if it had sent for long.
  app.db.run("UPDATE domains SET created_at = 1 WHERE domain = 'sender.test'")
  const path = `/v1/domains/${domainId}/reports`
  const list = () => listReports(app.db, undefined, { limit: 200, offset: 0 }).reports
  let sent = 0
  // Submits one at the listener, from a domain whose SPF lists this machine or not. Resolves with the newest one once it
  // is processed.
  const receive = async (
    file: { name: string; type: string; content: Uint8Array },
    from = 'google.com',
    to = 'dmarc-reports@send.sender.test',
  ) => {
    const port = inbound?.listener?.port ?? 0
    const transport = createTransport({ host: '127.0.0.1', port, tls: { rejectUnauthorized: false } })
    await transport.sendMail({
      from: `reports@${from}`,
      to,
      subject: `Report Domain: sender.test Submitter: ${from}`,
      text: 'A report.',
      attachments: [{ filename: file.name, contentType: file.type, content: Buffer.from(file.content) }],
    })
    transport.close()
    await eventually(() => countQueueEntries(app.db) === 0, 60_000)
    return list()[0]
  }
  return {
    ...service,
    domainId,
    selector,
    path,
    async reports(): Promise<ReportsBody> {
      const { status, body } = await api('GET', path)
      if (status !== 200) throw new Error(JSON.stringify(body))
      return at(body, 'data') as ReportsBody
    },
    receive,
    /** Receives a DMARC report. */
    receiveRecords(records: readonly SampleRecord[], facts: Partial<ReportFacts>, from?: string) {
      const { name, content } = writeReport(records, { id: `r${++sent}`, begin: BEGIN, ...facts })
      return receive({ name, type: 'application/gzip', content }, from)
    },
    /** Receives a TLS report of a day with these failures. */
    receiveTls(ok: number, failures: readonly (readonly [string, number, string])[]) {
      const failed = failures.reduce((sum, [, count]) => sum + count, 0)
      const content = gzipSync(
        JSON.stringify({
          'organization-name': 'Google Inc.',
          'report-id': `t${++sent}`,
          'contact-info': 'tls@reporter.test',
          'date-range': {
            'start-datetime': new Date(BEGIN).toISOString(),
            'end-datetime': new Date(BEGIN + DAY_MS - 1000).toISOString(),
          },
          policies: [
            {
              policy: { 'policy-type': 'sts', 'policy-domain': 'sender.test' },
              summary: { 'total-successful-session-count': ok, 'total-failure-session-count': failed },
              'failure-details': failures.map(([type, count, host]) => ({
                'result-type': type,
                'failed-session-count': count,
                'receiving-mx-hostname': host,
                'sending-mta-ip': '203.0.113.9',
              })),
            },
          ],
        }),
      )
      return receive(
        { name: 'tls.json.gz', type: 'application/tlsrpt+gzip', content },
        'google.com',
        'tls-reports@send.sender.test',
      )
    },
    /** Has our counters know of mail that was sent on each day of the tests. */
    countSent(messages: number) {
      for (let day = BEGIN / DAY_MS - 6; day <= NOW / DAY_MS; day++)
        app.db.run("INSERT INTO daily_figures (account_id, day, domain, sent) VALUES (?, ?, '', ?)", [
          accountId,
          day,
          messages,
        ])
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}
