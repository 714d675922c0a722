/**
 * @module What happens when somebody who reads a database for long keeps its write-ahead log from being emptied: the log grows by all that is written, so the
 * operator is told, once for each doubling, and it is emptied within a minute after the reader has ended, though nothing more is written.
 */
import { readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { Clock, Timer } from '#platform/clock.ts'
import type { Log } from '#platform/log.ts'
import { minutes } from '#platform/units.ts'

const RETRY_DELAY_MS = minutes(1)

/** Read marks of SQLite's write-ahead log: bytes of its shared memory that a reader has locked (https://sqlite.org/walformat.html, 2.3.3). */
const READ_MARKS = { from: 123, to: 127 }

/**
 * What the Committers of a process call after each checkpoint.
 * @param minBytes of a log from which on the operator is told
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
      if (toldBytes > 0) log.info({ file }, 'the write-ahead log was emptied: nobody keeps it from that any more')
      return
    }
    const isWorthLogging = leftBytes >= Math.max(minBytes, 2 * toldBytes)
    if (isWorthLogging)
      log.warn(
        { file, walBytes: leftBytes, processes: findReaders(path) },
        'the write-ahead log of a database grows with all that is written, because a process reads the database without an end; end that process, such as a sqlite3 shell or a backup',
      )
    const retry = clock.after(RETRY_DELAY_MS, () => void checkpoint())
    blockedLogs.set(path, { retry, toldBytes: isWorthLogging ? leftBytes : toldBytes })
  }
}

/** Numbers of the processes that read from the log of a database now, as Linux tells them; empty where it does not. */
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
