/** @module What metrics are read from, at each scrape. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { OpenedApp, RunningInbound } from '../create.ts'
import type { ServiceState } from '../status-routes.ts'

export interface MetricSources extends ServiceState {
  readonly opened: OpenedApp
  /** Undefined until it has started. */
  readonly inbound: () => RunningInbound | undefined
}

/**
 * Registers metrics. Returns a function that reads their values, which runs before each scrape; undefined: they are
 * constant, or count themselves. A new part of the service adds its own to `COLLECTORS`.
 */
export type Collector = (metrics: MetricFactory, sources: MetricSources) => (() => void | Promise<void>) | undefined

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
