/**
 * @module Which host names have a certificate and for what, and the state of every certificate that clients see: for
 * orders, checks, metrics and commands. Reads files only.
 */
import type { Database } from 'bun:sqlite'
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { getPublicHost, listTrackingHosts, normaliseHost } from '#features/setup/domains/tracking-domain.ts'
import { attempt } from '#platform/errors.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/units.ts'
import { expiryWarningMs, readCertificate, readOrdersState } from './store.ts'

export const CERTIFICATE_USES = ['api', 'tracking', 'smtp'] as const
export type CertificateUse = (typeof CERTIFICATE_USES)[number]

export interface CertificateHost {
  /** In A-labels and lower case. */
  readonly host: string
  readonly uses: readonly CertificateUse[]
}

/**
 * Hosts of the service itself whose clients see a certificate: those of the API, if it has HTTPS, and of the SMTP
 * listeners.
 */
export function listServiceHosts(config: Config): CertificateHost[] {
  const hosts = new Map<string, CertificateUse[]>()
  const add = (host: string, use: CertificateUse) => hosts.set(host, [...(hosts.get(host) ?? []), use])
  if (config.httpsAddr !== '') add(getPublicHost(config), 'api')
  if ([config.inboundAddr, config.submissionAddr, config.submissionTlsAddr].some((address) => address !== ''))
    add(normaliseHost(config.hostname), 'smtp')
  return [...hosts].map(([host, uses]) => ({ host, uses }))
}

export interface HostSources {
  readonly config: Config
  /** Undefined: tracking hosts are not known. */
  readonly db: Database | undefined
}

/**
 * Hosts for which certificates are ordered, those of the service first; none without `acmeTermsAgreed`. Certificates
 * for tracking hosts need the HTTPS listener: behind a proxy they are the proxy's.
 */
export function listOrderedHosts({ config, db }: HostSources): CertificateHost[] {
  if (!config.acmeTermsAgreed) return []
  const service = listServiceHosts(config)
  const names = new Set(service.map(({ host }) => host))
  const tracking = config.httpsAddr === '' || !db ? [] : listTrackingHosts(db).filter((host) => !names.has(host))
  return [
    // The hosts of the service have the operator's own certificate, if there is one.
    ...(config.tlsCertFile === '' ? service : []),
    ...tracking.map((host): CertificateHost => ({ host, uses: ['tracking'] })),
  ].filter(({ host }) => isOrderable(host))
}

/** Certificates are for full host names (RFC 8555 §7.1.3); no authority can validate others. */
export const isOrderable = (host: string): boolean => isIP(host) === 0 && host.includes('.')

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
