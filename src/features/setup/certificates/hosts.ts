/** @module Which host names have a certificate, and for what. */
import type { Database } from 'bun:sqlite'
import { isIP } from 'node:net'
import { getPublicHost, listTrackingHosts, normaliseHost } from '#features/setup/domains/tracking-domain.ts'
import type { Config } from '#platform/settings/config.ts'

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
