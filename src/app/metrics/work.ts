/** @module Metrics of webhooks, incoming mail and submission. */
import { Counter, Gauge } from 'prom-client'
import { countQueueEntries, findOldestEntryTime } from '#features/receiving/inbound/queue-entries.ts'
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
  new Gauge({
    name: 'tassis_webhook_deliveries_waiting',
    help: 'Webhook deliveries that wait for another attempt.',
    registers,
    collect() {
      const { waiting, off_by_failures: off } = countWebhooks(app.db)
      this.set(waiting)
      deactivated.set(off)
    },
  })
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
  new Gauge({
    name: 'tassis_inbound_queue_messages',
    help: 'Incoming messages that are accepted and not processed yet.',
    registers,
    collect() {
      const now = app.clock.now()
      this.set(countQueueEntries(app.db))
      oldest.set(Math.max(0, now - (findOldestEntryTime(app.db) ?? now)) / seconds(1))
      sessions.set(inbound()?.sessions() ?? 0)
    },
  })
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
  new Counter({
    name: 'tassis_submission_messages_total',
    help: 'Messages submitted by SMTP, by outcome: accepted, deferred (4xx) or rejected (5xx).',
    labelNames: ['outcome'],
    registers,
    collect() {
      const {
        sessions: open = 0,
        accepted = 0,
        deferred = 0,
        rejected = 0,
        failed_logins = 0,
      } = submission()?.stats() ?? {}
      this.reset()
      for (const [outcome, count] of Object.entries({ accepted, deferred, rejected })) this.inc({ outcome }, count)
      failedLogins.reset()
      failedLogins.inc(failed_logins)
      sessions.set(open)
    },
  })
}
