/** @module Starts the HTTPS listener and the orders of certificates, where they are configured. */
import { createSecureContext, type SecureContext } from 'node:tls'
import type { App } from '#features/core/app/app.ts'
import { openCertificate, type WatchedCertificate } from '#features/receiving/inbound/listener/tls-certificate.ts'
import type { Challenges } from '#features/setup/certificates/challenges.ts'
import { listOrderedHosts } from '#features/setup/certificates/hosts.ts'
import { CertificateOrders, TLS_OPTIONS } from '#features/setup/certificates/orders.ts'
import { getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import type { HttpServer } from '#platform/http/server.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import type { KeyedCertificate } from '#platform/net/self-signed.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'

export interface RunningCertificates {
  /** Where HTTPS is served; undefined without TASSIS_HTTPS_ADDR. */
  readonly endpoint: { readonly host: string; readonly port: number } | undefined
  stop(): Promise<void>
}

/** Rejects with the system's error when the address cannot be used, with ConfigError when the certificate cannot. */
export async function startCertificates(
  app: App,
  { http, challenges }: { readonly http: HttpServer; readonly challenges: Challenges },
): Promise<RunningCertificates> {
  const { config } = app
  const orders = new CertificateOrders({
    app,
    authorities: readCertificateAuthorities(config),
    challenges,
    listHosts: () => listOrderedHosts(app).map(({ host }) => host),
  })
  const address = parseHostPort(config.httpsAddr)
  const fallback = address && (await openFallback(app))
  try {
    const bound =
      address &&
      fallback &&
      (await http.listenTls(address.host, address.port, {
        contextFor: (serverName) => orders.contextFor(serverName) ?? fallback.context(),
        probe: () => challenges.probe(),
      }))
    if (config.acmeTermsAgreed) orders.start()
    return {
      endpoint: bound && { host: bound.hostname, port: bound.port },
      async stop() {
        await orders.stop()
        fallback?.watched.close()
      },
    }
  } catch (error) {
    fallback?.watched.close()
    throw error
  }
}

/** The certificate of the public host, for clients that name no host, or one that has no certificate. */
async function openFallback(app: App): Promise<{ watched: WatchedCertificate; context: () => SecureContext }> {
  const { config, clock, log } = app
  const toContext = (certificate: KeyedCertificate) => createSecureContext({ ...TLS_OPTIONS, ...certificate })
  let context: SecureContext | undefined
  const watched = await openCertificate({
    config,
    hostname: getPublicHost(config),
    listener: 'HTTPS',
    clock,
    log,
    onChange: (certificate) => {
      context = toContext(certificate)
    },
  })
  return {
    watched,
    context: () => {
      context ??= toContext(watched.current)
      return context
    },
  }
}
