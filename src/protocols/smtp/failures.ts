/**
 * @module Classifies the failures of an SMTP connection: maps errors of sockets and TLS to the few kinds that delivery
 * distinguishes, and says why TLS failed, in words about the server.
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

const UNTRUSTED = 'presented a certificate that is not from a trusted authority'

/** Each continues a sentence whose subject is the server. */
const FAILURES: Readonly<Record<string, string>> = {
  [TLS_FAILURE_CODES.notOffered]: 'does not offer TLS (STARTTLS)',
  [TLS_FAILURE_CODES.tlsaMismatch]: 'presented a certificate that matches none of its TLSA records',
  [TLS_FAILURE_CODES.oldVersion]: 'does not speak TLS 1.2 or newer',
  CERT_HAS_EXPIRED: 'presented an expired certificate',
  CERT_NOT_YET_VALID: 'presented a certificate that is not valid yet',
  ERR_TLS_CERT_ALTNAME_INVALID: 'presented a certificate for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'presented a self-signed certificate',
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
}

/** Why TLS failed, as the rest of a sentence about the server; undefined for failures without a known code. */
export const describeTlsFailure = ({ code = '' }: SmtpFailure): string | undefined => FAILURES[code]
