/** @module The metrics that count what happens: the sink of `App.metrics`, with prom-client. */
import { Counter, Histogram, type Registry } from 'prom-client'
import type { Metrics } from '#features/core/app/metrics.ts'
import { seconds } from '#platform/units.ts'

/** From a fast commit to one that clients notice. */
const COMMIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10]
/** From a local server to the time limits of RFC 5321 §4.5.3.2. */
const ATTEMPT_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]
/** Up to the time limit of a webhook. */
const WEBHOOK_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Counted from the start of the process. */
export function createCounters(registry: Registry): Metrics {
  const registers = [registry]
  const emails = new Counter({
    name: 'tassis_emails_accepted_total',
    help: 'Emails accepted and stored on disk, by kind: single, broadcast, or sandbox (captured, never sent).',
    labelNames: ['kind'],
    registers,
  })
  const recipients = new Counter({
    name: 'tassis_recipients_accepted_total',
    help: 'Recipients of the accepted emails, by the same kinds.',
    labelNames: ['kind'],
    registers,
  })
  const events = new Counter({
    name: 'tassis_events_total',
    help: 'Events of all accounts, by type as in the API.',
    labelNames: ['type'],
    registers,
  })
  const attempts = new Counter({
    name: 'tassis_delivery_attempts_total',
    help: 'Attempts to deliver to a recipient, by provider, outcome, and category of the bounce or deferral.',
    labelNames: ['provider', 'outcome', 'category'],
    registers,
  })
  const attemptSeconds = new Histogram({
    name: 'tassis_delivery_attempt_seconds',
    help: 'Duration of an attempt, from its start in a Worker (composing, signing, connecting) to the reply.',
    labelNames: ['provider'],
    buckets: ATTEMPT_BUCKETS,
    registers,
  })
  const commitSeconds = new Histogram({
    name: 'tassis_commit_seconds',
    help: 'Duration of a group commit, from its first write to the end of its sync to disk, by database.',
    labelNames: ['store'],
    buckets: COMMIT_BUCKETS,
    registers,
  })
  const commitWrites = new Counter({
    name: 'tassis_commit_writes_total',
    help: 'Writes in the group commits, by database.',
    labelNames: ['store'],
    registers,
  })
  const responses = new Counter({
    name: 'tassis_http_responses_total',
    help: 'Responses of the HTTP API and its pages, by status code.',
    labelNames: ['code'],
    registers,
  })
  const webhooks = new Counter({
    name: 'tassis_webhook_attempts_total',
    help: 'Attempts to call webhooks, by outcome: delivered, transient (retried later) or permanent (rejected).',
    labelNames: ['outcome'],
    registers,
  })
  const webhookSeconds = new Histogram({
    name: 'tassis_webhook_attempt_seconds',
    help: 'Duration of an attempt to call a webhook.',
    buckets: WEBHOOK_BUCKETS,
    registers,
  })
  const inboundRecipients = new Counter({
    name: 'tassis_inbound_recipients_total',
    help: 'Recipients of incoming mail (RCPT), by code of the reply: 250 or that of the rejection.',
    labelNames: ['code'],
    registers,
  })
  const inboundMessages = new Counter({
    name: 'tassis_inbound_messages_total',
    help: 'Incoming messages, by outcome: accepted and stored on disk, or deferred because storing failed.',
    labelNames: ['outcome'],
    registers,
  })
  const lines = new Counter({
    name: 'tassis_log_lines_total',
    help: 'Lines of the log, by level.',
    labelNames: ['level'],
    registers,
  })
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
