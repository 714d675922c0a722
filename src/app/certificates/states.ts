/** @module The state of every certificate that clients see: for checks, metrics and commands. Reads files only. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expiryWarningMs, readCertificate, readOrdersState } from '#features/setup/certificates/store.ts'
import type { Millis } from '#platform/clock.ts'
import { type CertificateUse, type HostSources, listOrderedHosts, listServiceHosts } from './hosts.ts'

export interface CertificateState {
  readonly host: string
  readonly use: CertificateUse
  /** Undefined while there is no certificate of an authority; clients then see a self-signed one. */
  readonly notAfter?: Millis
  /** From when on a certificate that is not renewed is a problem: usually 14 days before its end. */
  readonly warnAt?: Millis
  /** Why the last order failed; undefined after a success, and for the operator's own certificate. */
  readonly lastError?: string
  readonly nextAttemptAt?: Millis
  /** `file`: the operator's own, TASSIS_TLS_CERT_FILE. */
  readonly source: 'acme' | 'file' | 'none'
}

/** One state per host and use: of the API with HTTPS, of SMTP, and of verified tracking hosts. */
export function certificateStates(app: HostSources): CertificateState[] {
  const { config } = app
  const { server, hosts } = readOrdersState(config.dataDir)
  const ordered = listOrderedHosts(app)
  const known = new Set(ordered.map(({ host }) => host))
  const fileNotAfter = readNotAfter(config.tlsCertFile)
  return [
    ...listServiceHosts(config)
      .filter(({ host }) => !known.has(host))
      .flatMap(({ host, uses }) =>
        uses.map(
          (use): CertificateState =>
            fileNotAfter === undefined
              ? { host, use, source: 'none' }
              : { host, use, source: 'file', notAfter: fileNotAfter },
        ),
      ),
    ...ordered.flatMap(({ host, uses }) => {
      const stored = readCertificate(config.dataDir, host)
      const state = hosts[host]
      const failed = state?.lastError === undefined ? server : state
      const isFailing = failed.lastError !== undefined
      return uses.map(
        (use): CertificateState => ({
          host,
          use,
          source: 'acme',
          ...(stored && { notAfter: stored.notAfter, warnAt: stored.notAfter - expiryWarningMs(stored) }),
          ...(isFailing && { lastError: failed.lastError, nextAttemptAt: failed.nextAttemptAt }),
        }),
      )
    }),
  ]
}

function readNotAfter(path: string): Millis | undefined {
  if (path === '') return undefined
  try {
    return Date.parse(new X509Certificate(readFileSync(path)).validTo)
  } catch {
    return undefined
  }
}
