/** @module The state of every certificate that clients see: for checks, metrics and commands. Reads files only. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { attempt } from '#platform/attempt.ts'
import type { Millis } from '#platform/time/clock.ts'
import { type CertificateUse, type HostSources, listOrderedHosts, listServiceHosts } from './hosts.ts'
import { expiryWarningMs, readCertificate, readOrdersState } from './store.ts'

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
  /** Set if its certificate lacks the name of the host. */
  readonly mismatch?: Mismatch
}

export interface Mismatch {
  readonly problem: string
  readonly fix: string
}

export const USE_NAMES = { api: 'HTTPS', tracking: 'tracked links', smtp: 'SMTP' } as const

/** Checks whether the operator's own certificate is for a host of the service; undefined if it is. */
const findMismatch = (certificate: X509Certificate, host: string, use: CertificateUse): Mismatch | undefined =>
  certificate.checkHost(host) === undefined
    ? {
        problem: `The certificate of ${USE_NAMES[use]} is not for ${host}, so clients that verify it ${use === 'smtp' ? 'do not deliver' : 'refuse it'}.`,
        fix: `Use a certificate for ${host} in TASSIS_TLS_CERT_FILE, or set ${use === 'smtp' ? 'TASSIS_HOSTNAME' : 'TASSIS_PUBLIC_URL'} to its name.`,
      }
    : undefined

/** One state per host and use: of the API with HTTPS, of SMTP, and of verified tracking hosts. */
export function certificateStates(app: HostSources): CertificateState[] {
  const { config } = app
  const { server, hosts } = readOrdersState(config.dataDir)
  const ordered = listOrderedHosts(app)
  const known = new Set(ordered.map(({ host }) => host))
  const own = readOwn(config.tlsCertFile)
  return [
    ...listServiceHosts(config)
      .filter(({ host }) => !known.has(host))
      .flatMap(({ host, uses }) =>
        uses.map((use): CertificateState => {
          if (!own) return { host, use, source: 'none' }
          const mismatch = findMismatch(own, host, use)
          return { host, use, source: 'file', notAfter: Date.parse(own.validTo), ...(mismatch && { mismatch }) }
        }),
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

const readOwn = (path: string): X509Certificate | undefined =>
  path === '' ? undefined : attempt(() => new X509Certificate(readFileSync(path)))
