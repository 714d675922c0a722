/**
 * @module Watches for write-ahead logs that cannot be emptied because a reader runs for a long time. Such a log grows
 * with every write. The operator gets a warning, and another each time the log has doubled. A checkpoint runs every
 * minute, so the log is emptied within a minute after the reader ends, even without further writes.
 */
import { basename } from 'node:path'
import type { Log } from '#platform/log/log.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'

const RETRY_DELAY_MS = minutes(1)

/**
 * Returns the callback that the Committers of a process call after each checkpoint.
 * @param minBytes smallest size of a log that is logged as a warning
 */
export function createWalWatcher(clock: Pick<Clock, 'after'>, log: Log, minBytes: number) {
  const blockedLogs = new Map<string, { readonly retry: Timer; readonly toldBytes: number }>()
  return (path: string, leftBytes: number, checkpoint: () => Promise<void>): void => {
    const previous = blockedLogs.get(path)
    previous?.retry.cancel()
    const toldBytes = previous?.toldBytes ?? 0
    const file = basename(path)
    if (leftBytes === 0) {
      blockedLogs.delete(path)
      if (toldBytes > 0) log.info({ file }, 'write-ahead log emptied: no process blocks it any more')
      return
    }
    const isWorthLogging = leftBytes >= Math.max(minBytes, 2 * toldBytes)
    if (isWorthLogging)
      log.warn(
        { file, walBytes: leftBytes },
        `write-ahead log keeps growing: a process holds a long read transaction; end it, such as a sqlite3 shell or a backup: \`fuser ${path}\` shows which`,
      )
    const retry = clock.after(RETRY_DELAY_MS, () => void checkpoint())
    blockedLogs.set(path, { retry, toldBytes: isWorthLogging ? leftBytes : toldBytes })
  }
}
