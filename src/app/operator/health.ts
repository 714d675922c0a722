/** @module The state of the whole service for its operator. */
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { findContentProblem } from '#features/sending/delivery/verdict/held-mail.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { findBackupProblems } from '../backup/state.ts'
import { findSettingWarnings } from '../cli/setting-warnings.ts'
import type { OperatorContext } from './context.ts'
import { readFileSystem } from './disk.ts'
import type { LaneReader } from './lane-reader.ts'
import type { ServerHealth } from './model.ts'
import { countWebhooks } from './queue.ts'

const sql = prepareStatements((db) => ({
  accounts: db.prepare<{ total: number; paused: number }, []>(
    'SELECT COUNT(*) AS total, COUNT(paused_at) AS paused FROM accounts WHERE deleted_at IS NULL',
  ),
}))

export function createHealthReader(
  { opened: { app, sourceNames }, delivery, submission, isStopping, version }: OperatorContext,
  readLanes: LaneReader,
): () => Promise<ServerHealth> {
  const readiness = createReadiness(app, isStopping)
  const startedAt = app.clock.now()
  return async () => {
    const problems = await readiness()
    const { config, db } = app
    const contentProblem = findContentProblem(db)
    const lanes = await readLanes()
    const webhooks = countWebhooks(db)
    const submissionAddrs = [config.submissionAddr, config.submissionTlsAddr].filter((addr) => addr !== '')
    const running = submission()
    return {
      read_at: isoTime(app.clock.now()),
      version,
      started_at: isoTime(startedAt),
      hostname: config.hostname,
      public_url: config.publicUrl,
      delivery: config.delivery,
      is_delivering: delivery() !== undefined,
      inbound_addr: config.inboundAddr === '' ? null : config.inboundAddr,
      submission: submissionAddrs.length === 0 || !running ? null : { addrs: submissionAddrs, ...running.stats() },
      problems: problems.map(({ field, message }) => ({ field, message })),
      warnings: [
        ...findSettingWarnings(config),
        ...sourceNames.problems(),
        ...findBackupProblems(config, db, app.clock.now()),
        ...(contentProblem === undefined ? [] : [contentProblem]),
      ],
      memory_bytes: process.memoryUsage.rss(),
      disk: readFileSystem(config),
      queue: {
        waiting: lanes.reduce((sum, { waiting }) => sum + waiting, 0),
        lanes: lanes.length,
        in_flight: delivery()?.scheduler.inFlight ?? 0,
        stalled: delivery()?.scheduler.stalledLanes ?? 0,
        first_due_at: lanes[0] ? isoTime(lanes[0].firstAt) : null,
      },
      received: countQueueEntries(db),
      webhooks: { waiting: webhooks.waiting, deactivated: webhooks.off_by_failures },
      accounts: sql(db).accounts.get() ?? { total: 0, paused: 0 },
    }
  }
}
