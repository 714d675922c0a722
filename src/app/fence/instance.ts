/**
 * @module The file `instance.json` in the data directory: which database belongs to the directory, how far it had come,
 * and which machine uses it. The start compares them: a database that is older than its directory, or that comes without
 * the file (a replica, a copy of the database alone), is a copy; a directory that another machine has just used is refused.
 * A copy is fenced at its first start, before anything is delivered, dispatched or accepted: what was open waits as
 * `restored`, row ids and event numbers are raised past those that the original may have used since, and the instance
 * gets a new id. One transaction, on disk before it returns: a process that dies in between leaves an unfenced copy,
 * which the next start fences.
 */
import type { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { audit, SYSTEM_ACTOR } from '#features/core/audit-logs/audit.ts'
import { skipNumbers } from '#features/core/events/gaps.ts'
import { COMMITS_KEY, getMeta, setMeta } from '#features/core/events/record.ts'
import {
  type Fence,
  INSTANCE_KEY,
  markAsCopy,
  readCopyMark,
  readInstanceId,
  removeCopyMark,
  storeFence,
} from '#features/core/fence/restored.ts'
import type { Replica } from '#platform/db/replica.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { attempt, systemCodeOf } from '#platform/errors.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid, newUuid, randomBelow } from '#platform/ids.ts'
import type { Log } from '#platform/log/log.ts'
import { InUseError } from '#platform/settings/config.ts'
import { type Millis, seconds } from '#platform/units.ts'

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
function renewInstanceId(db: Database): void {
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

/**
 * Row ids reserved per second between two copies, as in `skipNumbers`. Return paths have room for ids below 2^40,
 * which the clock reaches in the year 2242.
 */
const IDS_PER_SECOND = 128
/** Skipped at least, if the clock is behind the ids, and up to `SPREAD_IDS` more, as in `skipNumbers`. */
const MIN_SKIPPED_IDS = 2 ** 24
const SPREAD_IDS = 2 ** 32
/** The largest row id that leaves room in return paths for what is accepted after it. */
const MAX_FIRST_ID = 2 ** 40 - 2 ** 32

export function fenceIfCopied(db: Database, now: Millis, log: Log): boolean {
  const mark = readCopyMark(db)
  if (!mark) return false
  // Nothing may be sent before this is on disk. The Committer, which syncs all later writes, does not exist yet.
  db.run('PRAGMA synchronous = FULL')
  let fence: Fence
  try {
    fence = db
      .transaction((): Fence => {
        const lastIds = raiseRowIds(db, now)
        skipNumbers(db, now)
        const made: Fence = { ...mark, fencedAt: now, lastIds, released: [] }
        storeFence(db, made)
        renewInstanceId(db)
        removeCopyMark(db)
        audit({ eventTime: () => now }, { db }, SYSTEM_ACTOR, {
          action: 'restored.fenced',
          metadata: { kind: made.kind, taken_at: isoTimeOrNull(made.takenAt) },
        })
        return made
      })
      .immediate()
  } finally {
    db.run('PRAGMA synchronous = NORMAL')
  }
  log.warn(
    {
      kind: fence.kind,
      takenAt: isoTimeOrNull(fence.takenAt),
      openRecipients: countOpen(db),
    },
    'the data are a restored copy: mail that was open waits as restored, because it may have been sent since the copy was made; see `tassis fence`, then `tassis fence release` or `tassis fence drop`',
  )
  return true
}

/**
 * Raises the next row id of every table whose ids are never reused, so that no id of the lost time names another row.
 * Returns the highest ids so far.
 */
function raiseRowIds(db: Database, now: Millis): Record<string, number> {
  const tables = db
    .query<{ name: string; seq: number | null }, []>(
      `SELECT t.name, s.seq FROM sqlite_master t LEFT JOIN "sqlite_sequence" s ON s.name = t.name
       WHERE t.type = 'table' AND t.sql LIKE '%AUTOINCREMENT%'`,
    )
    .all()
  // SQLite's own table has no unique key.
  const remove = db.query('DELETE FROM "sqlite_sequence" WHERE name = ?')
  const insert = db.query('INSERT INTO "sqlite_sequence" (name, seq) VALUES (?, ?)')
  const firstId = Math.min(Math.floor(now / 1000) * IDS_PER_SECOND, MAX_FIRST_ID)
  for (const { name, seq } of tables) {
    const minId = (seq ?? 0) + MIN_SKIPPED_IDS
    remove.run(name)
    insert.run(name, firstId >= minId ? firstId : minId + randomBelow(SPREAD_IDS))
  }
  return Object.fromEntries(tables.map(({ name, seq }) => [name, seq ?? 0]))
}

const countOpen = (db: Database): number =>
  db.query<{ n: number }, []>('SELECT count(*) AS n FROM recipients WHERE next_at IS NOT NULL').get()?.n ?? 0
