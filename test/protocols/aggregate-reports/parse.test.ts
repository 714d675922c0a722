import { describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { strToU8, zipSync } from 'fflate'
import { parseAggregateReport } from '#protocols/aggregate-reports/parse.ts'
import { attachment, dmarcXml, messageWith, NAME, tlsJson } from './samples.ts'

const zip = (files: Record<string, string | Uint8Array>): Uint8Array =>
  zipSync(
    Object.fromEntries(
      Object.entries(files).map(([name, data]) => [name, typeof data === 'string' ? strToU8(data) : data]),
    ),
  )

const dmarc = {
  kind: 'dmarc',
  domain: 'example.com',
  organisation: 'receiver.example',
  reportId: '13574247213587455',
  beginMs: Date.UTC(2025, 10, 20),
  endMs: Date.UTC(2025, 10, 20, 23, 59, 59),
}
const tls = {
  kind: 'tls',
  domain: 'example.com',
  organisation: 'Receiver Inc.',
  reportId: '2025-11-20T00:00:00Z_example.com',
  beginMs: Date.UTC(2025, 10, 20),
  endMs: Date.UTC(2025, 10, 20, 23, 59, 59),
}

const xml = dmarcXml()
const json = tlsJson()

/**
 * The parsed report with its content as text; for large content only size and hash, so that a difference stays
 * readable.
 */
function found(...given: Parameters<typeof messageWith>): unknown {
  const report = parseAggregateReport(messageWith(...given))
  if (report === undefined || !('content' in report)) return report
  const { records: _, ...metadata } = report
  return { ...metadata, content: readReason(report.content) }
}

const readReason = (content: Uint8Array): string =>
  content.length > 100_000 ? `${content.length} ${Bun.hash(content)}` : Buffer.from(content).toString()

describe('a report is recognised:', () => {
  // Proves: inbound-33
  test.each([
    ['gzip by its name', `${NAME}.xml.gz`, 'application/gzip', gzipSync(xml)],
    ['gzip as octets', `${NAME}!7.xml.gz`, 'application/octet-stream', gzipSync(xml)],
    ['a zip', `${NAME}.zip`, 'application/zip', zip({ [`${NAME}.xml`]: xml })],
    ['a zip declared as gzip', `${NAME}.xml.gz`, 'application/gzip', zip({ 'a.xml': xml })],
    [
      'a gzip and a line break',
      `${NAME}.xml.gz`,
      'application/gzip',
      Buffer.concat([gzipSync(xml), Buffer.from('\r\n')]),
    ],
    ['a zip without its directory', `${NAME}.zip`, 'application/zip', zip({ 'a.xml': xml }).slice(0, -73)],
    ['XML alone', `${NAME}.xml`, 'text/xml', xml],
    ['gzip without a name', null, 'application/x-gzip', gzipSync(xml)],
    ['a non-standard name', 'report.zip', 'application/x-zip-compressed', zip({ 'report.xml': xml })],
  ])('DMARC as %s', (_, name, type, content) => {
    expect(found([attachment(name, type, content)])).toEqual({ ...dmarc, content: xml })
    // The attachment alone is enough.
    expect(found([attachment(name, type, content)], 'Hello')).toEqual({ ...dmarc, content: xml })
  })

  test.each([
    ['gzip', `${NAME}.json.gz`, 'application/tlsrpt+gzip', gzipSync(json)],
    ['JSON', `${NAME}.json`, 'application/tlsrpt+json', json],
    ['gzip without a name', null, 'application/tlsrpt+gzip', gzipSync(json)],
    ['gzip as octets', 'tls.json.gz', 'application/octet-stream', gzipSync(json)],
  ])('TLS as %s', (_, name, type, content) => {
    expect(found([attachment(name, type, content)], 'Hello')).toEqual({ ...tls, content: json })
  })

  test('a zip written as a stream, with the sizes after the file', () => {
    // Local header with the data descriptor flag, deflated content, descriptor, directory.
    const whole = zip({ 'a.xml': xml })
    const packed = whole.slice(30 + 5, 30 + 5 + new DataView(whole.buffer).getUint32(18, true))
    const header = whole.slice(0, 30 + 5)
    const descriptor = Buffer.concat([Buffer.from('PK\x07\x08', 'latin1'), header.slice(14, 26)])
    header[6] = (header[6] ?? 0) | 8
    header.fill(0, 14, 26)
    const directory = whole.slice(30 + 5 + packed.length)
    const directoryAt = header.length + packed.length + descriptor.length
    new DataView(directory.buffer).setUint32(directory.length - 6, directoryAt, true)
    expect(
      found([attachment('a.zip', 'application/zip', Buffer.concat([header, packed, descriptor, directory]))]),
    ).toEqual({
      ...dmarc,
      content: xml,
    })
  })

  test('with namespaces (RFC 9990), entities, other character sets, and an empty line before the declaration', () => {
    const prefixed = xml
      .replace(/<(\/?)([a-z])/g, '<$1d:$2')
      .replace('<d:feedback>', '<d:feedback xmlns:d="urn:ietf:params:xml:ns:dmarc-2.0">')
    const latin = Buffer.from(
      xml.replace('UTF-8', 'iso-8859-1').replace('receiver.example<', 'Empf\xe4nger<'),
      'latin1',
    )
    const wide = Buffer.from(`\ufeff${xml.replace('UTF-8', 'UTF-16')}`, 'utf16le')
    const of = (content: string | Uint8Array) => {
      const report = parseAggregateReport(messageWith([attachment(`${NAME}.xml`, 'text/xml', content)]))
      return report !== undefined && 'content' in report ? report.organisation : report
    }
    expect([
      of(prefixed),
      of(latin),
      of(wide),
      of(`\ufeff${xml}`),
      of(`\r\n${xml}`),
      of(dmarcXml({ organisation: 'A &amp; B &lt;c&gt; &#65;' })),
    ]).toEqual([
      'receiver.example',
      'Empfänger',
      'receiver.example',
      'receiver.example',
      'receiver.example',
      'A & B <c> &#65;',
    ])
  })

  test('a TLS report without policies, by the domain in the header', () => {
    const bare = JSON.stringify({ ...JSON.parse(json), policies: [] })
    expect(
      found([attachment('a.json', 'application/tlsrpt+json', bare)], 'x', [['TLS-Report-Domain', 'Example.COM']]),
    ).toEqual({
      ...tls,
      content: bare,
    })
  })

  test('values are limited: domains in A-labels, texts of 255 characters on one line, times between 2000 and 2100', () => {
    const odd = dmarcXml({
      domain: 'BÜCHER.test.',
      organisation: `a\n\u202eb${'x'.repeat(300)}`,
      begin: '99',
      end: '99999999999',
    })
    expect(found([attachment(`${NAME}.xml`, 'text/xml', odd)])).toEqual({
      ...dmarc,
      domain: 'xn--bcher-kva.test',
      organisation: `a b${'x'.repeat(252)}`,
      beginMs: null,
      endMs: null,
      content: odd,
    })
  })
})

describe('not a report:', () => {
  test.each([
    ['no attachment', [], 'Report Domain: example.com'],
    ['other XML', [attachment('invoice.xml', 'text/xml', '<invoice/>')], 'Hello'],
    ['other archives', [attachment('photos.zip', 'application/zip', zip({ 'a.jpg': 'x', 'b.jpg': 'y' }))], 'Hello'],
    ['broken archives', [attachment('a.gz', 'application/gzip', gzipSync(xml).subarray(0, 50))], 'Hello'],
    ['other JSON', [attachment('a.json', 'application/json', '{}')], 'Hello'],
    ['other files', [attachment('a.pdf', 'application/pdf', xml)], 'Report Domain: example.com'],
  ])('%s', (_, attachments, subject) => {
    expect(found(attachments, subject)).toBeUndefined()
  })

  test('after three other archives, an attachment is tried only if it has the name of a report', () => {
    const others = Array.from({ length: 3 }, (_, i) => attachment(`${i}.zip`, 'application/zip', zip({ a: 'x' })))
    const report = (name: string) => attachment(name, 'application/gzip', gzipSync(xml))
    expect([
      found([...others, report(`${NAME}.xml.gz`)], 'Hello'),
      found([...others.slice(1), report('report.gz')], 'Hello'),
      found([...others, report('report.gz')], 'Hello'),
    ]).toEqual([{ ...dmarc, content: xml }, { ...dmarc, content: xml }, undefined])
  })
})

describe('invalid, hostile and large content:', () => {
  const MIB = 1024 * 1024
  const BAD_XML = 'The XML is not well-formed, or has more than 20 levels.'
  const large = dmarcXml({ records: 32_000 })
  // Deflate cannot shrink it much, so only the size limit applies.
  const noise = Buffer.from(Array.from({ length: 65_536 }, (_, i) => (i * i * 2_654_435_761) & 0xff))
  const wide = Buffer.concat(Array.from({ length: 200 }, () => noise))

  /** A zip that states a thousand octets, in the header and in the directory, whatever the file has. */
  const understated = zip({ 'a.xml': Buffer.alloc(100 * MIB) })
  new DataView(understated.buffer).setUint32(22, 1000, true)
  new DataView(understated.buffer).setUint32(understated.length - 22 - 51 + 24, 1000, true)

  // Proves: inbound-33
  test.each([
    ['a zip of 100 MiB that states 1,000 octets', understated, 'The report is larger than 10 MiB.'],
    ['a zip of 100 MiB of zeros', zip({ 'a.xml': Buffer.alloc(100 * MIB) }), 'The report is larger than 10 MiB.'],
    ['a gzip of 100 MiB of zeros', gzipSync(Buffer.alloc(100 * MIB)), 'The report is larger than 10 MiB.'],
    ['a gzip of 12.5 MiB', gzipSync(wide, { level: 1 }), 'The report is larger than 10 MiB.'],
    ['a stored zip of 12.5 MiB', zipSync({ 'a.xml': [wide, { level: 0 }] }), 'The report is larger than 10 MiB.'],
    ['XML of over 10 MiB', large, 'The report is larger than 10 MiB.'],
    ['a gzip in a gzip', gzipSync(gzipSync(xml)), 'The report is packed twice.'],
    ['a zip in a zip', zip({ 'a.zip': zip({ 'a.xml': xml }) }), 'The report is packed twice.'],
    ['a gzip in a zip', zip({ 'a.gz': gzipSync(xml) }), 'The report is packed twice.'],
    ['two files in a zip', zip({ 'a.xml': xml, 'b.xml': xml }), 'The archive has more than one file.'],
    ['no file in a zip', zip({}), 'The archive has no file.'],
    ['half a gzip', gzipSync(xml).subarray(0, 200), 'The packed report is corrupt.'],
    ['half a zip', zip({ 'a.xml': xml }).subarray(0, 200), 'The packed report is corrupt.'],
    ['a gzip of noise', Buffer.concat([gzipSync(xml).subarray(0, 10), noise]), 'The packed report is corrupt.'],
    ['a picture', Buffer.from('GIF89a'), 'The attachment is neither XML nor JSON.'],
    ['nothing', Buffer.alloc(0), 'The attachment is neither XML nor JSON.'],
    [
      'expanding entities',
      xml.replace('<feedback>', '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><feedback>'),
      'The XML must not have a document type.',
    ],
    ['XML of 21 levels', xml.replace('</version>', `${'<x>'.repeat(21)}${'</x>'.repeat(21)}</version>`), BAD_XML],
    ['a million levels', '<a>'.repeat(1_000_000), BAD_XML],
    ['a million records in another', `<feedback>${'<record>'.repeat(1_000_000)}`, BAD_XML],
    ['XML that ends early', xml.slice(0, -20), BAD_XML],
    ['XML with a wrong end tag', xml.replace('</version>', '</vision>'), BAD_XML],
    ['XML of brackets', `<feedback>${'<'.repeat(1_000_000)}`, BAD_XML],
    ['dangerous names', xml.replaceAll('version>', '__proto__>'), BAD_XML],
    ['an unknown character set', xml.replace('UTF-8', 'x-unknown'), 'The XML uses an unknown character set.'],
    ['XML without a domain', dmarcXml({ domain: 'no domain' }), 'The XML names no domain in policy_published.'],
    ['XML without an id', dmarcXml({ reportId: ' ' }), 'The XML has no org_name or no report_id.'],
    ['other XML', '<invoice/>', 'The XML names no domain in policy_published.'],
    ['JSON that ends early', json.slice(0, -1), 'The JSON is not well-formed.'],
    ['JSON of a million levels', `{"a":${'['.repeat(1_000_000)}`, 'The JSON is not well-formed.'],
    ['JSON without a domain', tlsJson({ domain: '' }), 'The JSON names no policy-domain.'],
    ['JSON without an id', tlsJson({ reportId: '' }), 'The JSON has no organization-name or no report-id.'],
  ])('%s is rejected with its reason', (_, content, reason) => {
    expect(found([attachment(`${NAME}.xml.gz`, 'application/octet-stream', content)], 'Hello')).toEqual({
      refused: reason,
    })
  })

  test('a report of just under 10 MiB is read', () => {
    const content = dmarcXml({ records: 30_000 })
    expect(content.length).toBeGreaterThan(9.5 * MIB)
    expect(found([attachment('a.gz', 'application/gzip', gzipSync(content))])).toEqual({
      ...dmarc,
      content: readReason(Buffer.from(content)),
    })
  })

  test.each([
    ['the subject', 'Report domain: example.com', [] as [string, string][]],
    ['the header field of RFC 8460', 'x', [['TLS-Report-Domain', 'example.com']] as [string, string][]],
    [
      'multipart/report',
      'x',
      [['Content-Type', 'multipart/report; boundary=a; report-type="tlsrpt"']] as [string, string][],
    ],
  ])('a report recognised by %s is rejected with a reason, not ignored', (_, subject, headers) => {
    expect(found([attachment('a.gz', 'application/gzip', 'x')], subject, headers)).toEqual({
      refused: 'The attachment is neither XML nor JSON.',
    })
  })
})
