/**
 * @module `/metrics` for Prometheus, on an address of its own. The sink counts from the start of the process; the rest
 * is read at a scrape, at most once a second however many scrapers there are. The text format of Prometheus, 0.0.4.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { Counter, Histogram, Registry } from 'prom-client'
import type { Metrics } from '#features/core/app/metrics.ts'
import { readFileSystem } from '#features/lifecycle/retention/disk.ts'
import { certificateStates } from '#features/setup/certificates/states.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import type { Log } from '#platform/log/log.ts'
import { countOpenDescriptors, readDescriptorLimit } from '#platform/process/descriptors.ts'
import { systemClock, type Timer } from '#platform/time/clock.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { readInbound, readProviders, readQueue, readSubmission, readWebhooks } from './queue.ts'
import { COUNTED, countBy, formatReadings, type MetricSources, type Reader, readCluster } from './table.ts'

const MICROSECONDS_PER_SECOND = 1_000_000

/** The metrics that every Prometheus client has, with their usual names. */
const readProcess: Reader = ({ version }) => {
  const startedAt = systemClock.now() / seconds(1) - process.uptime()
  const [, number = version, commit = 'unknown'] = /^(\S+) \(([^\s,)]+)/.exec(version) ?? []
  const maxDescriptors = readDescriptorLimit()
  return () => {
    const { user, system } = process.cpuUsage()
    return {
      process_cpu_seconds_total: (user + system) / MICROSECONDS_PER_SECOND,
      process_resident_memory_bytes: process.memoryUsage.rss(),
      process_start_time_seconds: startedAt,
      tassis_build_info: [[{ version: number, commit }, 1]],
      ...(maxDescriptors !== undefined && {
        process_max_fds: maxDescriptors,
        process_open_fds: countOpenDescriptors(),
      }),
    }
  }
}

/** Apart from the disk, so that it is known while that fails. */
const readReadiness: Reader = ({ opened: { app }, isStopping }) => {
  const readiness = createReadiness(app, isStopping)
  return async () => ({
    tassis_ready: (await readiness()).length === 0 ? 1 : 0,
    tassis_memory_budget_bytes: app.memory.limitBytes,
    tassis_memory_budget_used_bytes: app.memory.inUseBytes,
  })
}

const readStorage: Reader = ({ opened: { app } }) => {
  const { config, commit } = app
  return () => {
    const disk = readFileSystem(config)
    return {
      tassis_disk_size_bytes: disk.size_bytes,
      tassis_disk_free_bytes: disk.free_bytes,
      tassis_disk_reserve_bytes: disk.wanted_free_bytes,
      tassis_database_wal_bytes: commit.walBytes,
      tassis_database_bytes: statSync(join(config.dataDir, 'tassis.db')).size,
    }
  }
}

/** Every pause longer than this is seen, and 20 wake-ups a second cost nothing. */
const SAMPLE_INTERVAL_MS = 50

/** Measures how many seconds later than asked a timer runs, until `stopping`. */
function measureEventLoop(observe: (lateSeconds: number) => void, stopping: AbortSignal): void {
  let timer: Timer
  const sample = (): void => {
    const dueAtMs = systemClock.monotonicMs() + SAMPLE_INTERVAL_MS
    timer = systemClock.after(SAMPLE_INTERVAL_MS, () => {
      observe(Math.max(0, systemClock.monotonicMs() - dueAtMs) / seconds(1))
      sample()
    })
  }
  sample()
  stopping.addEventListener('abort', () => timer.cancel(), { once: true })
}

const readCertificates: Reader =
  ({ opened: { app } }) =>
  () => {
    const first = new Map<string, Millis>()
    // Hosts of tenants are not named, and there may be many.
    for (const { use, notAfter } of certificateStates(app))
      if (notAfter !== undefined) first.set(use, Math.min(notAfter, first.get(use) ?? notAfter))
    return { tassis_certificate_expiry_timestamp_seconds: [...first].map(([use, at]) => [{ use }, at / seconds(1)]) }
  }

const readFindings: Reader =
  ({ doctorReport }) =>
  () => ({
    tassis_check_findings: countBy(doctorReport()?.findings ?? [], ({ check, status }) => ({ check, status })),
  })

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
  readCluster,
]

const TTL_MS = seconds(1)
/** Bun closes connections that stay silent for longer. */
const IDLE_SECONDS = 10

export class MetricsEndpoint {
  readonly #registry = new Registry()
  /** Counts from now on. */
  readonly sink: Metrics = createCounters(this.#registry)
  readonly #stopping = new AbortController()
  #server: Bun.Server<undefined> | undefined
  #readers: readonly ReturnType<Reader>[] = []
  /** In progress, or ended less than `TTL_MS` ago. */
  #reading: Promise<string> | undefined

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
    const delay = createHistogram(this.#registry, 'tassis_event_loop_delay_seconds', DELAY_BUCKETS)
    measureEventLoop((lateSeconds) => delay.observe(lateSeconds), this.#stopping.signal)
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

type CountedName = keyof typeof COUNTED

/** From a fast commit to one that clients notice. */
const COMMIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** From a local server to the time limits of RFC 5321 §4.5.3.2. */
const ATTEMPT_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]
/** Up to the time limit of a webhook. */
const WEBHOOK_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Up to what a client takes for an outage. */
const DELAY_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

const createHistogram = <L extends string>(registry: Registry, name: CountedName, buckets: number[], label?: L) =>
  new Histogram<L>({ name, help: COUNTED[name], buckets, labelNames: label ? [label] : [], registers: [registry] })

function createCounters(registry: Registry): Metrics {
  const counter = <L extends string>(name: CountedName, ...labelNames: readonly L[]) =>
    new Counter<L>({ name, help: COUNTED[name], labelNames, registers: [registry] })
  const emails = counter('tassis_emails_accepted_total', 'kind')
  const recipients = counter('tassis_recipients_accepted_total', 'kind')
  const events = counter('tassis_events_total', 'type')
  const attempts = counter('tassis_delivery_attempts_total', 'provider', 'outcome', 'category')
  const attemptSeconds = createHistogram(registry, 'tassis_delivery_attempt_seconds', ATTEMPT_BUCKETS, 'provider')
  const commitSeconds = createHistogram(registry, 'tassis_commit_seconds', COMMIT_BUCKETS, 'store')
  const commitWrites = counter('tassis_commit_writes_total', 'store')
  const responses = counter('tassis_http_responses_total', 'code')
  const webhooks = counter('tassis_webhook_attempts_total', 'outcome')
  const webhookSeconds = createHistogram(registry, 'tassis_webhook_attempt_seconds', WEBHOOK_BUCKETS)
  const inboundRecipients = counter('tassis_inbound_recipients_total', 'code')
  const inboundMessages = counter('tassis_inbound_messages_total', 'outcome')
  const scans = counter('tassis_rspamd_scans_total', 'outcome')
  const scanSeconds = createHistogram(registry, 'tassis_rspamd_scan_seconds', WEBHOOK_BUCKETS)
  const lines = counter('tassis_log_lines_total', 'level')
  let appends: { readonly seconds: Histogram; readonly bytes: Counter } | undefined
  // Present from the start, because an alert on a rise needs a value before it.
  for (const kind of ['single', 'broadcast', 'sandbox'])
    for (const counter of [emails, recipients]) counter.inc({ kind }, 0)
  for (const outcome of ['delivered', 'transient', 'permanent']) webhooks.inc({ outcome }, 0)
  for (const outcome of ['accepted', 'deferred']) inboundMessages.inc({ outcome }, 0)
  for (const outcome of ['answered', 'failed']) scans.inc({ outcome }, 0)
  for (const level of ['warn', 'error', 'fatal']) lines.inc({ level }, 0)
  return {
    emailAccepted(kind, count) {
      emails.inc({ kind })
      recipients.inc({ kind }, count)
    },
    eventsRecorded: (type, count) => events.inc({ type }, count),
    attemptEnded(provider, outcome, category = '', durationMs) {
      if (outcome === 'unsent') return
      attempts.inc({ provider, outcome, category })
      if (durationMs !== undefined) attemptSeconds.observe({ provider }, Math.max(0, durationMs) / seconds(1))
    },
    groupCommitted(store, writes, durationMs) {
      commitSeconds.observe({ store }, durationMs / seconds(1))
      commitWrites.inc({ store }, writes)
    },
    responseSent: (status) => responses.inc({ code: String(status) }),
    webhookAttempted(outcome, durationMs) {
      webhooks.inc({ outcome })
      webhookSeconds.observe(durationMs / seconds(1))
    },
    recipientDecided: (code) => inboundRecipients.inc({ code: String(code) }),
    messageReceived: (outcome) => inboundMessages.inc({ outcome }),
    spamScanned(outcome, durationMs) {
      scans.inc({ outcome })
      scanSeconds.observe(durationMs / seconds(1))
    },
    lineLogged: (level) => lines.inc({ level }),
    appended(durationMs, count) {
      // Only in a cluster.
      appends ??= {
        seconds: createHistogram(registry, 'tassis_cluster_append_seconds', COMMIT_BUCKETS),
        bytes: counter('tassis_cluster_appended_bytes_total'),
      }
      appends.seconds.observe(durationMs / seconds(1))
      appends.bytes.inc(count)
    },
  }
}
