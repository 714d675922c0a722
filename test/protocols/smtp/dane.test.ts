import { expect, test } from 'bun:test'
import { createHash, X509Certificate } from 'node:crypto'
import { findTlsaMismatch, isUsableTlsa, shortenTlsa, type TlsaRecord } from '#protocols/smtp/dane.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'

const HOST = 'mx.example.test'
const NOW = Date.UTC(2026, 2, 15)
const EE = { usage: 3, selector: 0, matchingType: 1 }
const TA = { usage: 2, selector: 0, matchingType: 1 }

const der = (pem: string): Buffer => new X509Certificate(pem).raw
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

const ca = createCertificateAuthority('One')
const own = der(ca.issue([HOST]).cert)
const authority = der(ca.pem)

test('a stranger cannot claim an authority that has not signed its certificate', () => {
  const record: TlsaRecord = { ...TA, data: sha256(authority) }
  expect(findTlsaMismatch([own, authority], [record], HOST, NOW)).toBeUndefined()
  // Another authority of the same name: only the signature tells them apart.
  const stranger = der(createCertificateAuthority('One').issue([HOST]).cert)
  expect(findTlsaMismatch([stranger, authority], [record], HOST, NOW)?.code).toBe('TLSA_MISMATCH')
  // A server certificate is no authority.
  const other = createCertificateAuthority('Two')
  expect(findTlsaMismatch([own, der(other.pem), authority], [record], HOST, NOW)?.code).toBe('TLSA_MISMATCH')
})

test('an authority counts only in dates, and for certificates in dates', () => {
  const record: TlsaRecord = { ...TA, data: sha256(authority) }
  const codeAt = (now: number) => findTlsaMismatch([own, authority], [record], HOST, now)?.code
  expect(codeAt(Date.UTC(2019, 11, 31))).toBe('CERT_NOT_YET_VALID')
  expect(codeAt(Date.UTC(2050, 0, 2))).toBe('CERT_HAS_EXPIRED')
})

test('without a certificate, or with one that cannot be read, nothing matches', () => {
  const record: TlsaRecord = { ...EE, data: sha256(own) }
  expect(findTlsaMismatch([own], [record], 'other.test', 0)).toBeUndefined()
  expect(findTlsaMismatch([], [record], HOST, NOW)?.code).toBe('TLSA_MISMATCH')
  expect(findTlsaMismatch([Buffer.from('no DER')], [record], HOST, NOW)?.code).toBe('CERT_UNREADABLE')
})

const usable: [string, TlsaRecord, boolean][] = [
  ['3 1 1', { usage: 3, selector: 1, matchingType: 1, data: 'ab'.repeat(32) }, true],
  ['2 0 2', { usage: 2, selector: 0, matchingType: 2, data: 'ab'.repeat(64) }, true],
  ['3 0 0', { usage: 3, selector: 0, matchingType: 0, data: 'abcd' }, true],
  ['3 0 0 without data', { usage: 3, selector: 0, matchingType: 0, data: '' }, false],
  ['a public authority', { usage: 0, selector: 1, matchingType: 1, data: 'ab'.repeat(32) }, false],
  ['a certificate of a public authority', { usage: 1, selector: 1, matchingType: 1, data: 'ab'.repeat(32) }, false],
  ['an unknown selector', { usage: 3, selector: 2, matchingType: 1, data: 'ab'.repeat(32) }, false],
  ['an unknown digest', { usage: 3, selector: 1, matchingType: 3, data: 'ab'.repeat(32) }, false],
  ['a digest of the wrong length', { usage: 3, selector: 1, matchingType: 1, data: 'ab'.repeat(20) }, false],
]
test.each(usable)('%s can be used: see the table', (_, record, expected) => {
  expect(isUsableTlsa(record)).toBe(expected)
})

test('a long record is shortened to a digest that matches the same certificates, or cannot be used', () => {
  const whole: TlsaRecord = { ...EE, matchingType: 0, data: own.toString('hex') }
  const short = shortenTlsa(whole)
  expect([isUsableTlsa(short), short.data.length]).toEqual([true, 64])
  for (const record of [whole, short]) {
    expect(findTlsaMismatch([own], [record], HOST, NOW)).toBeUndefined()
    expect(findTlsaMismatch([authority], [record], HOST, NOW)?.code).toBe('TLSA_MISMATCH')
  }
  const digest: TlsaRecord = { ...EE, data: sha256(own) }
  expect(shortenTlsa(digest)).toEqual(digest)
  expect(isUsableTlsa(shortenTlsa({ ...digest, data: 'ab'.repeat(30_000) }))).toBe(false)
})
