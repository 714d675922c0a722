/** @module Metrics of the process and its machine: memory, disk, descriptors, event loop, certificates. */
import { X509Certificate } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Counter, Gauge, Histogram } from 'prom-client'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { type Millis, systemClock, type Timer } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { seconds } from '#platform/units.ts'
import { readFileSystem } from '../operator/disk.ts'
import { type CertificateExpiry, type Collector, setAll } from './sources.ts'

const MICROSECONDS_PER_SECOND = 1_000_000

/** The metrics that every Prometheus client has, with their usual names. */
export const collectProcess: Collector = (registry, { version }) => {
  const registers = [registry]
  const startedAt = systemClock.now() / seconds(1) - process.uptime()
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'CPU time of the process, user and system.',
    registers,
    collect() {
      const { user, system } = process.cpuUsage()
      this.reset()
      this.inc((user + system) / MICROSECONDS_PER_SECOND)
    },
  })
  new Gauge({
    name: 'process_start_time_seconds',
    help: 'When the process started, in seconds since the Unix epoch.',
    registers,
  }).set(startedAt)
  new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory of the process.',
    registers,
    collect() {
      this.set(process.memoryUsage.rss())
    },
  })
  const maxFds = readMaxDescriptors()
  if (maxFds !== undefined) {
    new Gauge({ name: 'process_max_fds', help: 'Maximum number of open file descriptors.', registers }).set(maxFds)
    new Gauge({
      name: 'process_open_fds',
      help: 'Open file descriptors.',
      registers,
      collect() {
        this.set(readdirSync('/proc/self/fd').length)
      },
    })
  }
  const [, number = version, commit = 'unknown'] = /^(\S+) \((\S+)\)$/.exec(version) ?? []
  new Gauge({
    name: 'tassis_build_info',
    help: 'Always 1; version and commit of the program are in the labels.',
    labelNames: ['version', 'commit'],
    registers,
  }).set({ version: number, commit }, 1)
}

/** Undefined on systems without /proc, and without a limit. */
function readMaxDescriptors(): number | undefined {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined
  }
}

export const collectStorage: Collector = (registry, { opened: { app }, isStopping }) => {
  const registers = [registry]
  const { config, commit, memory } = app
  const readiness = createReadiness(app, isStopping)
  const database = join(config.dataDir, 'tassis.db')
  new Gauge({
    name: 'tassis_ready',
    help: '1 when the service can take work, as /readyz reports it, else 0.',
    registers,
    async collect() {
      this.set((await readiness()).length === 0 ? 1 : 0)
    },
  })
  const size = new Gauge({
    name: 'tassis_disk_size_bytes',
    help: 'Size of the file system of the data directory.',
    registers,
  })
  const reserve = new Gauge({
    name: 'tassis_disk_reserve_bytes',
    help: 'Free space below which new mail is refused (TASSIS_MIN_FREE_DISK).',
    registers,
  })
  new Gauge({
    name: 'tassis_disk_free_bytes',
    help: 'Free space on the file system of the data directory, for an unprivileged process.',
    registers,
    collect() {
      const { size_bytes, free_bytes, wanted_free_bytes } = readFileSystem(config)
      this.set(free_bytes)
      size.set(size_bytes)
      reserve.set(wanted_free_bytes)
    },
  })
  const wal = new Gauge({
    name: 'tassis_database_wal_bytes',
    help: 'Size of the write-ahead log of the main database.',
    registers,
  })
  new Gauge({
    name: 'tassis_database_bytes',
    help: 'Size of the main database, without mail contents.',
    registers,
    collect() {
      this.set(statSync(database).size)
      wal.set(commit.walBytes)
    },
  })
  new Gauge({
    name: 'tassis_memory_budget_bytes',
    help: 'Memory that request bodies and messages in flight may use (TASSIS_MEMORY_BUDGET).',
    registers,
  }).set(memory.limitBytes)
  new Gauge({
    name: 'tassis_memory_budget_used_bytes',
    help: 'Memory that request bodies and messages in flight use now.',
    registers,
    collect() {
      this.set(memory.inUseBytes)
    },
  })
}

/** Every pause longer than this is seen, and 20 wake-ups a second cost nothing. */
const SAMPLE_INTERVAL_MS = 50
const DELAY_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/** Measures how much later than asked a timer runs. @param stopping ends the measurement */
export const createEventLoopCollector =
  (stopping: AbortSignal): Collector =>
  (registry) => {
    const delay = new Histogram({
      name: 'tassis_event_loop_delay_seconds',
      help: 'How late timers of the main thread run, sampled 20 times a second: how long a request waits for its turn.',
      buckets: DELAY_BUCKETS,
      registers: [registry],
    })
    let timer: Timer
    const sample = (): void => {
      const dueAtMs = systemClock.monotonicMs() + SAMPLE_INTERVAL_MS
      timer = systemClock.after(SAMPLE_INTERVAL_MS, () => {
        delay.observe(Math.max(0, systemClock.monotonicMs() - dueAtMs) / seconds(1))
        sample()
      })
    }
    sample()
    stopping.addEventListener('abort', () => timer.cancel(), { once: true })
  }

export const collectCertificates: Collector = (registry, { opened: { app }, certificates }) => {
  const read = certificates ?? (() => readFileExpiries(app.config))
  new Gauge({
    name: 'tassis_certificate_expiry_timestamp_seconds',
    help: 'When the first certificate of a use expires, in seconds since the Unix epoch.',
    labelNames: ['use'],
    registers: [registry],
    collect() {
      const first = new Map<string, Millis>()
      // Hosts of tenants are not named, and there may be many.
      for (const { use, notAfter = Number.POSITIVE_INFINITY } of read())
        first.set(use, Math.min(notAfter, first.get(use) ?? Number.POSITIVE_INFINITY))
      setAll(
        this,
        [...first].flatMap(([use, at]) => (Number.isFinite(at) ? [[{ use }, at / seconds(1)] as const] : [])),
      )
    },
  })
}

/** The certificate of the files that settings name; an unreadable one is missing. The self-signed one renews itself. */
function readFileExpiries({ tlsCertFile }: Pick<Config, 'tlsCertFile'>): CertificateExpiry[] {
  if (tlsCertFile === '') return []
  try {
    return [{ use: 'smtp', notAfter: Date.parse(new X509Certificate(readFileSync(tlsCertFile)).validTo) }]
  } catch {
    return []
  }
}

export const collectFindings: Collector = (registry, { findings = () => [] }) => {
  new Gauge({
    name: 'tassis_check_findings',
    help: 'Findings of the latest run of the hourly checks, by check and status: ok, warning, failure or skipped.',
    labelNames: ['check', 'status'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { check, status } of findings()) this.inc({ check, status })
    },
  })
}
