/** @module Metrics of webhooks, incoming mail and submission. */
import { countQueueEntries, findOldestEntryTime } from '#features/receiving/inbound/process/queue.ts'
import { countWaitingWebhooks } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { seconds } from '#platform/units.ts'
import type { Collector } from './sources.ts'

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
