/**
 * @module The whole service: starts and stops the data directory, HTTP, admin socket, delivery and recurring tasks in
 * order. `cli/serve.ts` runs it as a process; tests run it in theirs.
 */
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { App } from '#features/core/app/app.ts'
import { type RunningSubmission, startSubmission } from '#features/drop-in/submission/start.ts'
import { openCertificate, type WatchedCertificate } from '#features/receiving/inbound/listener/tls-certificate.ts'
import { type RunningInbound, startInbound } from '#features/receiving/inbound/start.ts'
import { readProviders } from '#features/sending/delivery/providers/registry.ts'
import { type RunningDelivery, startDelivery } from '#features/sending/delivery/start.ts'
import { Challenges } from '#features/setup/certificates/challenges.ts'
import { CertificateOrders, TLS_OPTIONS } from '#features/setup/certificates/orders.ts'
import { listOrderedHosts } from '#features/setup/certificates/states.ts'
import { getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import { WebhookDispatcher } from '#features/webhooks/webhooks/deliver/dispatcher.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { startAdminSocket } from '#platform/http/admin-socket.ts'
import type { HttpServer } from '#platform/http/server.ts'
import { createLog } from '#platform/log/log.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { createListenError } from '#platform/net/listen-error.ts'
import type { KeyedCertificate } from '#platform/net/self-signed.ts'
import { type Config, ConfigError, type SettingReport } from '#platform/settings/config.ts'
import { listOutboundIps, listProxies } from '#platform/settings/outbound-source.ts'
import { parseHostPort, toReachableUrl } from '#platform/settings/setting-kinds.ts'
import { systemClock } from '#platform/time/clock.ts'
import { createAdminFetch } from './admin-fetch.ts'
import { type CreateOptions, type OpenedApp, openApp, RESTORE_REMEDY, toCorruptionError } from './create.ts'
import { Doctor } from './doctor/doctor.ts'
import { createHttp, listenHttp } from './http.ts'
import type { MetricsEndpoint } from './metrics/metrics.ts'
import type { MetricSources } from './metrics/table.ts'
import { startBackground, startSchedules } from './schedules.ts'
import { startWhenPossible } from './start-when-possible.ts'
import type { ServiceState } from './status-routes.ts'
import { formatVersion, VERSION } from './version.ts'

/**
 * Throws ConfigError for an outbound address that neither this machine nor a proxy has: its mail would always be deferred.
 * Also if the mail of a family of addresses would leave past the proxies.
 */
function requireOwnAddresses({ delivery, outboundIps, ipv6 }: Pick<Config, 'delivery' | 'outboundIps' | 'ipv6'>): void {
  if (delivery === 'capture') return
  const proxies = listProxies(outboundIps)
  const ips = listOutboundIps(outboundIps)
  const families = new Set(ips.map(isIP))
  if (ips.length > 0 && ips.every((ip) => proxies.has(ip)) && !(families.has(4) && (families.has(6) || ipv6 !== true)))
    throw new ConfigError(
      `All addresses of TASSIS_OUTBOUND_IPS have proxies, but mail to hosts with ${families.has(4) ? 'IPv6 addresses would leave from this machine; set TASSIS_IPV6=false or add an IPv6 address' : 'IPv4 addresses would leave from this machine; add an IPv4 address'}.`,
    )
  const own = new Set(
    Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map((a) => a.address)),
  )
  // All of 127.0.0.0/8 is this machine.
  const foreign = ips.find((ip) => !own.has(ip) && !ip.startsWith('127.') && !proxies.has(ip))
  if (foreign === undefined) return
  const usable = [...own].filter((ip) => !ip.startsWith('127.') && ip !== '::1' && !ip.startsWith('fe80:'))
  throw new ConfigError(
    `TASSIS_OUTBOUND_IPS has ${foreign}, which is not an address of this machine; it has ${usable.join(', ') || 'none but loopback'}. Leave it unset to let the system choose, or name the proxy that has it: ${foreign} via socks5://host:1080.`,
  )
}

export interface Service {
  readonly opened: OpenedApp
  readonly delivery: RunningDelivery
  readonly inbound: RunningInbound
  readonly submission: RunningSubmission
  /** Where `/metrics` is; undefined if no address is configured. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined
  readonly certificates: RunningCertificates
  readonly url: string
  /**
   * Accepts no request and starts no delivery; waits for running requests and for up to 60 s for running deliveries;
   * then closes everything. Further calls return the same promise.
   */
  stop(): Promise<void>
}

export interface ServiceOptions extends CreateOptions {
  /** Settings with their sources, for operators. */
  readonly settings?: readonly SettingReport[]
}

/** Stops one part; the service calls these in reverse order of their start. */
type Stop = () => Promise<void>

/**
 * Starts everything, or nothing. Waits while the disk is full, the database is locked or the system is out of file
 * descriptors. Throws ConfigError with one sentence when the operator has to change something.
 * @param ending ends the wait; the promise then rejects with its reason
 */
export async function startService(
  config: Config,
  options: ServiceOptions = {},
  ending: AbortSignal = new AbortController().signal,
): Promise<Service> {
  requireOwnAddresses(config)
  // A mistake in the file of providers stops the start before anything is opened.
  readProviders(config)
  // Loaded on demand, because loading takes a tenth of a second.
  const metrics = config.metricsAddr === '' ? undefined : new (await import('./metrics/metrics.ts')).MetricsEndpoint()
  const log = options.log ?? createLog(config.logLevel, undefined, undefined, metrics?.sink.lineLogged)
  const startOptions = { config, clock: options.clock ?? systemClock, log, ending }
  const opened = await startWhenPossible(
    () => openApp(config, { ...options, log, ...(metrics && { metrics: metrics.sink }) }),
    startOptions,
    {
      isListening: false,
    },
  )
  const stops: Stop[] = [() => opened.close()]
  const keep = <T extends { stop: Stop }>(part: T): T => {
    stops.unshift(() => part.stop())
    return part
  }
  const start = async <T extends { stop: Stop }>(step: () => T | Promise<T>) =>
    keep(await startWhenPossible(step, startOptions, { isListening: true }))
  let isStopping = false
  try {
    // Steps that can fail because of a wrong setting or another program come first: no mail may be in flight when the
    // start fails.
    let delivery: RunningDelivery | undefined
    let submission: RunningSubmission | undefined
    let startedInbound: RunningInbound | undefined
    const { app, sourceNames } = opened
    const doctor = new Doctor({ app, sourceNames, resolver: options.resolver })
    const challenges = new Challenges()
    const state: ServiceState = {
      isStopping: () => isStopping,
      delivery: () => delivery,
      submission: () => submission,
      doctorReport: () => doctor.latest(),
      version: formatVersion(),
    }
    const http = createHttp(opened, {
      ...state,
      challenges,
      runDoctor: () => doctor.run(delivery),
      url: () => url,
      ...(options.settings && { settings: options.settings }),
    })
    const bound = await listenOrExplain('TASSIS_HTTP_ADDR', config.httpAddr, () => listenHttp(http, config.httpAddr))
    const url = toReachableUrl(bound.hostname, bound.port)
    stops.unshift(() => http.stop())
    const metricsEndpoint =
      metrics && (await listenForMetrics(keep(metrics), config, { ...state, opened, inbound: () => startedInbound }))
    const certificates = await listenOrExplain('TASSIS_HTTPS_ADDR', config.httpsAddr, () =>
      startCertificates(app, { http, challenges }),
    ).then(keep)
    const inbound = await start(() => startInbound(opened))
    startedInbound = inbound
    const startedSubmission = await start(() => startSubmission(app, opened))
    submission = startedSubmission
    const admin = keep(
      startAdminSocket({
        dataDir: config.dataDir,
        version: VERSION,
        fetch: createAdminFetch(app, http),
        clock: app.clock,
      }),
    )
    // Webhooks start before delivery, because the recovery of delivery records the first events.
    const webhooks = keep(new WebhookDispatcher(app))
    webhooks.start()
    inbound.process()
    const startedDelivery = await start(() => startDelivery(opened))
    delivery = startedDelivery
    const background = keep(startBackground(app))
    const checks = keep(doctor.start(startedDelivery))
    const schedules = startSchedules(opened)

    // The doctor checks again every hour.
    void opened.sourceNames.check().catch((error: unknown) => log.warn({ err: error }, 'reverse DNS not checked'))

    const stop = async () => {
      isStopping = true
      opened.app.renderer.drain()
      // These parts stop at the same time: no delivery or webhook attempt may start while the last requests are
      // answered.
      await Promise.all([
        http.stop(),
        certificates.stop(),
        inbound.stop(),
        startedSubmission.stop(),
        startedDelivery.stop(),
        webhooks.stop(),
        background.stop(),
        checks.stop(),
      ])
      await schedules.stop()
      await metrics?.stop()
      await admin.stop()
      await opened.authenticator.flushLastUsed()
      await opened.close()
    }
    let stopped: Promise<void> | undefined
    return {
      opened,
      delivery: startedDelivery,
      inbound,
      submission: startedSubmission,
      metrics: metricsEndpoint,
      certificates,
      url,
      stop() {
        stopped ??= stop()
        return stopped
      },
    }
  } catch (error) {
    for (const stop of stops) await stop()
    // Starting reads pages that opening has not read, so it can also find a corrupt file.
    throw toCorruptionError(join(config.dataDir, 'tassis.db'), RESTORE_REMEDY, error)
  }
}

/** Explains a system error of `listen` as a mistake in a setting: names it and the remedy. */
async function listenOrExplain<T>(variable: string, address: string, listen: () => T | Promise<T>): Promise<T> {
  try {
    return await listen()
  } catch (error) {
    const code = systemCodeOf(error)
    const endpoint = parseHostPort(address)
    throw endpoint && LISTEN_ERRORS.includes(code) ? createListenError(variable, endpoint, code) : error
  }
}

const LISTEN_ERRORS = ['EADDRINUSE', 'EADDRNOTAVAIL', 'EACCES']

const listenForMetrics = (metrics: MetricsEndpoint, { metricsAddr }: Config, sources: MetricSources) =>
  listenOrExplain('TASSIS_METRICS_ADDR', metricsAddr, () => {
    const address = parseHostPort(metricsAddr)
    if (!address) throw new TypeError(`not an address: ${metricsAddr}`)
    const bound = metrics.listen(address, sources)
    sources.opened.app.ownPorts.add(bound.port)
    return bound
  })

interface RunningCertificates {
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
