/**
 * @module Every recurring task and its schedule, and every background loop outside the mail queue. A task that is still
 * running at its next time is not started again. A failed task is logged and runs again at its next time, or after a
 * minute if a full disk or a lock was the cause.
 */
import { Cron } from 'croner'
import { removeDeletedLists } from '#features/audience/contact-lists/contacts.ts'
import { startImporter } from '#features/audience/contact-lists/importer.ts'
import { createSubscriptionKinds } from '#features/audience/contact-lists/subscription-notices.ts'
import { createSequenceKinds } from '#features/audience/sequences/run.ts'
import type { App } from '#features/core/app/app.ts'
import { startSweeper } from '#features/core/content-gc/sweep.ts'
import { startNotices } from '#features/core/notices/notices.ts'
import { startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { startErasureLoop } from '#features/lifecycle/privacy/erase.ts'
import { dropRawMail, purgeExpired, runRetention } from '#features/lifecycle/retention/run.ts'
import { reconcileAll } from '#features/people/billing/reconcile.ts'
import { DRAFT_NOTICE } from '#features/people/owner-notices/drafts.ts'
import { createOwnerKind } from '#features/people/owner-notices/owner-notices.ts'
import { endOldGrants } from '#features/people/team/oauth/grants.ts'
import { removeDeletedMailboxes } from '#features/receiving/agent-mailboxes/removal.ts'
import { REPORTS_NOTICE, watchReports } from '#features/receiving/domain-reports/alerts.ts'
import { purgeReports } from '#features/receiving/domain-reports/store.ts'
import { FORWARD_NOTICE } from '#features/receiving/inbound/process/forward.ts'
import { purgeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { startContentWatch } from '#features/reporting/abuse/content-watch.ts'
import { PAUSE_NOTICE } from '#features/reporting/abuse/pause.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { askGoogle, askSnds } from '#features/reporting/sender-rules/receiver-data.ts'
import { startEnqueuer } from '#features/sending/broadcasts/enqueue.ts'
import { startDeadlineLoop } from '#features/sending/delivery/attempt/claim.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/verdict/held-mail.ts'
import { removeDeletedDomains } from '#features/sending/emails/delete-domain.ts'
import { cancelOldDrafts } from '#features/sending/emails/scheduled.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { startEmailIndexing } from '#features/sending/queue/search.ts'
import { publishAutomatically } from '#features/setup/dns-publish/auto-publish.ts'
import { LOSS_NOTICE, ROTATION_NOTICE } from '#features/setup/domains/notices.ts'
import { recheckDomains } from '#features/setup/domains/verify.ts'
import { removeOrphanedRoutes } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { DEACTIVATION_NOTICE } from '#features/webhooks/webhooks/deliver/outcome.ts'
import { purgeWebhookHistory } from '#features/webhooks/webhooks/manage/pending.ts'
import { isTransientError } from '#platform/disk/storage-errors.ts'
import type { DueLoop } from '#platform/queue/due-loop.ts'
import type { Config } from '#platform/settings/config.ts'
import { sleepUntilAborted } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import { runMissedBackup, runScheduledBackup, toPatterns } from './backup/scheduled.ts'
import { isBackupScheduled } from './backup/state.ts'
import type { OpenedApp } from './create.ts'
import { continueRotation } from './master-key.ts'

/** Delay before a task is retried after a transient error, because its next scheduled time may be tomorrow. */
const RETRY_DELAY_MS = minutes(1)

/** Delay of a missed backup after the start, so that a service that restarts again and again does not back up each time. */
const MISSED_BACKUP_DELAY_MS = minutes(5)

type Run = (opened: OpenedApp, signal: AbortSignal) => Promise<unknown>

/** The pattern: second, minute, hour, day, month, weekday; UTC. */
type Schedule = readonly [name: string, pattern: string, run: Run]

const SCHEDULES: readonly Schedule[] = [
  ['store last use of API keys', '10 * * * * *', ({ authenticator }) => authenticator.flushLastUsed()],
  [
    'store progress of the instance',
    '*/10 * * * * *',
    ({ app, instance }) => instance.renew(app.clock.now(), () => app.commit.barrier()),
  ],
  ['end old grants', '0 42 * * * *', ({ app }) => endOldGrants(app)],
  ['purge captured mail', '40 * * * * *', ({ captures }) => captures.purge()],
  ['recheck domains', '20 * * * * *', ({ app }, signal) => recheckDomains(app, signal)],
  ['publish DNS records', '5 * * * * *', ({ app }, signal) => publishAutomatically(app, signal)],
  ['re-seal under the newest master key', '15 * * * * *', ({ app }, signal) => continueRotation(app, signal)],
  ['purge webhook history', '0 17 * * * *', ({ app }) => purgeWebhookHistory(app)],
  ['delete expired raw mail', '0 27 * * * *', ({ app }) => dropRawMail(app)],
  ['purge operator mail', '0 47 * * * *', ({ app }) => purgeOperatorMail(app)],
  ['delete expired rows', '0 52 * * * *', ({ app }, signal) => purgeExpired(app, signal)],
  ['purge domain reports', '0 57 * * * *', ({ app }) => purgeReports(app)],
  ['judge domain reports', '0 7 * * * *', ({ app }, signal) => watchReports(app, signal)],
  ['run retention', '0 12 * * * *', ({ app }, signal) => runRetention(app, signal)],
  ['cancel old drafts', '0 22 * * * *', ({ app }, signal) => cancelOldDrafts(app, signal)],
  ['remove deleted mailboxes', '30 * * * * *', ({ app }) => removeDeletedMailboxes(app)],
  ['remove contacts of deleted lists', '50 * * * * *', ({ app }, signal) => removeDeletedLists(app, signal)],
  ['reconcile subscriptions', '0 13 4 * * *', ({ app }, signal) => reconcileAll(app, signal)],
  ['ask Google Postmaster Tools', '0 43 * * * *', ({ app }, signal) => askGoogle(app, signal)],
  ['ask Microsoft SNDS', '0 44 * * * *', ({ app }, signal) => askSnds(app, signal)],
  ['remove deleted domains', '0 37 * * * *', ({ app }) => removeDeletedDomains(app)],
  ['remove routes of deleted domains', '30 37 * * * *', ({ app }) => removeOrphanedRoutes(app)],
]

/** The backups at the times of day that the settings name; none without a place to write them. */
const listBackupSchedules = (config: Config): Schedule[] =>
  isBackupScheduled(config) ? toPatterns(config).map((pattern) => ['back up', pattern, runScheduledBackup]) : []

/** Starts all tasks. `stop` starts no further task, aborts running tasks that can be aborted and waits for the rest. */
export function startSchedules(opened: OpenedApp): { stop(): Promise<void> } {
  const { log, clock } = opened.app
  const shutdown = new AbortController()
  const running = new Set<Promise<void>>()
  const runOnce = async (name: string, run: Run) => {
    for (;;) {
      try {
        await run(opened, shutdown.signal)
        return
      } catch (error) {
        log.error({ err: error, task: name }, 'recurring task failed')
        if (!isTransientError(error)) return
      }
      await sleepUntilAborted(clock, RETRY_DELAY_MS, shutdown.signal)
      if (shutdown.signal.aborted) return
    }
  }
  const start = (name: string, run: Run): Promise<void> => {
    const task = runOnce(name, run)
    running.add(task)
    return task.finally(() => void running.delete(task))
  }
  const crons = [...SCHEDULES, ...listBackupSchedules(opened.app.config)].map(
    ([name, pattern, run]) =>
      new Cron(pattern, { timezone: 'UTC', protect: true, unref: true }, () => start(name, run)),
  )
  const missed = clock.after(MISSED_BACKUP_DELAY_MS, () => {
    void start('write the missed backup', runMissedBackup)
  })
  return {
    async stop() {
      for (const cron of crons) cron.stop()
      missed.cancel()
      shutdown.abort()
      await Promise.all(running)
    },
  }
}

const OWNER_NOTICES = [PAUSE_NOTICE, DEACTIVATION_NOTICE, FORWARD_NOTICE, LOSS_NOTICE, ROTATION_NOTICE, REPORTS_NOTICE]

const LOOPS: readonly ((app: App) => DueLoop)[] = [
  (app) =>
    startNotices(app, [
      ...createSubscriptionKinds(app),
      ...createSequenceKinds(app),
      ...[...OWNER_NOTICES, DRAFT_NOTICE].map((notice) => createOwnerKind(app, notice)),
    ]),
  startImporter,
  startSweeper,
  startAccountRemoval,
  startErasureLoop,
  startHeldMailReleaser,
  startDeadlineLoop,
  startAbuseWatch,
  startContentWatch,
  startEmailIndexing,
]

/**
 * Starts all loops. A loop is woken by a signal of `App`, and also runs once a minute; after a restart, it continues where
 * it stopped. `stop` prevents new work and waits for running work.
 * @param broadcastAhead emails of a broadcast in the mail queue, for tests
 */
export function startBackground(app: App, broadcastAhead?: number): { stop(): Promise<void> } {
  const loops = [...LOOPS.map((start) => start(app)), startEnqueuer(app, followBroadcast, broadcastAhead)]
  return {
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
