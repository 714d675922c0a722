/** @module Metrics of webhooks, incoming mail and submission. */
import { Counter, Gauge } from 'prom-client'
import { countQueueEntries, findOldestEntryTime } from '#features/receiving/inbound/process/queue.ts'
import { seconds } from '#platform/units.ts'
import { countWebhooks } from '../operator/queue.ts'
import type { Collector } from './sources.ts'

export const collectWebhooks: Collector = (registry, { opened: { app } }) => {
  const registers = [registry]
  const deactivated = new Gauge({
    name: 'tassis_webhooks_deactivated',
    help: 'Webhooks that consecutive failures deactivated.',
    registers,
  })
  const waiting = new Gauge({
    name: 'tassis_webhook_deliveries_waiting',
    help: 'Webhook deliveries that wait for another attempt.',
    registers,
  })
  return () => {
    const counts = countWebhooks(app.db)
    waiting.set(counts.waiting)
    deactivated.set(counts.off_by_failures)
  }
}

export const collectInbound: Collector = (registry, { opened: { app }, inbound }) => {
  const registers = [registry]
  const oldest = new Gauge({
    name: 'tassis_inbound_queue_oldest_seconds',
    help: 'Age of the oldest incoming message that is accepted and not processed yet; 0: there is none.',
    registers,
  })
  const sessions = new Gauge({
    name: 'tassis_inbound_sessions',
    help: 'Open SMTP sessions of incoming mail, up to 10 seconds ago.',
    registers,
  })
  const messages = new Gauge({
    name: 'tassis_inbound_queue_messages',
    help: 'Incoming messages that are accepted and not processed yet.',
    registers,
  })
  return () => {
    const now = app.clock.now()
    messages.set(countQueueEntries(app.db))
    oldest.set(Math.max(0, now - (findOldestEntryTime(app.db) ?? now)) / seconds(1))
    sessions.set(inbound()?.sessions() ?? 0)
  }
}

export const collectSubmission: Collector = (registry, { submission }) => {
  const registers = [registry]
  const failedLogins = new Counter({
    name: 'tassis_submission_failed_logins_total',
    help: 'Failed logins of SMTP submission.',
    registers,
  })
  const sessions = new Gauge({
    name: 'tassis_submission_sessions',
    help: 'Open SMTP sessions of submission, up to 10 seconds ago.',
    registers,
  })
  const messages = new Counter({
    name: 'tassis_submission_messages_total',
    help: 'Messages submitted by SMTP, by outcome: accepted, deferred (4xx) or rejected (5xx).',
    labelNames: ['outcome'],
    registers,
  })
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
