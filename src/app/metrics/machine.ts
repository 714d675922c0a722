/** @module Metrics of the process and its machine: memory, disk, descriptors, event loop, certificates. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { readFileSystem } from '#features/lifecycle/retention/disk.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { countOpenDescriptors, readDescriptorLimit } from '#platform/process/descriptors.ts'
import { type Millis, systemClock, type Timer } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { certificateStates } from '../certificates/states.ts'
import { type Collector, setAll } from './sources.ts'

const MICROSECONDS_PER_SECOND = 1_000_000

/** The metrics that every Prometheus client has, with their usual names. */
export const collectProcess: Collector = ({ counter, gauge }, { version }) => {
  const cpu = counter('process_cpu_seconds_total', 'CPU time of the process, user and system.')
  const memory = gauge('process_resident_memory_bytes', 'Resident memory of the process.')
  gauge('process_start_time_seconds', 'When the process started, in seconds since the Unix epoch.').set(
    systemClock.now() / seconds(1) - process.uptime(),
  )
  const [, number = version, commit = 'unknown'] = /^(\S+) \(([^\s,)]+)/.exec(version) ?? []
  gauge('tassis_build_info', 'Always 1; version and commit of the program are in the labels.', [
    'version',
    'commit',
  ]).set({ version: number, commit }, 1)
  return () => {
    const { user, system } = process.cpuUsage()
    cpu.reset()
    cpu.inc((user + system) / MICROSECONDS_PER_SECOND)
    memory.set(process.memoryUsage.rss())
  }
}

export const collectDescriptors: Collector = ({ gauge }) => {
  const max = readDescriptorLimit()
  if (max === undefined) return undefined
  gauge('process_max_fds', 'Maximum number of open file descriptors.').set(max)
  const open = gauge('process_open_fds', 'Open file descriptors.')
  return () => open.set(countOpenDescriptors())
}

export const collectStorage: Collector = ({ gauge }, { opened: { app }, isStopping }) => {
  const { config, commit } = app
  const readiness = createReadiness(app, isStopping)
  const ready = gauge('tassis_ready', '1 when the service can take work, as /readyz reports it, else 0.')
  const size = gauge('tassis_disk_size_bytes', 'Size of the file system of the data directory.')
  const reserve = gauge(
    'tassis_disk_reserve_bytes',
    'Free space below which new mail is refused (TASSIS_MIN_FREE_DISK).',
  )
  const free = gauge(
    'tassis_disk_free_bytes',
    'Free space on the file system of the data directory, for an unprivileged process.',
  )
  const wal = gauge('tassis_database_wal_bytes', 'Size of the write-ahead log of the main database.')
  const database = gauge('tassis_database_bytes', 'Size of the main database, without mail contents.')
  return async () => {
    const { size_bytes, free_bytes, wanted_free_bytes } = readFileSystem(config)
    size.set(size_bytes)
    free.set(free_bytes)
    reserve.set(wanted_free_bytes)
    wal.set(commit.walBytes)
    database.set(statSync(join(config.dataDir, 'tassis.db')).size)
    ready.set((await readiness()).length === 0 ? 1 : 0)
  }
}

export const collectMemory: Collector = ({ gauge }, { opened: { app } }) => {
  gauge(
    'tassis_memory_budget_bytes',
    'Memory that request bodies and messages in flight may use (TASSIS_MEMORY_BUDGET).',
  ).set(app.memory.limitBytes)
  const used = gauge('tassis_memory_budget_used_bytes', 'Memory that request bodies and messages in flight use now.')
  return () => used.set(app.memory.inUseBytes)
}

/** Every pause longer than this is seen, and 20 wake-ups a second cost nothing. */
const SAMPLE_INTERVAL_MS = 50
const DELAY_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/** Measures how much later than asked a timer runs. @param stopping ends the measurement */
export const createEventLoopCollector =
  (stopping: AbortSignal): Collector =>
  ({ histogram }) => {
    const delay = histogram(
      'tassis_event_loop_delay_seconds',
      'How late timers of the main thread run, sampled 20 times a second: how long a request waits for its turn.',
      DELAY_BUCKETS,
    )
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
    return undefined
  }

export const collectCertificates: Collector = ({ gauge }, { opened: { app } }) => {
  const expiry = gauge(
    'tassis_certificate_expiry_timestamp_seconds',
    'When the first certificate of a use expires, in seconds since the Unix epoch.',
    ['use'],
  )
  return () => {
    const first = new Map<string, Millis>()
    // Hosts of tenants are not named, and there may be many.
    for (const { use, notAfter } of certificateStates(app))
      if (notAfter !== undefined) first.set(use, Math.min(notAfter, first.get(use) ?? notAfter))
    setAll(
      expiry,
      [...first].map(([use, at]) => [{ use }, at / seconds(1)]),
    )
  }
}

export const collectFindings: Collector = ({ gauge }, { doctorReport }) => {
  const found = gauge(
    'tassis_check_findings',
    'Findings of the latest run of the hourly checks, by check and status: ok, warning, failure or skipped.',
    ['check', 'status'],
  )
  return () => {
    found.reset()
    for (const { check, status } of doctorReport()?.findings ?? []) found.inc({ check, status })
  }
}
