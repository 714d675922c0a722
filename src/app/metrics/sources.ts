/** @module What metrics are read from at each scrape, and their text. */
import type { RunningInbound } from '#features/receiving/inbound/start.ts'
import type { OpenedApp } from '../create.ts'
import type { ServiceState } from '../status-routes.ts'
import { READ } from './table.ts'

export interface MetricSources extends ServiceState {
  readonly opened: OpenedApp
  /** Undefined until it has started. */
  readonly inbound: () => RunningInbound | undefined
}

export type LabelledValue = readonly [labels: Readonly<Record<string, string>>, value: number]

/** Values by name; a metric without labels has one. */
export type Readings = Readonly<Partial<Record<keyof typeof READ, number | readonly LabelledValue[]>>>

/** Prepares the readings of a part of the service; the function that it returns makes them at each scrape. */
export type Reader = (sources: MetricSources) => () => Readings | Promise<Readings>

/** The text format of Prometheus, in which label values are escaped as in JSON. */
export function formatReadings(readings: Readings): string {
  const lines = Object.entries(readings).flatMap(([name, values]) => [
    `# HELP ${name} ${READ[name as keyof typeof READ]}`,
    `# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}`,
    ...(typeof values === 'number' ? [[{}, values] as const] : values).map(([labels, value]) => {
      const pairs = Object.entries(labels).map(([label, text]) => `${label}=${JSON.stringify(text)}`)
      return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`
    }),
  ])
  return lines.map((line) => `${line}\n`).join('')
}

/** The number of items with the same labels. */
export function countBy<T>(
  items: readonly T[],
  toLabels: (item: T) => Readonly<Record<string, string>>,
): LabelledValue[] {
  const groups = Map.groupBy(items.map(toLabels), (labels) => Object.values(labels).join('\n'))
  return [...groups.values()].map((group) => [group[0] ?? {}, group.length])
}
