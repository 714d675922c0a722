/**
 * @module /v1/operator/disk: the use of the disk, which a Worker measures, because that reads the whole database; and
 * /v1/operator/retention/run.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { showView } from '#features/core/audit-logs/audit.ts'
import { commandsOnly } from '#platform/http/access.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import { Count, DataBody } from '#platform/http/schemas.ts'
import { askWorker } from '#platform/process/workers.ts'
import { createPacedReader } from '#platform/queue/paced-reader.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type DiskUse, readFileSystem } from './disk.ts'
import { ServerDisk } from './disk-model.ts'
import type { MeasureRequest } from './measure-worker.ts'
import { runRetention } from './run.ts'

const MIN_INTERVAL_MS = minutes(1)
/** How long a request waits for a measurement; most databases take less. */
const WAIT_MS = seconds(2)

const RemovedCounts = Type.Object({
  content: Count('Emails that lost their content.'),
  events: Count('Events that were deleted.'),
  inbound: Count('Received messages that were deleted.'),
  logs: Count('Emails that were deleted.'),
  audit: Count('Entries of the audit log that were deleted.'),
})

export const operatorDiskRoutes = (app: App) => {
  const { clock, config, log } = app
  /** The last measurement; undefined while the first one runs, or when it failed. */
  let usage: DiskUse | undefined
  const measure = createPacedReader(clock, MIN_INTERVAL_MS, async () => {
    try {
      usage = await askWorker<DiskUse>('measure', { wanted: 'use', config, now: clock.now() } satisfies MeasureRequest)
    } catch (error) {
      log.warn({ err: error }, 'disk use not measured')
    }
  })
  return new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/disk',
      showView(app, 'disk', async () => {
        const isMeasuring = await Promise.race([measure().then(() => false), clock.sleep(WAIT_MS).then(() => true)])
        return {
          read_at: isoTime(clock.now()),
          file_system: readFileSystem(config),
          is_measuring: isMeasuring,
          use: usage ?? null,
        }
      }),
      {
        response: DataBody(ServerDisk),
        detail: operatorRoute(
          'Get the use of the disk, and what is deleted next',
          'Measuring reads the whole database, so the use is measured only while an operator looks, at most once a minute, and less often the longer it takes.',
        ),
      },
    )
    .post('/retention/run', async () => dataBody(await runRetention(app)), {
      response: DataBody(RemovedCounts),
      detail: {
        ...operatorRoute(
          'Delete what is beyond its retention or size limit',
          'As the service does every hour; responds when it is done.',
        ),
        ...commandsOnly,
      },
    })
}
