import { expect, test } from 'bun:test'
import { parseTlsReportRecord, type ReportDestination } from '#protocols/aggregate-reports/tls-record.ts'

const mail = (address: string): ReportDestination => ({ kind: 'mail', address })
const https = (url: string): ReportDestination => ({ kind: 'https', url })

const records: [string, readonly string[], readonly ReportDestination[]][] = [
  ['one mail address', ['v=TLSRPTv1; rua=mailto:tls@example.com'], [mail('tls@example.com')]],
  ['no space', ['v=TLSRPTv1;rua=mailto:tls@example.com;'], [mail('tls@example.com')]],
  [
    'several destinations',
    ['v=TLSRPTv1; rua=mailto:a@example.com, https://example.com/v1?x=1'],
    [mail('a@example.com'), https('https://example.com/v1?x=1')],
  ],
  ['escaped characters and a query', ['v=TLSRPTv1; rua=mailto:a%2Cb@example.com?subject=x'], [mail('a,b@example.com')]],
  [
    'more than three',
    [`v=TLSRPTv1; rua=${Array.from({ length: 9 }, (_, i) => `mailto:a${i}@b.test`).join(',')}`],
    [mail('a0@b.test'), mail('a1@b.test'), mail('a2@b.test')],
  ],
  ['other records beside it', ['hello', 'v=TLSRPTv1; rua=mailto:a@b.test'], [mail('a@b.test')]],
  ['two records', ['v=TLSRPTv1; rua=mailto:a@b.test', 'v=TLSRPTv1; rua=mailto:c@b.test'], []],
  ['http and nonsense', ['v=TLSRPTv1; rua=http://b.test/,ftp://b.test/,mailto:%zz@b.test,https://[/'], []],
  ['another version', ['v=TLSRPTv2; rua=mailto:a@b.test'], []],
  ['nothing', [], []],
]
test.each(records)('a TLS report record with %s', (_, texts, expected) => {
  expect(parseTlsReportRecord(texts)).toEqual(expected)
})
