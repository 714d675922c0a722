/** @module /v1/operator/disk: the use of the disk. A Worker measures it, because that reads the whole database. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { askWorker } from '#platform/process/workers.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { type DiskUse, readFileSystem } from './disk.ts'
import { ServerDisk } from './disk-model.ts'
import type { DiskRequest } from './disk-worker.ts'

/** Measurements read every page of the database, so they take at most this fraction of the time. */
const MAX_MEASURE_FRACTION = 0.02
const MIN_INTERVAL_MS = minutes(1)
/** How long a request waits for a measurement; most databases take less. */
const WAIT_MS = seconds(2)

interface DiskReading {
  /** The last measurement; undefined while the first one runs, or when it failed. */
  readonly usage: DiskUse | undefined
  readonly isMeasuring: boolean
}

/** Creates a function that returns the last measurement, and starts the next one if it is due. */
function createDiskMeter(app: App): () => Promise<DiskReading> {
  const { clock, config, log } = app
  let usage: DiskUse | undefined
  let nextAtMs: Millis = Number.NEGATIVE_INFINITY
  let running: Promise<void> | undefined
  const measure = async (): Promise<void> => {
    const startedAtMs = clock.monotonicMs()
    try {
      usage = await askWorker<DiskUse>('disk', { config, now: clock.now() } satisfies DiskRequest)
    } catch (error) {
      log.warn({ err: error }, 'disk use not measured')
    } finally {
      const now = clock.monotonicMs()
      nextAtMs = now + Math.max(MIN_INTERVAL_MS, (now - startedAtMs) / MAX_MEASURE_FRACTION)
    }
  }
  return async () => {
    if (running === undefined && clock.monotonicMs() >= nextAtMs)
      running = measure().finally(() => {
        running = undefined
      })
    if (running) await Promise.race([running, clock.sleep(WAIT_MS)])
    return { usage, isMeasuring: running !== undefined }
  }
}

export const operatorDiskRoutes = (app: App) => {
  const readDisk = createDiskMeter(app)
  return new Elysia({ prefix: '/v1/operator/disk' }).use(authenticated).get(
    '/',
    async ({ actor }) => {
      await recordView(app, actor, { name: 'disk' })
      const { usage, isMeasuring } = await readDisk()
      return dataBody({
        read_at: isoTime(app.clock.now()),
        file_system: readFileSystem(app.config),
        is_measuring: isMeasuring,
        use: usage ?? null,
      })
    },
    {
      response: DataBody(ServerDisk),
      detail: operatorRoute(
        'Get the use of the disk, and what is deleted next',
        'Measuring reads the whole database, so the use is measured only while an operator looks, at most once a minute, and less often the longer it takes.',
      ),
    },
  )
}
