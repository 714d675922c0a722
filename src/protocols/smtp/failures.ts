/**
 * @module Classifies the failures of an SMTP connection: maps errors of sockets and TLS to the few kinds that delivery
 * distinguishes, and names why TLS failed, in words about the server and as a result type of RFC 8460 §4.3.
 */

export type SmtpFailureKind = 'refused' | 'unreachable' | 'timeout' | 'closed' | 'reset' | 'tls' | 'protocol' | 'other'

/**
 * Why a connection ended, when no reply explains it. `refused`: no server listens on the port. `closed`: an orderly end
 * by either side. `reset`: a broken connection. `protocol`: the server sent what SMTP does not allow at that point.
 */
export interface SmtpFailure {
  readonly kind: SmtpFailureKind
  readonly message: string
  /** Why TLS failed: a code of OpenSSL or Node such as `CERT_HAS_EXPIRED`, or one of `TLS_FAILURE_CODES`. */
  readonly code?: string
}

const KIND_BY_CODE: Readonly<Record<string, SmtpFailureKind>> = {
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EHOSTDOWN: 'unreachable',
  ENETDOWN: 'unreachable',
  ENONET: 'unreachable',
  ENOTFOUND: 'unreachable',
  EAI_AGAIN: 'unreachable',
  ETIMEDOUT: 'timeout',
  ECONNRESET: 'reset',
  ECONNABORTED: 'reset',
  EPIPE: 'reset',
}

/**
 * Classifies an error of a socket. Errors of our own side, such as a local address that does not exist (EADDRNOTAVAIL)
 * or too many open files, are `other`.
 *
 * @param isSecuring whether the TLS handshake was running; if so, any error that is not a network error is about TLS or
 * the certificate
 */
export function toSmtpFailure(error: unknown, isSecuring = false): SmtpFailure {
  const code = readErrorCode(error)
  const message = error instanceof Error ? error.message : String(error)
  const kind = KIND_BY_CODE[code]
  if (kind) return { kind, message }
  const isTls = isSecuring || code.startsWith('ERR_SSL') || code.startsWith('ERR_TLS')
  return isTls ? { kind: 'tls', message, ...(code !== '' && { code }) } : { kind: 'other', message }
}

function readErrorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return ''
  return typeof error.code === 'string' ? error.code : ''
}

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
