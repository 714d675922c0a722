/** @module Metrics of what waits and runs: the mail queue, providers, webhooks, incoming mail, submission. */
import { countQueueEntries, findOldestEntryTime } from '#features/receiving/inbound/process/queue.ts'
import { getLaneReader } from '#features/sending/delivery/control/queue-view.ts'
import { labelProvider } from '#features/sending/delivery/providers/registry.ts'
import type { OpenLane } from '#features/sending/queue/queue.ts'
import { countWaitingWebhooks } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import type { RunningDelivery } from '../create.ts'
import { type Collector, type MetricSources, setAll } from './sources.ts'

/** How long a scrape waits for a reading of the queue; a longer one is used by a later scrape. */
const MAX_READ_WAIT_MS = seconds(1)
/** Lanes joined in one tick of the event loop; this takes some 2 ms. */
const LANES_PER_TICK = 5000
/** Provider of a lane that has not been routed since the start. */
const UNROUTED = 'unknown'

interface QueueState {
  readonly readAtMs: number
  readonly lanes: number
  readonly byProvider: ReadonlyMap<string, { readonly waiting: number; readonly firstAt: number }>
}

export const collectQueue: Collector = ({ gauge }, sources) => {
  const { clock } = sources.opened.app
  const refresh = createQueueReader(sources)
  const oldest = gauge(
    'tassis_queue_oldest_due_seconds',
    'How long the most overdue recipient has been due, by provider; 0: none is overdue.',
    ['provider'],
  )
  const lanes = gauge('tassis_queue_lanes', 'Queues with open mail: one for each account, domain and priority.')
  const readAge = gauge(
    'tassis_queue_read_age_seconds',
    'Age of the reading of the queue; a long queue is read less often than it is scraped.',
  )
  const recipients = gauge(
    'tassis_queue_recipients',
    'Recipients whose mail waits, is scheduled or is in flight, by provider; unknown: not routed since the start.',
    ['provider'],
  )
  return async () => {
    const state = await refresh()
    if (!state) return
    const { byProvider } = state
    const names = [...new Set([...listProviderLabels(sources), ...byProvider.keys()])]
    const now = clock.now()
    setAll(
      recipients,
      names.map((provider) => [{ provider }, byProvider.get(provider)?.waiting ?? 0]),
    )
    setAll(
      oldest,
      names.map((provider) => [
        { provider },
        Math.max(0, now - (byProvider.get(provider)?.firstAt ?? now)) / seconds(1),
      ]),
    )
    lanes.set(state.lanes)
    readAge.set((clock.monotonicMs() - state.readAtMs) / seconds(1))
  }
}

/** Returns a function that resolves with the last reading, the next one if it comes soon; undefined before the first. */
function createQueueReader({ opened: { app }, delivery }: MetricSources): () => Promise<QueueState | undefined> {
  const readLanes = getLaneReader(app)
  let lanes: readonly OpenLane[] | undefined
  let state: QueueState | undefined
  const read = async (): Promise<void> => {
    const current = await readLanes()
    if (current === lanes) return
    lanes = current
    state = await sumByProvider(current, delivery(), app.clock.monotonicMs())
  }
  return async () => {
    const reading = read().catch((error: unknown) => app.log.warn({ err: error }, 'queue not read for metrics'))
    await Promise.race([reading, app.clock.sleep(MAX_READ_WAIT_MS)])
    return state
  }
}

async function sumByProvider(
  lanes: readonly OpenLane[],
  delivery: RunningDelivery | undefined,
  readAtMs: number,
): Promise<QueueState> {
  const byProvider = new Map<string, { waiting: number; firstAt: number }>()
  const findProvider = delivery?.scheduler.createProviderFinder()
  for (const [index, { lane, waiting, firstAt }] of lanes.entries()) {
    if (index > 0 && index % LANES_PER_TICK === 0) await yieldToEventLoop()
    const provider = findProvider?.(lane) ?? UNROUTED
    const sum = byProvider.get(provider)
    if (sum) {
      sum.waiting += waiting
      sum.firstAt = Math.min(sum.firstAt, firstAt)
    } else byProvider.set(provider, { waiting, firstAt })
  }
  return { readAtMs, lanes: lanes.length, byProvider }
}

/** The providers to which the service sends or has sent lately; one without waiting mail has a 0. */
const listProviderLabels = ({ delivery }: MetricSources): string[] =>
  delivery()
    ?.scheduler.pairs.all()
    .map(({ provider }) => labelProvider(provider)) ?? []

export const collectProviders: Collector = ({ gauge }, sources) => {
  const labelNames = ['provider'] as const
  const inFlight = gauge('tassis_deliveries_in_flight', 'Messages being delivered now, by provider.', labelNames)
  const factor = gauge(
    'tassis_provider_rate_factor',
    'Fraction of the limits in use, by provider: the lowest of all our addresses; 1: not slowed down.',
    labelNames,
  )
  const stalled = gauge(
    'tassis_queue_stalled_lanes',
    'Queues whose due mail makes no progress although nothing known holds it.',
  )
  const alerts = gauge(
    'tassis_reputation_alerts',
    'Kinds of replies of the last day that reject mail because of our IP or set-up, by provider and category.',
    ['provider', 'category'],
  )
  const suspensions = gauge(
    'tassis_provider_suspensions',
    'Our outgoing addresses from which nothing is sent to the provider now, because it rejected our mail.',
    labelNames,
  )
  return () => {
    const scheduler = sources.delivery()?.scheduler
    if (!scheduler) return
    const found = new Map<string, { suspended: number; inFlight: number; factor: number }>()
    for (const { provider, state, slots } of scheduler.pairs.all()) {
      const label = labelProvider(provider)
      const sum = found.get(label) ?? { suspended: 0, inFlight: 0, factor: 1 }
      found.set(label, sum)
      if (state.suspension) sum.suspended++
      sum.inFlight += slots.inFlight
      sum.factor = Math.min(sum.factor, state.factor)
    }
    for (const gauge of [suspensions, inFlight, factor]) gauge.reset()
    for (const [provider, sum] of found) {
      suspensions.set({ provider }, sum.suspended)
      inFlight.set({ provider }, sum.inFlight)
      factor.set({ provider }, sum.factor)
    }
    stalled.set(scheduler.stalledLanes)
    alerts.reset()
    for (const { provider, isNamed, category } of scheduler.alerts.list())
      alerts.inc({ provider: isNamed ? provider : 'other', category })
  }
}

export const collectWebhooks: Collector = ({ gauge }, { opened: { app } }) => {
  const deactivated = gauge('tassis_webhooks_deactivated', 'Webhooks that consecutive failures deactivated.')
  const waiting = gauge('tassis_webhook_deliveries_waiting', 'Webhook deliveries that wait for another attempt.')
  return () => {
    const counts = countWaitingWebhooks(app.db)
    waiting.set(counts.waiting)
    deactivated.set(counts.off_by_failures)
  }
}

export const collectInbound: Collector = ({ gauge }, { opened: { app }, inbound }) => {
  const oldest = gauge(
    'tassis_inbound_queue_oldest_seconds',
    'Age of the oldest incoming message that is accepted and not processed yet; 0: there is none.',
  )
  const sessions = gauge('tassis_inbound_sessions', 'Open SMTP sessions of incoming mail, up to 10 seconds ago.')
  const messages = gauge('tassis_inbound_queue_messages', 'Incoming messages that are accepted and not processed yet.')
  return () => {
    const now = app.clock.now()
    messages.set(countQueueEntries(app.db))
    oldest.set(Math.max(0, now - (findOldestEntryTime(app.db) ?? now)) / seconds(1))
    sessions.set(inbound()?.sessions() ?? 0)
  }
}

export const collectSubmission: Collector = ({ counter, gauge }, { submission }) => {
  const failedLogins = counter('tassis_submission_failed_logins_total', 'Failed logins of SMTP submission.')
  const sessions = gauge('tassis_submission_sessions', 'Open SMTP sessions of submission, up to 10 seconds ago.')
  const messages = counter(
    'tassis_submission_messages_total',
    'Messages submitted by SMTP, by outcome: accepted, deferred (4xx) or rejected (5xx).',
    ['outcome'],
  )
  return () => {
    const stats = submission()?.stats()
    messages.reset()
    for (const outcome of ['accepted', 'deferred', 'rejected'] as const)
      messages.inc({ outcome }, stats?.[outcome] ?? 0)
    failedLogins.reset()
    failedLogins.inc(stats?.failed_logins ?? 0)
    sessions.set(stats?.sessions ?? 0)
  }
}
