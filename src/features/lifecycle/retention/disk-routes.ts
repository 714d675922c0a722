/**
 * @module /v1/operator/disk: the use of the disk, which a Worker measures, because that reads the whole database; and
 * /v1/operator/retention/run.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { showView } from '#features/core/audit-logs/audit.ts'
import { commandsOnly } from '#platform/http/access.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import {
  Bytes,
  Count,
  CountOrNull,
  DataBody,
  Nullable,
  Part,
  Text,
  TimeOrNull,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { askWorker } from '#platform/process/workers.ts'
import { createPacedReader } from '#platform/queue/paced-reader.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type DiskUse, readFileSystem } from './disk.ts'
import type { MeasureRequest } from './measure-worker.ts'
import { runRetention } from './run.ts'

const MIN_INTERVAL_MS = minutes(1)
/** How long a request waits for a measurement; most databases take less. */
const WAIT_MS = seconds(2)

export const FILE_SYSTEM_FIELDS = {
  size_bytes: Bytes('Size of the file system of the data directory'),
  free_bytes: Bytes('Free space'),
  wanted_free_bytes: Bytes('New mail is refused when less is free'),
}

const MonthBytes = Type.Object({
  month: Text('Month, such as 2026-11.'),
  bytes: Bytes('Size of its files'),
  free_bytes: Bytes('Free space in them'),
})
const AccountUsage = Type.Object({
  id: Uuid({ description: 'Id of the account.' }),
  name: Text('Name of the account.'),
  used_bytes: Bytes('What it uses'),
  kept_bytes: Bytes('Of this, what is deleted only for its age'),
  share_bytes: CountOrNull('Its fair share in bytes; null: it uses no more than that.'),
  goes_before: TimeOrNull('The next run deletes its data from before this time; null: it deletes none.'),
})
const KindUsage = Type.Object({
  kind: Text('content, events, inbound, logs or audit.'),
  used_bytes: Bytes('What is used'),
  max_bytes: CountOrNull('Limit in bytes; null: none.'),
  max_days: Count('How many days it is retained.'),
  oldest_at: TimeOrNull('Time of the oldest that can be deleted; null: there is none.'),
  goes_at: TimeOrNull('When the oldest is deleted for its age.'),
  over_before: TimeOrNull('Over its limit: the next run deletes data from before this time; null: it is not.'),
  accounts: Type.Array(AccountUsage, { description: 'The accounts that use most, and all above their share.' }),
})
const Use = Type.Object({
  at: Timestamp({ description: 'When it was measured.' }),
  data_dir: Text('The data directory.'),
  total_bytes: Bytes('Size of the data directory'),
  database: Part('The database.', {
    file_bytes: Bytes('Size of the file'),
    wal_bytes: Bytes('Size of the write-ahead log'),
    free_bytes: Bytes('Free pages, which the next rows reuse'),
    groups: Type.Record(Type.String(), Type.Integer(), { description: 'Size in bytes of each group of tables.' }),
  }),
  content: Type.Array(MonthBytes, { description: 'Bodies and attachments, by month.' }),
  raw_mail: Type.Array(MonthBytes, { description: 'Received messages in their raw form, by month.' }),
  captures_bytes: Bytes('Captured mail'),
  imports_bytes: Bytes('Files that wait for their import'),
  other_bytes: Bytes('Other files'),
  kinds: Type.Array(KindUsage, { description: 'What is retained, for how long, and what is deleted next.' }),
})
export const ServerDisk = Type.Object({
  read_at: Timestamp({ description: 'When this was read.' }),
  file_system: Part('The disk, as it is now.', FILE_SYSTEM_FIELDS),
  is_measuring: Type.Boolean({ description: 'Whether the use is being measured, which reads the whole database.' }),
  use: Nullable(Use, { description: 'The use as last measured; null: it was not measured yet.' }),
})
export type ServerDisk = Static<typeof ServerDisk>

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
        } satisfies ServerDisk
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
