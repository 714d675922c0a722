/**
 * @module The file `instance.json` in the data directory: which database belongs to the directory, how far it had come,
 * and which machine uses it. The start compares them: a database that is older than its directory, or that comes without
 * the file (a replica, a copy of the database alone), is a copy and is marked as one; a directory that another machine
 * has just used is refused. Never fences.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { COMMITS_KEY, getMeta, setMeta } from '#features/core/events/record.ts'
import { INSTANCE_KEY, markAsCopy, readCopyMark, readInstanceId } from '#features/core/fence/restored.ts'
import { attempt } from '#platform/attempt.ts'
import type { Replica } from '#platform/db/replica.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { systemCodeOf } from '#platform/errors.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { Log } from '#platform/log/log.ts'
import { InUseError } from '#platform/settings/config.ts'
import type { Millis } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'

/** A directory is in use by another machine if that has renewed the file within this time. */
const LEASE_MS = seconds(30)

/** Set while the database has a new id that the file may not have yet. */
const UNFILED_KEY = 'instance_unfiled'

interface InstanceFile {
  readonly instance: string
  /** Commits that are on disk: the database has at least so many. */
  readonly commits: number
  /** The machine that uses the directory; null after an orderly stop. */
  readonly machine: Machine | null
  readonly renewed_at: string
}

/** `''` where the system does not say. */
interface Machine {
  readonly machine_id: string
  readonly boot_id: string
  readonly pid: number
}

const toPath = (dataDir: string): string => join(dataDir, 'instance.json')

/**
 * Throws InUseError when another machine uses the directory: on a disk that two machines share, the lock of one may not
 * be seen by the other. The directory must be locked.
 */
export function requireNoOtherMachine(dataDir: string, now: Millis): void {
  const file = readInstanceFile(dataDir)
  if (!file?.machine) return
  const ours = readMachine()
  const { machine_id, boot_id, pid } = file.machine
  // A container image has no machine-id; a machine that has started again has another boot_id.
  const isSame = machine_id === '' ? ['', ours.boot_id].includes(boot_id) : machine_id === ours.machine_id
  const ageMs = Math.abs(now - Date.parse(file.renewed_at))
  if (isSame || boot_id === ours.boot_id || !(ageMs < LEASE_MS)) return
  throw new InUseError(
    `Another machine (${machine_id === '' ? `boot_id ${boot_id}` : `machine-id ${machine_id}`}, process ${pid}) used ${dataDir} ${Math.round(ageMs / 1000)} s ago. Two services on one directory send mail twice: stop the one there; if it is gone, start again in ${LEASE_MS / 1000} s.`,
  )
}

/**
 * Marks the database as a copy if the file shows that it is one; then `fenceIfCopied` fences it. A database that has no
 * id and no file beside it is new.
 */
export function markIfForeign(db: Database, dataDir: string, log: Log): void {
  const instance = getMeta(db, INSTANCE_KEY)
  const file = readInstanceFile(dataDir)
  if (readCopyMark(db) || (instance === undefined && !file) || getMeta(db, UNFILED_KEY)) return
  const commits = readCommits(db)
  const reason =
    instance === undefined || (file && file.instance !== instance)
      ? 'the database is not that of its directory'
      : !file
        ? 'the file instance.json is missing beside the database'
        : file.commits > commits
          ? 'the database is older than its directory'
          : undefined
  if (reason === undefined) return
  log.warn({ instance, fileInstance: file?.instance, commits, fileCommits: file?.commits }, reason)
  // The last event is the best that is known about the time of the copy.
  markAsCopy(db, { kind: 'copy', takenAt: Number(getMeta(db, 'newest_time')) || null })
}

/** Gives a fenced copy, or a new database, an id of its own; call it in the transaction of the fence. */
export function renewInstanceId(db: Database): void {
  setMeta(db, INSTANCE_KEY, formatUuid(newUuid()))
  setMeta(db, COMMITS_KEY, String(readCommits(db)))
  setMeta(db, UNFILED_KEY, '1')
}

export interface Instance {
  readonly id: string
  /** Stores how far the database has come; `awaitDurable` resolves once what it has now is on disk. */
  renew(now: Millis, awaitDurable: () => Promise<unknown>): Promise<void>
  /** Stores that the directory is no longer used, with the last commit. All commits must be on disk. */
  settle(now: Millis, commits: number): void
}

/** Creates the id if there is none, and writes the file. */
export function openInstance(db: Database, dataDir: string, now: Millis, replica?: Replica): Instance {
  if (getMeta(db, INSTANCE_KEY) === undefined) {
    db.run('PRAGMA synchronous = FULL')
    db.transaction(() => renewInstanceId(db)).immediate()
    db.run('PRAGMA synchronous = NORMAL')
  }
  const id = readInstanceId(db)
  const machine = readMachine()
  const write = (at: Millis, commits: number, user: Machine | null): void => {
    const file: InstanceFile = { instance: id, commits, machine: user, renewed_at: new Date(at).toISOString() }
    replaceFileSync(toPath(dataDir), formatInstanceFile(file))
    // Another node may use its own directory.
    replica?.replaceFile(toPath(dataDir), formatInstanceFile({ ...file, machine: null }))
  }
  write(now, readInstanceFile(dataDir)?.commits ?? 0, machine)
  setMeta(db, UNFILED_KEY, '')
  return {
    id,
    async renew(at, awaitDurable) {
      const commits = readCommits(db)
      await awaitDurable()
      write(at, commits, machine)
    },
    settle: (at, commits) => write(at, commits, null),
  }
}

/** Number of commits with events since the database has an id. */
export const readCommits = (db: Database): number => Number(getMeta(db, COMMITS_KEY) ?? 0)

/** Undefined also for a file that is not ours: its database is then treated as a copy. */
function readInstanceFile(dataDir: string): InstanceFile | undefined {
  try {
    return JSON.parse(readFileSync(toPath(dataDir), 'utf8')) as InstanceFile
  } catch (error) {
    if (error instanceof SyntaxError || systemCodeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

const formatInstanceFile = (content: InstanceFile): string => `${JSON.stringify(content)}\n`

const readMachine = (): Machine => ({
  machine_id: readLine('/etc/machine-id'),
  boot_id: readLine('/proc/sys/kernel/random/boot_id'),
  pid: process.pid,
})

const readLine = (path: string): string => attempt(() => readFileSync(path, 'utf8').trim()) ?? ''
