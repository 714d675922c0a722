/** @module What metrics are read from, at each scrape. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { RunningSubmission } from '#features/drop-in/submission/start.ts'
import type { OpenedApp, RunningDelivery, RunningInbound } from '../create.ts'

/** What one of the regular checks of the service found. */
export interface CheckFinding {
  readonly check: string
  readonly status: string
}

export interface MetricSources {
  readonly opened: OpenedApp
  /** These are undefined until they have started. */
  readonly delivery: () => RunningDelivery | undefined
  readonly inbound: () => RunningInbound | undefined
  readonly submission: () => RunningSubmission | undefined
  readonly isStopping: () => boolean
  /** The latest findings of the checks; default: there are no checks. */
  readonly findings?: () => readonly CheckFinding[]
  /** Version and commit of this program, as `formatVersion` returns them. */
  readonly version: string
}

/**
 * Registers metrics. Returns a function that reads their values, which runs before each scrape; undefined: they are
 * constant, or count themselves. A new part of the service adds its own to `COLLECTORS`.
 */
export type Collector = (metrics: MetricFactory, sources: MetricSources) => (() => void | Promise<void>) | undefined

/** Adds metrics to a registry. */
export const createMetricFactory = (registry: Registry) => {
  const registers = [registry]
  return {
    counter: <L extends string = never>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Counter<L>({ name, help, labelNames, registers }),
    gauge: <L extends string = never>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Gauge<L>({ name, help, labelNames, registers }),
    histogram: <L extends string = never>(
      name: string,
      help: string,
      buckets: number[],
      labelNames: readonly L[] = [],
    ) => new Histogram<L>({ name, help, buckets, labelNames, registers }),
  }
}
export type MetricFactory = ReturnType<typeof createMetricFactory>

export function setAll<L extends string>(
  gauge: Gauge<L>,
  values: Iterable<readonly [labels: Readonly<Record<L, string>>, value: number]>,
): void {
  gauge.reset()
  for (const [labels, value] of values) gauge.set({ ...labels }, value)
}
