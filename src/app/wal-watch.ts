/**
 * @module Watches for write-ahead logs that cannot be emptied because a reader runs for a long time. Such a log grows
 * with every write. The operator gets a warning, and another each time the log has doubled. A checkpoint runs every
 * minute, so the log is emptied within a minute after the reader ends, even without further writes.
 */
import { readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { Log } from '#platform/log/log.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'

const RETRY_DELAY_MS = minutes(1)

/** Bytes of SQLite's shared memory that a reader of the log locks (https://sqlite.org/walformat.html, 2.3.3). */
const READ_MARKS = { from: 123, to: 127 }

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
        { file, walBytes: leftBytes, processes: findReaders(path) },
        'write-ahead log keeps growing: a process holds a long read transaction; end that process, such as a sqlite3 shell or a backup',
      )
    const retry = clock.after(RETRY_DELAY_MS, () => void checkpoint())
    blockedLogs.set(path, { retry, toldBytes: isWorthLogging ? leftBytes : toldBytes })
  }
}

/** Returns the pids of the processes that read the log of a database, from /proc/locks; empty on other systems. */
export function findReaders(path: string): number[] {
  try {
    const { ino } = statSync(`${path}-shm`)
    const readers = readFileSync('/proc/locks', 'utf8')
      .split('\n')
      .flatMap((line) => {
        const [, pid, inode, start] = /\bPOSIX +\S+ +READ +(\d+) +\S+:(\d+) +(\d+) /.exec(line) ?? []
        const mark = Number(start)
        return Number(inode) === ino && mark >= READ_MARKS.from && mark <= READ_MARKS.to ? [Number(pid)] : []
      })
    return [...new Set(readers)]
  } catch {
    return []
  }
}
