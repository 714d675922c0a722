/**
 * @module Classifies the failures of an SMTP connection: maps errors of sockets and TLS to the few kinds that delivery
 * distinguishes.
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
