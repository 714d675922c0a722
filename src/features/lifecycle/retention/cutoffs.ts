/**
 * @module What goes: by age everything from before a time, by size rows of the accounts above their share. A Worker
 * measures the budgets; the longer that takes, the less often it is done.
 */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { perOwner } from '#platform/per-owner.ts'
import { days } from '#platform/units.ts'
import { startWorker } from '#platform/workers.ts'
import { BUDGETED, type Budgeted, budgetsOf, type Cut } from './budgets.ts'
import type { MeasureAnswer, MeasureRequest } from './measure-worker.ts'

/** A measure takes at most this part of the time. */
const MEASURE_PART = 0.02

export const agesOf = (config: Config): Readonly<Record<Budgeted, number>> => ({
  content: config.contentDays,
  events: config.eventsDays,
  inbound: config.inboundDays,
  logs: config.logsDays,
})

/** What goes from before which time by age alone. */
export const agedCutoffs = (config: Config, now: Millis): Readonly<Record<Budgeted, Millis>> => {
  const ages = agesOf(config)
  return Object.fromEntries(BUDGETED.map((kind) => [kind, now - days(ages[kind])])) as Record<Budgeted, Millis>
}

const measuresOf = perOwner((_: App): { last?: { readonly at: Millis; readonly tookMs: number } } => ({}))

/** What has to go for the budgets now; nothing when it was measured lately or nothing is over. Never rejects. */
export async function budgetCuts(app: App): Promise<readonly Cut[]> {
  const measures = measuresOf(app)
  const { last } = measures
  const now = app.clock.monotonicMs()
  if (last && now - last.at < last.tookMs / MEASURE_PART) return []
  try {
    const { dataDir, minFreeDisk } = app.config
    return await measureInWorker({ dataDir, minFreeDisk, budgets: budgetsOf(app.config) })
  } catch (error) {
    app.log.warn({ err: error }, 'what the data use could not be measured; budgets are looked at again later')
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
