/** Sums of a hundred aggregates of ten reporters, read by Python; and that each report is counted exactly once. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { createTransport } from 'nodemailer'
import { limitRows } from '#features/receiving/domain-reports/assess.ts'
import { parseAggregateReport } from '#protocols/aggregate-reports/parse.ts'
import { createFolder, KilledService } from '#test/kill/run.ts'
import { prepareDataDirectory } from '#test/kill/service.ts'
import { attachment, dmarcXml, messageWith, NAME } from '#test/protocols/aggregate-reports/samples.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createOperatorClient } from '#test/support/operator-client.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { writeReport, writeSamples } from './dialects.ts'
import { BEGIN, DAY_MS, startReportsFixture } from './fixture.ts'

setDefaultTimeout(300_000)

// Proves: inbound-33
test('sums of 100 aggregates of ten reporters equal an independent reading; importing them again changes nothing', async () => {
  await using t = await startReportsFixture()
  t.countSent(10_000_000)
  const folder = mkdtempSync(join(tmpdir(), 'aggregates-'))
  const samples = writeSamples(BEGIN - 5 * DAY_MS)
  expect(samples).toHaveLength(100)
  for (const { name, content } of samples) writeFileSync(join(folder, name), content)
  const read = Bun.spawnSync(['python3', join(import.meta.dir, 'read-aggregates.py'), folder])
  rmSync(folder, { recursive: true })
  const expected = JSON.parse(read.stdout.toString()) as Record<string, number>
  const { operator } = createOperatorClient(t.opened)
  const importAll = async (): Promise<Record<string, number>> => {
    const outcomes: Record<string, number> = {}
    for (const { name, content } of samples) {
      const { data } = await operator.createReport({ name, content: Buffer.from(content).toString('base64') })
      const outcome = `${data.is_new} ${data.uncounted}`
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }
    return outcomes
  }
  const readSums = () =>
    Object.fromEntries(
      t.app.db
        .query<{ key: string; n: number }, []>(
          `SELECT concat_ws('|', organisation, source, disposition, iif(dkim, 'pass', 'fail'), iif(spf, 'pass', 'fail')) AS key, sum(count) AS n
           FROM report_rows JOIN received_reports r ON r.id = report_rows.report_id GROUP BY 1`,
        )
        .all()
        .map(({ key, n }) => [key, n]),
    )
  expect(await importAll()).toEqual({ 'true null': 100 })
  expect(Object.keys(expected).length).toBeGreaterThan(500)
  expect(readSums()).toEqual(expected)
  expect(await importAll()).toEqual({ 'false null': 100 })
  expect(readSums()).toEqual(expected)
  // The sums of the API are those of the rows.
  const { totals, series } = await t.reports()
  const sum = Object.values(expected).reduce((a, b) => a + b, 0)
  expect(Object.values(totals).reduce((a, b) => a + b, 0)).toBe(sum)
  expect(series).toHaveLength(10)
  for (const [content, message] of [
    ['no report', 'The attachment is neither XML nor JSON.'],
    [dmarcXml({ domain: 'elsewhere.test' }), 'The report is about a domain that no account here has.'],
  ] as const)
    expect(operator.createReport({ name: 'a.xml', content: btoa(content) })).rejects.toMatchObject({
      code: 'report_refused',
      message,
    })
})

test('records without a valid address, count or From domain are left out; too many are not counted', () => {
  const read = (records: string) => {
    const xml = dmarcXml({ records: 1 }).replace('</feedback>', `${records}</feedback>`)
    const report = parseAggregateReport(messageWith([attachment(`${NAME}.xml.gz`, 'application/gzip', gzipSync(xml))]))
    return report !== undefined && 'content' in report ? report.records : report
  }
  const record = (ip: string, count: string, from = 'example.com') =>
    `<record><row><source_ip>${ip}</source_ip><count>${count}</count></row><identifiers><header_from>${from}</header_from></identifiers></record>`
  const bad = [
    record('192.0.2.300', '1'),
    record('192.0.2.1', '-1'),
    record('192.0.2.1', '0'),
    record('192.0.2.1', '1e9'),
    record('192.0.2.1', '99999999999'),
    record('192.0.2.1', '1', 'notexample.com'),
    `<record>${'<x/>'.repeat(20_000)}</record>`,
    '<record><![CDATA[ </record> ]]></record>',
    '<record a="</record>"></record>',
  ]
  expect(read(bad.join(''))).toMatchObject({ rows: [{ count: 2 }] })
  expect(read(record('::FFFF:192.0.2.7', '7', 'a.example.com'))).toMatchObject({
    rows: [{ count: 2 }, { sourceIp: '192.0.2.7', count: 7 }],
  })
  expect(read('<record></record>'.repeat(25_001))).toMatchObject({
    rows: [],
    problem: expect.stringContaining('25000 records'),
  })
  // The smallest rows beyond a limit are added up without their addresses.
  const shared = {
    class: 'foreign',
    cause: '',
    sender: '',
    disposition: 'none',
    isFromUs: false,
    dkim: false,
    spf: false,
  }
  const rows = Array.from({ length: 30 }, (_, i) => ({ ...shared, source: `10.0.0.${i}`, count: 30 - i }))
  expect(limitRows(rows, 30)).toEqual(rows)
  expect(limitRows(rows, 28)).toEqual([...rows.slice(0, 28), { ...shared, source: '', count: 3 }])
})

// Proves: inbound-33
test('after kill -9 at any moment, each accepted report is counted exactly once', async () => {
  await using dns = await startDnsServer({
    'reporter.test': { TXT: ['v=spf1 ip4:127.0.0.0/8 -all'] },
    '_dmarc.reporter.test': { TXT: ['v=DMARC1; p=reject'] },
  })
  const folder = createFolder()
  const port = await findFreePort()
  const service = await KilledService.make(folder, {
    TASSIS_INBOUND_ADDR: `127.0.0.1:${port}`,
    TASSIS_DNS_SERVERS: dns.address,
  })
  try {
    await prepareDataDirectory(service.settings)
    const begin = Math.floor(Date.now() / DAY_MS - 3) * DAY_MS
    const records = Array.from({ length: 200 }, (_, i) => ({ ip: `203.0.113.${i}`, count: 1 }))
    const count = (sql: string): number => {
      using db = service.openBooks()
      return db.query<{ n: number }, []>(sql).get()?.n ?? 0
    }
    const waiting: number[] = []
    let sent = 0
    for (let round = 0; round < 4; round++) {
      await service.start()
      await eventually(async () => {
        const client = await connectSmtp(port).catch(() => undefined)
        client?.destroy()
        return client !== undefined
      })
      const transport = createTransport({ host: '127.0.0.1', port, tls: { rejectUnauthorized: false } })
      for (let i = 0; i < 5; i++) {
        const { name, content } = writeReport(records, { id: `r${sent++}`, begin })
        await transport.sendMail({
          from: 'reports@reporter.test',
          to: 'dmarc-reports@send.sender.test',
          subject: 'Report Domain: sender.test',
          attachments: [{ filename: name, contentType: 'application/gzip', content: Buffer.from(content) }],
        })
      }
      transport.close()
      if (round < 3) {
        await Bun.sleep(round * 40)
        await service.running?.kill()
        waiting.push(count('SELECT count(*) AS n FROM inbound_receipts'))
      }
    }
    await eventually(() => count('SELECT count(*) AS n FROM inbound_receipts') === 0)
    // A kill hit the middle of the work.
    expect(Math.max(...waiting)).toBeGreaterThan(0)
    expect([
      count('SELECT count(*) AS n FROM received_reports WHERE counted = 200'),
      count('SELECT count(DISTINCT report_id) AS n FROM report_rows'),
      count('SELECT sum(count) AS n FROM report_rows'),
    ]).toEqual([sent, sent, sent * 200])
    expect(await service.stop()).toEqual([])
  } finally {
    await service.running?.kill()
    rmSync(folder, { recursive: true, force: true })
  }
})
