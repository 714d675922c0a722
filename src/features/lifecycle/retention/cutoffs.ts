/**
 * @module Determines what to remove: by age, everything from before a cutoff; by size, rows of accounts above their
 * share. A Worker measures the budgets; the longer a measurement takes, the less often it runs.
 */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { perOwner } from '#platform/per-owner.ts'
import { days } from '#platform/units.ts'
import { startWorker } from '#platform/workers.ts'
import { BUDGETED, type BudgetedKind, type Cut, readBudgets } from './budgets.ts'
import type { MeasureAnswer, MeasureRequest } from './measure-worker.ts'

/** Measurements take at most this fraction of the time. */
const MAX_MEASURE_FRACTION = 0.02

export const readMaxAges = (config: Config): Readonly<Record<BudgetedKind, number>> => ({
  content: config.contentDays,
  events: config.eventsDays,
  inbound: config.inboundDays,
  logs: config.logsDays,
})

/** The cutoff of each kind by age alone. */
export const computeAgeCutoffs = (config: Config, now: Millis): Readonly<Record<BudgetedKind, Millis>> => {
  const ages = readMaxAges(config)
  return Object.fromEntries(BUDGETED.map((kind) => [kind, now - days(ages[kind])])) as Record<BudgetedKind, Millis>
}

const getMeasures = perOwner((_: App): { last?: { readonly at: Millis; readonly tookMs: number } } => ({}))

/** What to remove for the budgets now; empty if measured recently or if no budget is exceeded. Never rejects. */
export async function findBudgetCuts(app: App): Promise<readonly Cut[]> {
  const measures = getMeasures(app)
  const { last } = measures
  const now = app.clock.monotonicMs()
  if (last && now - last.at < last.tookMs / MAX_MEASURE_FRACTION) return []
  try {
    const { dataDir, minFreeDisk } = app.config
    return await measureInWorker({ dataDir, minFreeDisk, budgets: readBudgets(app.config) })
  } catch (error) {
    app.log.warn({ err: error }, 'data use not measured; budgets are checked later')
    return []
  } finally {
    measures.last = { at: app.clock.monotonicMs(), tookMs: app.clock.monotonicMs() - now }
  }
}

function measureInWorker(request: MeasureRequest): Promise<readonly Cut[]> {
  const worker = startWorker('measure')
  return new Promise<readonly Cut[]>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<MeasureAnswer>) => {
      if (data.cuts) resolve(data.cuts)
      else reject(new Error(data.error ?? 'no answer'))
    }
    worker.onerror = (event) => reject(new Error(event.message))
    worker.postMessage(request)
  }).finally(() => worker.terminate())
}
