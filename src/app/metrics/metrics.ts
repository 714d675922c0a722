/**
 * @module `/metrics` for Prometheus, on an address of its own. The sink counts from the start of the process; the rest
 * is read at a scrape, at most once a second however many scrapers there are. The text format of Prometheus, 0.0.4.
 */
import { Registry } from 'prom-client'
import type { Metrics } from '#features/core/app/metrics.ts'
import type { Log } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { createCounters, createDelayHistogram } from './counters.ts'
import { measureEventLoop, readCertificates, readFindings, readProcess, readReadiness, readStorage } from './machine.ts'
import { readInbound, readProviders, readQueue, readSubmission, readWebhooks } from './queue.ts'
import { formatReadings, type MetricSources, type Reader } from './table.ts'

/** A new part of the service adds its own. */
const READERS: readonly Reader[] = [
  readProcess,
  readReadiness,
  readStorage,
  readCertificates,
  readFindings,
  readQueue,
  readProviders,
  readWebhooks,
  readInbound,
  readSubmission,
]

const TTL_MS = seconds(1)
/** Bun closes connections that stay silent for longer. */
const IDLE_SECONDS = 10

export class MetricsEndpoint {
  /** Counts from now on. */
  readonly sink: Metrics
  readonly #registry = new Registry()
  readonly #stopping = new AbortController()
  #server: Bun.Server<undefined> | undefined
  #readers: readonly ReturnType<Reader>[] = []
  /** In progress, or ended less than `TTL_MS` ago. */
  #reading: Promise<string> | undefined

  constructor() {
    this.sink = createCounters(this.#registry)
  }

  /**
   * Adds what is read, and binds the address; throws system errors such as EADDRINUSE. Until the parts of the service have
   * started, their values are missing.
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
    this.#readers = READERS.map((create) => create(sources))
    measureEventLoop(createDelayHistogram(this.#registry), this.#stopping.signal)
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
    const texts = this.#readers.map(async (read) => {
      try {
        return formatReadings(await read())
      } catch (error) {
        // It must not hide the others.
        log.warn({ err: error }, 'some metrics not read')
        return ''
      }
    })
    return [...(await Promise.all(texts)), await this.#registry.metrics()].join('')
  }
}
