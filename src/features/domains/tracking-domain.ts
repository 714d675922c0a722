/**
 * @module What tracked links need of domains: which host serves them, and to what its CNAME points. Read for every tracked message and asked by the
 * reverse proxy before it makes a certificate; a host that is set but not verified, or whose domain was deleted, counts as none.
 */
import type { Database } from 'bun:sqlite'
import { isIP } from 'node:net'
import type { Config } from '#platform/config.ts'
import { prepared } from '#platform/db/open.ts'

const sql = prepared((db) => ({
  ofDomain: db.prepare<{ host: string }, [number]>(
    'SELECT tracking_domain AS host FROM domains WHERE id = ? AND tracking_verified_at IS NOT NULL AND deleted_at IS NULL',
  ),
  byHost: db.prepare<{ id: number }, [string]>(
    'SELECT id FROM domains WHERE tracking_domain = ? AND tracking_verified_at IS NOT NULL AND deleted_at IS NULL',
  ),
}))

/**
 * The verified tracking host of a domain, in A-labels and lower case; null: its links are served under the service's own URL.
 * @param domainId id of the row, not the public one
 */
export const trackingHost = (db: Database, domainId: number): string | null =>
  sql(db).ofDomain.get(domainId)?.host ?? null

/** Whether `host`, a bare name without a port, is the verified tracking host of any account's domain. */
export const isTrackingHost = (db: Database, host: string): boolean => sql(db).byHost.get(nameOf(host)) !== null

/** To what the CNAME of a tracking host points: the host of our public URL when that is a full name, else our host name. Lower case. */
export function cnameTarget({ publicUrl, hostname }: Pick<Config, 'publicUrl' | 'hostname'>): string {
  const host = publicHost({ publicUrl })
  return host.includes('.') && isIP(host) === 0 ? host : nameOf(hostname)
}

/** The host of our public URL: a name in A-labels and lower case, or an IP address. */
export const publicHost = ({ publicUrl }: Pick<Config, 'publicUrl'>): string =>
  nameOf(new URL(publicUrl).hostname).replace(/^\[(.*)\]$/, '$1')

const nameOf = (host: string): string => host.toLowerCase().replace(/\.$/, '')
