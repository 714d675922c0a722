/** @module The metrics that count what happens: the sink of `App.metrics`, with prom-client. */
import type { Metrics } from '#features/core/app/metrics.ts'
import { seconds } from '#platform/units.ts'
import type { MetricFactory } from './sources.ts'

/** From a fast commit to one that clients notice. */
const COMMIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** From a local server to the time limits of RFC 5321 §4.5.3.2. */
const ATTEMPT_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]
/** Up to the time limit of a webhook. */
const WEBHOOK_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export function createCounters({ counter, histogram }: MetricFactory): Metrics {
  const emails = counter(
    'tassis_emails_accepted_total',
    'Emails accepted and stored on disk, by kind: single, broadcast, or sandbox (captured, never sent).',
    ['kind'],
  )
  const recipients = counter(
    'tassis_recipients_accepted_total',
    'Recipients of the accepted emails, by the same kinds.',
    ['kind'],
  )
  const events = counter('tassis_events_total', 'Events of all accounts, by type as in the API.', ['type'])
  const attempts = counter(
    'tassis_delivery_attempts_total',
    'Attempts to deliver to a recipient, by provider, outcome, and category of the bounce or deferral.',
    ['provider', 'outcome', 'category'],
  )
  const attemptSeconds = histogram(
    'tassis_delivery_attempt_seconds',
    'Duration of an attempt, from its start in a Worker (composing, signing, connecting) to the reply.',
    ATTEMPT_BUCKETS,
    ['provider'],
  )
  const commitSeconds = histogram(
    'tassis_commit_seconds',
    'Duration of a group commit, from its first write to the end of its sync to disk, by database.',
    COMMIT_BUCKETS,
    ['store'],
  )
  const commitWrites = counter('tassis_commit_writes_total', 'Writes in the group commits, by database.', ['store'])
  const responses = counter('tassis_http_responses_total', 'Responses of the HTTP API and its pages, by status code.', [
    'code',
  ])
  const webhooks = counter(
    'tassis_webhook_attempts_total',
    'Attempts to call webhooks, by outcome: delivered, transient (retried later) or permanent (rejected).',
    ['outcome'],
  )
  const webhookSeconds = histogram(
    'tassis_webhook_attempt_seconds',
    'Duration of an attempt to call a webhook.',
    WEBHOOK_BUCKETS,
  )
  const inboundRecipients = counter(
    'tassis_inbound_recipients_total',
    'Recipients of incoming mail (RCPT), by code of the reply: 250 or that of the rejection.',
    ['code'],
  )
  const inboundMessages = counter(
    'tassis_inbound_messages_total',
    'Incoming messages, by outcome: accepted and stored on disk, or deferred because storing failed.',
    ['outcome'],
  )
  const lines = counter('tassis_log_lines_total', 'Lines of the log, by level.', ['level'])
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
