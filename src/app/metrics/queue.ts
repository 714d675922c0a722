/** @module Metrics of what waits and runs: the mail queue, providers, webhooks, incoming mail, submission. */
import { listReportAlerts } from '#features/receiving/domain-reports/alerts.ts'
import { countQueueEntries, findOldestEntryTime } from '#features/receiving/inbound/process/queue.ts'
import { getLaneReader } from '#features/sending/delivery/control/queue-view.ts'
import { labelProvider } from '#features/sending/delivery/providers/registry.ts'
import type { RunningDelivery } from '#features/sending/delivery/start.ts'
import type { OpenLane } from '#features/sending/queue/queue.ts'
import { countWaitingWebhooks } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { countBy, type LabelledValue, type Reader } from './table.ts'

/** How long a scrape waits for a reading of the queue; a longer one is used by a later scrape. */
const MAX_READ_WAIT_MS = seconds(1)
/** Lanes joined in one tick of the event loop; this takes some 2 ms. */
const LANES_PER_TICK = 5000
/** Provider of a lane that has not been routed since the start. */
const UNROUTED = 'unknown'

type LanesByProvider = ReadonlyMap<string, { readonly waiting: number; readonly firstAt: number }>

export const readQueue: Reader = ({ opened: { app }, delivery }) => {
  const { clock, log } = app
  const readLanes = getLaneReader(app)
  let lanes: readonly OpenLane[] | undefined
  let byProvider: LanesByProvider = new Map()
  const read = async (): Promise<void> => {
    const current = await readLanes()
    if (current === lanes) return
    byProvider = await sumByProvider(current, delivery())
    lanes = current
  }
  const readShared = shareRun(() =>
    read().catch((error: unknown) => log.warn({ err: error }, 'queue not read for metrics')),
  )
  return async () => {
    await Promise.race([readShared(), clock.sleep(MAX_READ_WAIT_MS)])
    if (!lanes) return {}
    // The providers to which the service sends or has sent lately have a 0 without waiting mail.
    const used = delivery()?.scheduler.pairs.all() ?? []
    const names = [...new Set([...used.map(({ provider }) => labelProvider(provider)), ...byProvider.keys()])]
    const now = clock.now()
    return {
      tassis_queue_lanes: lanes.length,
      tassis_queue_recipients: names.map((provider) => [{ provider }, byProvider.get(provider)?.waiting ?? 0]),
      tassis_queue_oldest_due_seconds: names.map((provider) => [
        { provider },
        Math.max(0, now - (byProvider.get(provider)?.firstAt ?? now)) / seconds(1),
      ]),
    }
  }
}

async function sumByProvider(
  lanes: readonly OpenLane[],
  delivery: RunningDelivery | undefined,
): Promise<LanesByProvider> {
  const byProvider = new Map<string, { waiting: number; firstAt: number }>()
  const findProvider = delivery?.scheduler.createProviderFinder()
  for (const [index, { lane, waiting, firstAt }] of lanes.entries()) {
    if (index > 0 && index % LANES_PER_TICK === 0) await yieldToEventLoop()
    const provider = findProvider?.(lane) ?? UNROUTED
    const sum = byProvider.get(provider) ?? { waiting: 0, firstAt }
    byProvider.set(provider, { waiting: sum.waiting + waiting, firstAt: Math.min(sum.firstAt, firstAt) })
  }
  return byProvider
}

export const readProviders: Reader =
  ({ delivery }) =>
  () => {
    const scheduler = delivery()?.scheduler
    const pairs = Map.groupBy(scheduler?.pairs.all() ?? [], ({ provider }) => labelProvider(provider))
    const ofEach = (
      measure: (all: ReturnType<RunningDelivery['scheduler']['pairs']['all']>) => number,
    ): LabelledValue[] => [...pairs].map(([provider, all]) => [{ provider }, measure(all)])
    return {
      tassis_deliveries_in_flight: ofEach((all) => all.reduce((sum, { slots }) => sum + slots.inFlight, 0)),
      tassis_provider_rate_factor: ofEach((all) => Math.min(1, ...all.map(({ state }) => state.factor))),
      tassis_provider_suspensions: ofEach((all) => all.filter(({ state }) => state.suspension).length),
      tassis_reputation_alerts: countBy(scheduler?.alerts.list() ?? [], ({ provider, isNamed, category }) => ({
        provider: isNamed ? provider : 'other',
        category,
      })),
    }
  }

export const readWebhooks: Reader =
  ({ opened: { app } }) =>
  () => {
    const counts = countWaitingWebhooks(app.db)
    return {
      tassis_webhooks_deactivated: counts.off_by_failures,
      tassis_webhook_deliveries_waiting: counts.waiting,
    }
  }

export const readInbound: Reader =
  ({ opened: { app }, inbound }) =>
  () => {
    const now = app.clock.now()
    return {
      tassis_inbound_queue_messages: countQueueEntries(app.db),
      tassis_inbound_queue_oldest_seconds: Math.max(0, now - (findOldestEntryTime(app.db) ?? now)) / seconds(1),
      tassis_report_alerts: countBy(listReportAlerts(app.db, null, now), ({ cause }) => ({
        cause: cause.replace(/:.*/, ''),
      })),
      tassis_inbound_sessions: inbound()?.sessions() ?? 0,
    }
  }

export const readSubmission: Reader =
  ({ submission }) =>
  () => {
    const { accepted = 0, deferred = 0, rejected = 0, failed_logins = 0, sessions = 0 } = submission()?.stats() ?? {}
    return {
      tassis_submission_failed_logins_total: failed_logins,
      tassis_submission_sessions: sessions,
      tassis_submission_messages_total: Object.entries({ accepted, deferred, rejected }).map(([outcome, count]) => [
        { outcome },
        count,
      ]),
    }
  }
