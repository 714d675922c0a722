/**
 * @module Names why a TLS session failed: in words about the server, and as a result type of RFC 8460 §4.3. Pure.
 */
import type { SmtpFailure } from './failures.ts'

/** Codes of our own, beside those of OpenSSL and Node. */
export const TLS_FAILURE_CODES = {
  notOffered: 'STARTTLS_NOT_OFFERED',
  tlsaMismatch: 'TLSA_MISMATCH',
  oldVersion: 'TLS_VERSION_TOO_OLD',
} as const

/** Result types of RFC 8460 §4.3.1 and §4.3.2. */
export const TLS_FAILURE_TYPES = [
  'starttls-not-supported',
  'certificate-host-mismatch',
  'certificate-expired',
  'certificate-not-trusted',
  'validation-failure',
  'tlsa-invalid',
  'dnssec-invalid',
  'dane-required',
  'sts-policy-fetch-error',
  'sts-policy-invalid',
  'sts-webpki-invalid',
] as const

export type TlsFailureType = (typeof TLS_FAILURE_TYPES)[number]

interface FailureWords {
  readonly type: TlsFailureType
  /** Continues a sentence whose subject is the server. */
  readonly words: string
}

const UNTRUSTED: FailureWords = {
  type: 'certificate-not-trusted',
  words: 'presented a certificate that is not from a trusted authority',
}

const FAILURES: Readonly<Record<string, FailureWords>> = {
  [TLS_FAILURE_CODES.notOffered]: { type: 'starttls-not-supported', words: 'does not offer TLS (STARTTLS)' },
  [TLS_FAILURE_CODES.tlsaMismatch]: {
    type: 'validation-failure',
    words: 'presented a certificate that matches none of its TLSA records',
  },
  [TLS_FAILURE_CODES.oldVersion]: { type: 'validation-failure', words: 'does not speak TLS 1.2 or newer' },
  CERT_HAS_EXPIRED: { type: 'certificate-expired', words: 'presented an expired certificate' },
  CERT_NOT_YET_VALID: { type: 'certificate-expired', words: 'presented a certificate that is not valid yet' },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    type: 'certificate-host-mismatch',
    words: 'presented a certificate for another name',
  },
  DEPTH_ZERO_SELF_SIGNED_CERT: { type: 'certificate-not-trusted', words: 'presented a self-signed certificate' },
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
}

/** The result type of a code of OpenSSL, Node or ours. */
export const toTlsFailureType = (code: string | undefined): TlsFailureType =>
  FAILURES[code ?? '']?.type ?? 'validation-failure'

/** Why TLS failed, as the rest of a sentence about the server; undefined for failures without a known code. */
export const describeTlsFailure = ({ code = '' }: SmtpFailure): string | undefined => FAILURES[code]?.words
