/** @module What metrics are read from, at each scrape. */
import type { Gauge, Registry } from 'prom-client'
import type { RunningSubmission } from '#features/drop-in/submission/start.ts'
import type { Millis } from '#platform/clock.ts'
import type { OpenedApp, RunningDelivery, RunningInbound } from '../create.ts'

/** A certificate of the service and the end of its validity. */
export interface CertificateExpiry {
  readonly name: string
  readonly validTo: Millis
}

export interface MetricSources {
  readonly opened: OpenedApp
  /** These are undefined until they have started. */
  readonly delivery: () => RunningDelivery | undefined
  readonly inbound: () => RunningInbound | undefined
  readonly submission: () => RunningSubmission | undefined
  readonly isStopping: () => boolean
  /** Version and commit of this program, as `formatVersion` returns them. */
  readonly version: string
}

/** Registers metrics whose `collect` reads the sources. A new part of the service adds its own to `COLLECTORS`. */
export type Collector = (registry: Registry, sources: MetricSources) => void

/** Replaces all values of a gauge. */
export function setAll<L extends string>(
  gauge: Gauge<L>,
  values: Iterable<readonly [labels: Readonly<Record<L, string>>, value: number]>,
): void {
  gauge.reset()
  for (const [labels, value] of values) gauge.set({ ...labels }, value)
}
