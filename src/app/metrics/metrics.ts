/**
 * @module `/metrics` for Prometheus, on an address of its own. The sink counts from the start of the process; gauges
 * are read at a scrape, at most once a second however many scrapers there are. The text format of Prometheus, 0.0.4.
 */
import { Registry } from 'prom-client'
import type { Metrics } from '#features/core/app/metrics.ts'
import type { Log } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { createCounters } from './counters.ts'
import {
  collectCertificates,
  collectDescriptors,
  collectFindings,
  collectMemory,
  collectProcess,
  collectStorage,
  createEventLoopCollector,
} from './machine.ts'
import { collectInbound, collectProviders, collectQueue, collectSubmission, collectWebhooks } from './queue.ts'
import { type Collector, createMetricFactory, type MetricSources } from './sources.ts'

const COLLECTORS: readonly Collector[] = [
  collectProcess,
  collectDescriptors,
  collectStorage,
  collectMemory,
  collectCertificates,
  collectFindings,
  collectQueue,
  collectProviders,
  collectWebhooks,
  collectInbound,
  collectSubmission,
]

const TTL_MS = seconds(1)
/** Bun closes connections that stay silent for longer. */
const IDLE_SECONDS = 10

export class MetricsEndpoint {
  /** Counts from now on. */
  readonly sink: Metrics
  readonly #registry = new Registry()
  readonly #factory = createMetricFactory(this.#registry)
  readonly #stopping = new AbortController()
  #server: Bun.Server<undefined> | undefined
  #readers: readonly (() => void | Promise<void>)[] = []
  /** In progress, or ended less than `TTL_MS` ago. */
  #reading: Promise<string> | undefined

  constructor() {
    this.sink = createCounters(this.#factory)
  }

  /**
   * Adds the gauges and binds the address; throws system errors such as EADDRINUSE. Until the parts of the service have
   * started, their gauges are missing.
   */
  listen(
    { host, port }: { readonly host: string; readonly port: number },
    sources: MetricSources,
  ): { readonly host: string; readonly port: number } {
    const server = Bun.serve({
      hostname: host,
      port,
      development: false,
      reusePort: false,
      idleTimeout: IDLE_SECONDS,
      fetch: (request) => this.#respond(request, sources.opened.app.log),
    })
    this.#server = server
    const collectors = [...COLLECTORS, createEventLoopCollector(this.#stopping.signal)]
    this.#readers = collectors.flatMap((collect) => collect(this.#factory, sources) ?? [])
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
    const text = await this.#read(log)
    return new Response(text, { headers: { 'content-type': this.#registry.contentType } })
  }

  #read(log: Log): Promise<string> {
    this.#reading ??= this.#readNow(log).finally(() => {
      systemClock.after(TTL_MS, () => {
        this.#reading = undefined
      })
    })
    return this.#reading
  }

  async #readNow(log: Log): Promise<string> {
    // One that fails leaves its last values, and must not hide the others.
    const results = await Promise.allSettled(this.#readers.map(async (read) => await read()))
    for (const result of results)
      if (result.status === 'rejected') log.warn({ err: result.reason }, 'some metrics not read')
    return await this.#registry.metrics()
  }
}
