/** @module The kinds of data that retention removes, with their maximum ages and sizes. */

import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'

/** Kinds with a budget. */
export const BUDGETED = ['content', 'events', 'inbound', 'logs'] as const
export type BudgetedKind = (typeof BUDGETED)[number]
export type ByKind<T> = Readonly<Record<BudgetedKind, T>>

export const mapKinds = <T>(value: (kind: BudgetedKind) => T): ByKind<T> => ({
  content: value('content'),
  events: value('events'),
  inbound: value('inbound'),
  logs: value('logs'),
})

/** Bytes; 0: no limit. */
export type Budgets = ByKind<number>

/** The configured sizes; `limitToDisk` computes the effective ones. */
export const readBudgets = (
  config: Pick<Config, 'contentMaxBytes' | 'eventsMaxBytes' | 'inboundMaxBytes' | 'logsMaxBytes'>,
): Budgets => mapKinds((kind) => config[`${kind}MaxBytes`])

export const readMaxAges = (config: Config): ByKind<number> => mapKinds((kind) => config[`${kind}Days`])

/** The time before which a kind is removed for its age. */
export const computeAgeCutoffs = (config: Config, now: Millis): ByKind<Millis> => {
  const ages = readMaxAges(config)
  return mapKinds((kind) => now - days(ages[kind]))
}
