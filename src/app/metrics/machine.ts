/** @module Metrics of the process and its machine: memory, disk, descriptors, event loop, certificates. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { readFileSystem } from '#features/lifecycle/retention/disk.ts'
import { certificateStates } from '#features/setup/certificates/states.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { countOpenDescriptors, readDescriptorLimit } from '#platform/process/descriptors.ts'
import { type Millis, systemClock, type Timer } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { countBy, type Reader } from './table.ts'

const MICROSECONDS_PER_SECOND = 1_000_000

/** The metrics that every Prometheus client has, with their usual names. */
export const readProcess: Reader = ({ version }) => {
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
export const readReadiness: Reader = ({ opened: { app }, isStopping }) => {
  const readiness = createReadiness(app, isStopping)
  return async () => ({
    tassis_ready: (await readiness()).length === 0 ? 1 : 0,
    tassis_memory_budget_bytes: app.memory.limitBytes,
    tassis_memory_budget_used_bytes: app.memory.inUseBytes,
  })
}

export const readStorage: Reader = ({ opened: { app } }) => {
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
export function measureEventLoop(observe: (lateSeconds: number) => void, stopping: AbortSignal): void {
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

export const readCertificates: Reader =
  ({ opened: { app } }) =>
  () => {
    const first = new Map<string, Millis>()
    // Hosts of tenants are not named, and there may be many.
    for (const { use, notAfter } of certificateStates(app))
      if (notAfter !== undefined) first.set(use, Math.min(notAfter, first.get(use) ?? notAfter))
    return { tassis_certificate_expiry_timestamp_seconds: [...first].map(([use, at]) => [{ use }, at / seconds(1)]) }
  }

export const readFindings: Reader =
  ({ doctorReport }) =>
  () => ({
    tassis_check_findings: countBy(doctorReport()?.findings ?? [], ({ check, status }) => ({ check, status })),
  })
