/**
 * @module What the HTTPS listener changes for requests: over HTTP they are redirected to https, and a tracking host
 * serves tracked links only, as with a proxy in front.
 */
import { isIP } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { getPublicHost, isTrackingHost, normaliseHost } from '#features/setup/domains/tracking-domain.ts'
import type { ScreenedRequest, Screening } from '#platform/http/server.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { isLoopback } from '#protocols/dns/special-addresses.ts'
import { CHALLENGE_PATH } from './challenges.ts'

/** For load balancers, which know this machine by its address. */
const PLAIN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz'])
const TRACKING_PREFIX = '/t/'

/** Undefined while there is no HTTPS listener. */
export function createScreen({
  config,
  db,
}: Pick<App, 'config' | 'db'>): ((request: ScreenedRequest) => Screening | undefined) | undefined {
  if (config.httpsAddr === '') return undefined
  const publicUrl = new URL(config.publicUrl)
  const publicHost = getPublicHost(config)
  const ownHosts: ReadonlySet<string> = new Set([publicHost, normaliseHost(config.hostname), 'localhost'])
  const httpHost = parseHostPort(config.httpAddr)?.host ?? ''
  // A listener on loopback is for programs of this machine, and for a proxy.
  const isRedirecting = publicUrl.protocol === 'https:' && httpHost !== 'localhost' && !isLoopback(httpHost)
  return ({ url, isTls, isProxied }) => {
    const { pathname, search } = url
    if (PLAIN_PATHS.has(pathname) || pathname.startsWith(CHALLENGE_PATH)) return undefined
    const host = normaliseHost(url.hostname)
    if (!isTls) {
      if (!isRedirecting || isProxied) return undefined
      const target = isTrackingHost(db, host) ? host : publicUrl.hostname
      return { redirectTo: `https://${target}${publicUrl.port && `:${publicUrl.port}`}${pathname}${search}` }
    }
    const isOwn = ownHosts.has(host) || isIP(host.replace(/^\[|\]$/g, '')) !== 0
    return isOwn || pathname.startsWith(TRACKING_PREFIX) ? undefined : { notFound: true }
  }
}
