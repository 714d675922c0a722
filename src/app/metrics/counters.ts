/** @module The metrics that count what happens: the sink of `App.metrics`, with prom-client. */
import { Counter, Histogram, type Registry } from 'prom-client'
import type { Metrics } from '#features/core/app/metrics.ts'
import { seconds } from '#platform/units.ts'
import { COUNTED } from './table.ts'

type CountedName = keyof typeof COUNTED

/** From a fast commit to one that clients notice. */
const COMMIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** From a local server to the time limits of RFC 5321 §4.5.3.2. */
const ATTEMPT_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]
/** Up to the time limit of a webhook. */
const WEBHOOK_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Up to what a client takes for an outage. */
const DELAY_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

const createHistogram = <L extends string>(registry: Registry, name: CountedName, buckets: number[], label?: L) =>
  new Histogram<L>({ name, help: COUNTED[name], buckets, labelNames: label ? [label] : [], registers: [registry] })

/** Registers the delay of the event loop; returns the function that observes it. */
export function createDelayHistogram(registry: Registry): (lateSeconds: number) => void {
  const delay = createHistogram(registry, 'tassis_event_loop_delay_seconds', DELAY_BUCKETS)
  return (lateSeconds) => delay.observe(lateSeconds)
}

export function createCounters(registry: Registry): Metrics {
  const counter = <L extends string>(name: CountedName, ...labelNames: readonly L[]) =>
    new Counter<L>({ name, help: COUNTED[name], labelNames, registers: [registry] })
  const emails = counter('tassis_emails_accepted_total', 'kind')
  const recipients = counter('tassis_recipients_accepted_total', 'kind')
  const events = counter('tassis_events_total', 'type')
  const attempts = counter('tassis_delivery_attempts_total', 'provider', 'outcome', 'category')
  const attemptSeconds = createHistogram(registry, 'tassis_delivery_attempt_seconds', ATTEMPT_BUCKETS, 'provider')
  const commitSeconds = createHistogram(registry, 'tassis_commit_seconds', COMMIT_BUCKETS, 'store')
  const commitWrites = counter('tassis_commit_writes_total', 'store')
  const responses = counter('tassis_http_responses_total', 'code')
  const webhooks = counter('tassis_webhook_attempts_total', 'outcome')
  const webhookSeconds = createHistogram(registry, 'tassis_webhook_attempt_seconds', WEBHOOK_BUCKETS)
  const inboundRecipients = counter('tassis_inbound_recipients_total', 'code')
  const inboundMessages = counter('tassis_inbound_messages_total', 'outcome')
  const lines = counter('tassis_log_lines_total', 'level')
  // Present from the start, because an alert on a rise needs a value before it.
  for (const kind of ['single', 'broadcast', 'sandbox'])
    for (const counter of [emails, recipients]) counter.inc({ kind }, 0)
  for (const outcome of ['delivered', 'transient', 'permanent']) webhooks.inc({ outcome }, 0)
  for (const outcome of ['accepted', 'deferred']) inboundMessages.inc({ outcome }, 0)
  for (const level of ['warn', 'error', 'fatal']) lines.inc({ level }, 0)
  return {
    emailAccepted(kind, count) {
      emails.inc({ kind })
      recipients.inc({ kind }, count)
    },
    eventsRecorded: (type, count) => events.inc({ type }, count),
    attemptEnded(provider, outcome, category = '', durationMs) {
      if (outcome === 'unsent') return
      attempts.inc({ provider, outcome, category })
      if (durationMs !== undefined) attemptSeconds.observe({ provider }, Math.max(0, durationMs) / seconds(1))
    },
    groupCommitted(store, writes, durationMs) {
      commitSeconds.observe({ store }, durationMs / seconds(1))
      commitWrites.inc({ store }, writes)
    },
    responseSent: (status) => responses.inc({ code: String(status) }),
    webhookAttempted(outcome, durationMs) {
      webhooks.inc({ outcome })
      webhookSeconds.observe(durationMs / seconds(1))
    },
    recipientDecided: (code) => inboundRecipients.inc({ code: String(code) }),
    messageReceived: (outcome) => inboundMessages.inc({ outcome }),
    lineLogged: (level) => lines.inc({ level }),
  }
}
