/**
 * @module Checks the certificate of a mail server against TLSA records (DANE: RFC 6698 §2.1, RFC 7671, RFC 7672 §3.1).
 * Pure. Whether the records came over DNSSEC is decided by their reader.
 */
import { createHash, X509Certificate } from 'node:crypto'
import { TLS_FAILURE_CODES } from './failures.ts'

/** RFC 6698 §2.1. */
export interface TlsaRecord {
  /** 3: the server's own certificate (DANE-EE); 2: an authority in its chain (DANE-TA). */
  readonly usage: number
  /** 0: the certificate; 1: its public key (SPKI). */
  readonly selector: number
  /** 0: as it is; 1: SHA-256; 2: SHA-512. */
  readonly matchingType: number
  /** In hexadecimal, lower case. */
  readonly data: string
}

const DANE_TA = 2
const DANE_EE = 3
/** In hexadecimal digits. */
const DIGEST_LENGTHS: Readonly<Record<number, number>> = { 1: 64, 2: 128 }
const MAX_DIGEST_LENGTH = 128

/**
 * Whether SMTP can use a record (RFC 7672 §3.1): not those that refer to public authorities (usages 0 and 1), and not
 * those with unknown parameters or a digest of the wrong length.
 */
export function isUsableTlsa({ usage, selector, matchingType, data }: TlsaRecord): boolean {
  if ((usage !== DANE_TA && usage !== DANE_EE) || (selector !== 0 && selector !== 1)) return false
  return matchingType === 0 ? data !== '' : DIGEST_LENGTHS[matchingType] === data.length
}

/**
 * A record that is at most as long as a digest, and matches the same certificates. One with a digest that is too long has
 * no data, so it cannot be used.
 */
export function shortenTlsa(record: TlsaRecord): TlsaRecord {
  const { matchingType, data } = record
  if (data.length <= MAX_DIGEST_LENGTH) return record
  if (matchingType !== 0) return { ...record, data: '' }
  return { ...record, matchingType: 1, data: createHash('sha256').update(data, 'hex').digest('hex') }
}

interface Mismatch {
  readonly code: string
  readonly message: string
}

const UNREADABLE: Mismatch = {
  code: 'CERT_UNREADABLE',
  message: 'The certificate of the server, or of its authority, cannot be read',
}
const MISMATCH: Mismatch = {
  code: TLS_FAILURE_CODES.tlsaMismatch,
  message: 'The certificate matches none of the TLSA records',
}

/**
 * Why a chain matches no record; undefined when it matches one. With usage 3, neither the name nor the dates of the
 * certificate matter (RFC 7672 §3.1.1); with usage 2, both do. Never throws.
 * @param chain certificates in DER: the server's own first, then the issuer of each
 * @param now milliseconds since the epoch
 */
export function findTlsaMismatch(
  chain: readonly Uint8Array[],
  records: readonly TlsaRecord[],
  host: string,
  now: number,
): Mismatch | undefined {
  try {
    const certificates = chain.map((der) => new X509Certificate(der))
    const [own] = certificates
    if (!own) return MISMATCH
    if (records.some((record) => record.usage === DANE_EE && matches(own, record))) return undefined
    return findAnchorMismatch(certificates, own, { records, host, now })
  } catch {
    // Certificates with keys or fields that OpenSSL does not know.
    return UNREADABLE
  }
}

function findAnchorMismatch(
  certificates: readonly X509Certificate[],
  own: X509Certificate,
  { records, host, now }: { readonly records: readonly TlsaRecord[]; readonly host: string; readonly now: number },
): Mismatch | undefined {
  const anchors = records.filter(({ usage }) => usage === DANE_TA)
  for (let at = 1; at < certificates.length && isIssuedBy(certificates, at); at++) {
    const authority = certificates[at]
    if (!authority || !anchors.some((record) => matches(authority, record))) continue
    const invalid = certificates.slice(0, at + 1).find((certificate) => !isInDate(certificate, now))
    if (invalid)
      return now < Date.parse(invalid.validFrom)
        ? { code: 'CERT_NOT_YET_VALID', message: 'certificate is not yet valid' }
        : { code: 'CERT_HAS_EXPIRED', message: 'certificate has expired' }
    if (own.checkHost(host) !== undefined) return undefined
    return { code: 'ERR_TLS_CERT_ALTNAME_INVALID', message: 'The certificate is for another name' }
  }
  return MISMATCH
}

function matches(certificate: X509Certificate, { selector, matchingType, data }: TlsaRecord): boolean {
  const bytes = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' })
  if (matchingType === 0) return bytes.toString('hex') === data
  return (
    createHash(matchingType === 1 ? 'sha256' : 'sha512')
      .update(bytes)
      .digest('hex') === data
  )
}

/** Whether the authority at this index of a chain signed the certificate before it. */
function isIssuedBy(chain: readonly X509Certificate[], at: number): boolean {
  const subject = chain[at - 1]
  const issuer = chain[at]
  return subject !== undefined && issuer?.ca === true && subject.checkIssued(issuer) && subject.verify(issuer.publicKey)
}

const isInDate = ({ validFrom, validTo }: X509Certificate, now: number): boolean =>
  now >= Date.parse(validFrom) && now <= Date.parse(validTo)
