/**
 * @module `/metrics` for Prometheus, on an address of its own. The sink counts from the start of the process; gauges
 * are read at a scrape, at most once a second however many scrapers there are. The text format of Prometheus, 0.0.4.
 */
import { Registry } from 'prom-client'
import type { Metrics } from '#features/core/app/metrics.ts'
import { systemClock } from '#platform/clock.ts'
import type { Log } from '#platform/log.ts'
import { seconds } from '#platform/units.ts'
import { createCounters } from './counters.ts'
import {
  collectCertificates,
  collectFindings,
  collectProcess,
  collectStorage,
  createEventLoopCollector,
} from './machine.ts'
import { collectProviders, collectQueue } from './queue.ts'
import type { Collector, MetricSources } from './sources.ts'
import { collectInbound, collectSubmission, collectWebhooks } from './work.ts'

/** Every reader of gauges. */
const COLLECTORS: readonly Collector[] = [
  collectProcess,
  collectStorage,
  collectCertificates,
  collectFindings,
  collectQueue,
  collectProviders,
  collectWebhooks,
  collectInbound,
  collectSubmission,
]

/** How long a response is valid. */
const TTL_MS = seconds(1)
/** Bun closes connections that stay silent for longer. */
const IDLE_SECONDS = 10

export class MetricsEndpoint {
  /** Counts from now on. */
  readonly sink: Metrics
  readonly #registry = new Registry()
  readonly #stopping = new AbortController()
  #server: Bun.Server<undefined> | undefined
  #text: Promise<string> | undefined
  #readAtMs = Number.NEGATIVE_INFINITY

  constructor() {
    this.sink = createCounters(this.#registry)
  }

  /**
   * Adds the gauges and binds the address; throws system errors such as EADDRINUSE. Until the parts of the service have
   * started, their gauges are missing.
   */
  listen(
    { host, port }: { readonly host: string; readonly port: number },
    sources: MetricSources,
  ): { readonly host: string; readonly port: number } {
    for (const collect of [...COLLECTORS, createEventLoopCollector(this.#stopping.signal)])
      collect(this.#registry, sources)
    const server = Bun.serve({
      hostname: host,
      port,
      development: false,
      reusePort: false,
      idleTimeout: IDLE_SECONDS,
      fetch: (request) => this.#respond(request, sources.opened.app.log),
    })
    this.#server = server
    return { host: server.hostname ?? host, port: server.port ?? port }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#server?.stop(true)
  }

  async #respond({ method, url }: Request, log: Log): Promise<Response> {
    if (new URL(url).pathname !== '/metrics')
      return new Response('Not found: the metrics are at /metrics.\n', { status: 404 })
    if (method !== 'GET' && method !== 'HEAD')
      return new Response('Use GET.\n', { status: 405, headers: { allow: 'GET, HEAD' } })
    try {
      return new Response(await this.#read(), { headers: { 'content-type': this.#registry.contentType } })
    } catch (error) {
      log.error({ err: error }, 'metrics not read')
      return new Response('The metrics cannot be read now; see the log.\n', { status: 500 })
    }
  }

  /** Concurrent scrapers share one reading. */
  #read(): Promise<string> {
    const nowMs = systemClock.monotonicMs()
    if (!this.#text || nowMs - this.#readAtMs >= TTL_MS) {
      this.#readAtMs = nowMs
      this.#text = this.#registry.metrics()
    }
    return this.#text
  }
}
