/**
 * @module Checks whether the service can take work now: the database reads and writes in time, the disk has space, and
 * the service is not stopping. The result is public: it contains no path and no error text of a library.
 */
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import type { ErrorDetail } from '#platform/errors.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import { limitTime } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'

const DATABASE_TIMEOUT_MS = seconds(2)
/** How long a successful database probe stays valid, so that frequent checks cause few writes. */
const PROBE_TTL_MS = seconds(5)

const PROBE_KEY = 'ready_probe'

/**
 * Creates the check, which resolves with one detail per problem; none: the service is ready.
 * @param isStopping whether the service was told to stop
 */
export function createReadiness(
  app: Pick<App, 'db' | 'commit' | 'disk' | 'clock'>,
  isStopping: () => boolean,
): () => Promise<readonly ErrorDetail[]> {
  let answeredAtMs = Number.NEGATIVE_INFINITY

  // One probe at a time: while the disk hangs, health checks must not fill the write queue.
  const probeDatabase = shareRun(async (): Promise<boolean> => {
    try {
      const isAnswered = await writeAndRead(app)
      if (isAnswered) answeredAtMs = app.clock.monotonicMs()
      return isAnswered
    } catch {
      return false
    }
  })

  const isDatabaseResponding = async (): Promise<boolean> => {
    if (app.clock.monotonicMs() - answeredAtMs < PROBE_TTL_MS) return true
    return isTrueInTime(app, probeDatabase())
  }

  return async () => {
    const hasSpace = app.disk.isLow().then((isLow) => !isLow)
    const [isDatabaseUp, hasDiskSpace] = await Promise.all([
      isDatabaseResponding(),
      // A disk that does not respond counts as full.
      isTrueInTime(app, hasSpace),
    ])
    const reasons: ErrorDetail[] = []
    if (isStopping()) reasons.push({ field: 'service', message: 'is stopping' })
    if (!isDatabaseUp) reasons.push({ field: 'database', message: 'does not read and write in time' })
    if (!hasDiskSpace) reasons.push({ field: 'disk', message: 'has too little free space (TASSIS_MIN_FREE_DISK)' })
    return reasons
  }
}

async function writeAndRead(app: Pick<App, 'db' | 'commit' | 'clock'>): Promise<boolean> {
  const token = String(app.clock.monotonicMs())
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, PROBE_KEY, token))
  return getMeta(app.db, PROBE_KEY) === token
}

/** Resolves like `question`; resolves with false when `question` fails or exceeds the limit. */
const isTrueInTime = ({ clock }: Pick<App, 'clock'>, question: Promise<boolean>): Promise<boolean> =>
  limitTime(clock, DATABASE_TIMEOUT_MS, question, () => new Error('no answer in time')).catch(() => false)
