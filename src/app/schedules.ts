/**
 * @module Every recurring task and its schedule. A task that is still running at its next time is not started again.
 * A failed task is logged and runs again at its next time, or after a minute if a full disk or a lock was the cause.
 */
import { Cron } from 'croner'
import { removeDeletedLists } from '#features/audience/contact-lists/remove.ts'
import { removeOrphanedForms } from '#features/audience/signup-forms/signup-forms.ts'
import { dropRawMail, purgeExpired } from '#features/lifecycle/retention/expired.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { reconcileAll } from '#features/people/billing/reconcile.ts'
import { removeDeletedMailboxes } from '#features/receiving/agent-mailboxes/removal.ts'
import { purgeReports } from '#features/receiving/domain-reports/store.ts'
import { purgeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { removeDeletedDomains } from '#features/sending/emails/delete-domain.ts'
import { sendTlsReports } from '#features/sending/transport-security/reports.ts'
import { recheckDomains } from '#features/setup/domains/recheck.ts'
import { removeOrphanedRoutes } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { purgeWebhookHistory } from '#features/webhooks/webhooks/manage/purge.ts'
import { ensureBallast } from '#platform/disk/ballast.ts'
import { isTransientError } from '#platform/disk/storage-errors.ts'
import type { Config } from '#platform/settings/config.ts'
import { minutes } from '#platform/units.ts'
import { runMissedBackup, runScheduledBackup, toPatterns } from './backup/scheduled.ts'
import { isBackupScheduled } from './backup/state.ts'
import type { OpenedApp } from './create.ts'
import { continueRotation } from './master-key.ts'

/** Delay before a task is retried after a transient error, because its next scheduled time may be tomorrow. */
const RETRY_DELAY_MS = minutes(1)

/** Delay of a missed backup after the start, so that a service that restarts again and again does not back up each time. */
const MISSED_BACKUP_DELAY_MS = minutes(5)

interface Schedule {
  readonly name: string
  /** Cron pattern: second, minute, hour, day, month, weekday; UTC. */
  readonly pattern: string
  run(opened: OpenedApp, signal: AbortSignal): Promise<unknown>
}

const SCHEDULES: readonly Schedule[] = [
  {
    name: 'store last use of API keys',
    pattern: '10 * * * * *',
    run: ({ authenticator }) => authenticator.flushLastUsed(),
  },
  {
    name: 'store progress of the instance',
    pattern: '*/10 * * * * *',
    run: ({ app, instance }) => instance.renew(app.clock.now(), () => app.commit.barrier()),
  },
  { name: 'purge captured mail', pattern: '40 * * * * *', run: ({ captures }) => captures.purge() },
  { name: 'recheck domains', pattern: '20 * * * * *', run: ({ app }, signal) => recheckDomains(app, signal) },
  {
    name: 're-seal under the newest master key',
    pattern: '15 * * * * *',
    run: ({ app }, signal) => continueRotation(app, signal),
  },
  { name: 'purge webhook history', pattern: '0 17 * * * *', run: ({ app }) => purgeWebhookHistory(app) },
  {
    name: 'delete expired raw mail',
    pattern: '0 27 * * * *',
    run: ({ app }) => dropRawMail(app),
  },
  { name: 'purge operator mail', pattern: '0 47 * * * *', run: ({ app }) => purgeOperatorMail(app) },
  { name: 'send TLS reports', pattern: '0 22 * * * *', run: ({ app }, signal) => sendTlsReports(app, signal) },
  { name: 'delete expired rows', pattern: '0 52 * * * *', run: ({ app }, signal) => purgeExpired(app, signal) },
  { name: 'purge domain reports', pattern: '0 57 * * * *', run: ({ app }) => purgeReports(app) },
  { name: 'run retention', pattern: '0 12 * * * *', run: ({ app }, signal) => runRetention(app, signal) },
  { name: 'remove deleted mailboxes', pattern: '30 * * * * *', run: ({ app }) => removeDeletedMailboxes(app) },
  {
    name: 'remove contacts of deleted lists',
    pattern: '50 * * * * *',
    run: ({ app }, signal) => removeDeletedLists(app, signal),
  },
  { name: 'reconcile subscriptions', pattern: '0 13 4 * * *', run: ({ app }, signal) => reconcileAll(app, signal) },
  {
    name: 'restore disk ballast',
    pattern: '5 * * * * *',
    run: ({ app }) => ensureBallast(app.config.dataDir, app.disk),
  },
  { name: 'remove deleted domains', pattern: '0 37 * * * *', run: ({ app }) => removeDeletedDomains(app) },
  { name: 'remove routes of deleted domains', pattern: '30 37 * * * *', run: ({ app }) => removeOrphanedRoutes(app) },
  { name: 'remove forms of deleted lists', pattern: '45 37 * * * *', run: ({ app }) => removeOrphanedForms(app) },
]

/** The backups at the times of day that the settings name; none without a place to write them. */
const listBackupSchedules = (config: Config): Schedule[] =>
  isBackupScheduled(config)
    ? toPatterns(config).map((pattern) => ({ name: 'back up', pattern, run: runScheduledBackup }))
    : []

/** Starts all tasks. `stop` starts no further task, aborts running tasks that can be aborted and waits for the rest. */
export function startSchedules(opened: OpenedApp): { stop(): Promise<void> } {
  const { log, clock } = opened.app
  const shutdown = new AbortController()
  const ended = new Promise((resolve) => shutdown.signal.addEventListener('abort', resolve, { once: true }))
  const running = new Set<Promise<void>>()
  const runOnce = async ({ name, run }: Omit<Schedule, 'pattern'>) => {
    for (;;) {
      try {
        await run(opened, shutdown.signal)
        return
      } catch (error) {
        log.error({ err: error, task: name }, 'recurring task failed')
        if (!isTransientError(error)) return
      }
      await Promise.race([clock.sleep(RETRY_DELAY_MS), ended])
      if (shutdown.signal.aborted) return
    }
  }
  const start = (schedule: Omit<Schedule, 'pattern'>): Promise<void> => {
    const task = runOnce(schedule)
    running.add(task)
    return task.finally(() => void running.delete(task))
  }
  const crons = [...SCHEDULES, ...listBackupSchedules(opened.app.config)].map(
    (schedule) => new Cron(schedule.pattern, { timezone: 'UTC', protect: true, unref: true }, () => start(schedule)),
  )
  const missed = clock.after(MISSED_BACKUP_DELAY_MS, () => {
    void start({ name: 'write the missed backup', run: runMissedBackup })
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
