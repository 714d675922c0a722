/**
 * @module End to end: reports about a domain's mail (DMARC aggregate, RFC 9990; TLS-RPT, RFC 8460). They arrive at the
 * listener in various packings, are unpacked and stored for the domain's account. Decompression bombs are rejected
 * without unpacking and stored for the operator with the reason.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { gzipSync, zipSync } from 'fflate'
import { listReports } from '#features/receiving/domain-reports/store.ts'
import { MiB } from '#platform/units.ts'
import { dmarcXml, tlsJson } from '#test/protocols/aggregate-reports/samples.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { HOST, INBOUND_DOMAIN, type Letter, type PostOffice, startPostOffice } from './post-office.ts'

let office: PostOffice
beforeAll(async () => {
  office = await startPostOffice()
})
afterAll(async () => {
  expectBalanced(office)
  await office[Symbol.asyncDispose]()
})

const DMARC = `dmarc-reports@${HOST}`
const TLS = `tls-reports@${HOST}`

interface PackedReport {
  readonly to: string
  readonly subject?: string
  readonly fields?: readonly string[]
  readonly type: string
  readonly filename: string
  readonly content: Uint8Array
}

/** A message from a host that sends a report. */
function letter({
  to,
  subject = 'Report Domain: sender.test',
  fields = [],
  type,
  filename,
  content,
}: PackedReport): Letter {
  const head = [
    'From: reports@receiver.example',
    `To: ${to}`,
    `Subject: ${subject}`,
    ...fields,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="parts"',
  ]
  const part = [
    `Content-Type: ${type}; name="${filename}"`,
    `Content-Disposition: attachment; filename="${filename}"`,
    'Content-Transfer-Encoding: base64',
  ]
  const lines = Buffer.from(content).toString('base64').replace(/.{76}/g, '$&\r\n')
  const text = 'This is an aggregate report.'
  return {
    mailFrom: 'reports@receiver.example',
    to,
    raw: [
      ...head,
      '',
      '--parts',
      'Content-Type: text/plain',
      '',
      text,
      '--parts',
      ...part,
      '',
      lines,
      '--parts--',
      '',
    ].join('\r\n'),
  }
}

const reportsOf = (domain: string) =>
  listReports(office.app.db, { domain, limit: 100 }).map(
    ({ kind, account, organisation, reportId, beginAt, endAt, sizeBytes, contentRef }) => ({
      kind,
      account,
      organisation,
      reportId,
      beginAt,
      endAt,
      sizeBytes,
      content: Buffer.from(office.app.content.get(contentRef)).toString(),
    }),
  )

/** The stored form of a report, whatever its packing. */
const expectedDmarc = (reportId: string, content: string, account: string | null = 'Test') => ({
  kind: 'dmarc' as const,
  account,
  organisation: 'receiver.example',
  reportId,
  beginAt: 1_763_596_800_000,
  endAt: 1_763_683_199_000,
  sizeBytes: content.length,
  content,
})

const NAME = 'receiver.example!sender.test!1763596800!1763683199'

const WAYS: readonly (readonly [what: string, type: string, ending: string, pack: (xml: Buffer) => Uint8Array])[] = [
  ['zip', 'application/zip', 'zip', (xml) => zipSync({ 'report.xml': xml })],
  ['gzip', 'application/gzip', 'xml.gz', (xml) => gzipSync(xml)],
  ['plain XML', 'text/xml', 'xml', (xml) => xml],
]
test.each(WAYS)(
  'a DMARC report in %s is stored unpacked, once, for the account of its domain',
  async (what, type, ending, pack) => {
    const domain = `${what.replaceAll(' ', '-').toLowerCase()}.sender.test`
    const xml = dmarcXml({ domain, reportId: what, records: 50 })
    const report = letter({ to: DMARC, type, filename: `${NAME}.${ending}`, content: pack(Buffer.from(xml)) })
    const before = office.operatorMail().length
    // Hosts resend a report when they are not sure that it arrived.
    await office.submit(report, report)
    expect(reportsOf(domain)).toEqual([expectedDmarc(what, xml)])
    expect(office.operatorMail()).toHaveLength(before)
  },
)

test('a TLS report is stored, unpacked, for the account of its domain', async () => {
  const json = tlsJson({ domain: 'tls.sender.test', reportId: 'r-1' })
  const before = office.operatorMail().length
  await office.submit(
    letter({
      to: TLS,
      subject: 'Report Domain: tls.sender.test Submitter: receiver.example Report-ID: <r-1>',
      fields: ['TLS-Report-Domain: tls.sender.test', 'TLS-Report-Submitter: receiver.example'],
      type: 'application/tlsrpt+gzip',
      filename: `${NAME}.json.gz`,
      content: gzipSync(Buffer.from(json)),
    }),
  )
  expect(reportsOf('tls.sender.test')).toEqual([
    {
      kind: 'tls',
      account: 'Test',
      organisation: 'Receiver Inc.',
      reportId: 'r-1',
      beginAt: Date.UTC(2025, 10, 20),
      endAt: Date.UTC(2025, 10, 20, 23, 59, 59),
      sizeBytes: json.length,
      content: json,
    },
  ])
  expect(office.operatorMail()).toHaveLength(before)
})

test('a report about an unknown domain is stored for the operator as received; one sent to a tenant is also an inbound email there', async () => {
  const foreign = dmarcXml({ domain: 'example.org', reportId: 'foreign' })
  const own = dmarcXml({ domain: 'own.sender.test', reportId: 'own' })
  const packed = { type: 'application/gzip', filename: `${NAME}.xml.gz` }
  const before = office.operatorMail().length
  await office.submit(
    letter({ ...packed, to: DMARC, content: gzipSync(Buffer.from(foreign)) }),
    letter({ ...packed, to: `dmarc@${INBOUND_DOMAIN}`, content: gzipSync(Buffer.from(own)) }),
  )
  expect(reportsOf('example.org')).toEqual([])
  expect(office.operatorMail().slice(before)).toEqual([
    {
      kind: 'report',
      to: DMARC,
      subject: 'Report Domain: sender.test',
      reason: 'The report is about a domain that no account here has.',
    },
  ])
  expect(reportsOf('own.sender.test')).toEqual([expectedDmarc('own', own)])
  const { body } = await office.api('GET', '/v1/inbound')
  expect(body).toMatchObject({
    data: [{ rcpt_to: [`dmarc@${INBOUND_DOMAIN}`], attachments: [{ filename: `${NAME}.xml.gz` }] }],
  })
})

/** 64 MiB of zeros in 64 KB; several in a row form one gzip. */
const member = (): Uint8Array => gzipSync(new Uint8Array(64 * MiB))

const BOMBS: readonly (readonly [what: string, to: string, ending: string, bomb: () => Uint8Array, reason: string])[] =
  [
    [
      'that unpacks to 4 GiB',
      DMARC,
      'xml.gz',
      () => Buffer.concat(Array(64).fill(member())),
      'The report is larger than 10 MiB.',
    ],
    [
      'that unpacks to a thousand times its size',
      TLS,
      'json.gz',
      () => gzipSync(new Uint8Array(8 * MiB)),
      'The report unpacks to more than 200 times its size.',
    ],
  ]
test.each(BOMBS)(
  'a report %s is stored for the operator, packed, with the reason',
  async (what, to, ending, bomb, reason) => {
    const subject = `Report Domain: bomb.test ${what}`
    const packed = letter({ to, subject, type: 'application/gzip', filename: `${NAME}.${ending}`, content: bomb() })
    Bun.gc(true)
    const idleBytes = process.memoryUsage.rss()
    let mostBytes = 0
    const watch = setInterval(() => {
      mostBytes = Math.max(mostBytes, process.memoryUsage.rss() - idleBytes)
    }, 1)
    await office.submit(packed)
    clearInterval(watch)
    expect(office.operatorMail().filter((mail) => mail.subject === subject)).toEqual([
      { kind: 'report', to, subject, reason: `The report cannot be read: ${reason}` },
    ])
    expect(mostBytes).toBeLessThan(200 * MiB)
    expect(reportsOf('bomb.test')).toEqual([])
  },
)

test('other mail to a report address is stored for the operator', async () => {
  await office.submit({
    mailFrom: 'ann@sender.example',
    to: TLS,
    raw: 'From: ann@sender.example\r\nSubject: A question\r\n\r\nWhat is this address?\r\n',
  })
  expect(office.operatorMail().filter(({ subject }) => subject === 'A question')).toEqual([
    { kind: 'report', to: TLS, subject: 'A question', reason: 'The message is addressed to the operator.' },
  ])
})
