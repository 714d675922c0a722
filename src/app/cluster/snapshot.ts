/**
 * @module Copies of all data for nodes that are new or too far behind. The leader copies each database as it is at some
 * moment, while commits go on; the rows of the log since the beginning bring the copies to one state, at the latest at the
 * end of the copying.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { askWorker } from '#platform/process/workers.ts'
import type { ReplicationLog } from '#platform/replication/log.ts'
import { type Position, writePosition } from '#platform/replication/position.ts'
import { Snapshots } from '#platform/replication/snapshots.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { SnapshotJob } from './snapshot-worker.ts'

/** Folder in the data directory for the copy of one database. */
export const STAGING = 'replica-staging'
const POLL_MS = 500

/** Makes snapshots, one at a time, while nodes want one. */
export class SnapshotMaker {
  readonly #config: Config
  readonly #snapshots: Snapshots
  readonly #touchDatabases: () => Promise<void>
  readonly #ending = new AbortController()
  #making: Promise<void> | undefined

  /** @param touchDatabases changes the first page of each database */
  constructor(config: Config, log: ReplicationLog, touchDatabases: () => Promise<void>) {
    this.#config = config
    this.#snapshots = new Snapshots(log.postgres)
    this.#touchDatabases = touchDatabases
  }

  makeIfWanted(onError: (error: unknown) => void): void {
    this.#making ??= this.#make()
      .catch((error: unknown) => {
        if (!this.#ending.signal.aborted) onError(error)
      })
      .finally(() => {
        this.#making = undefined
      })
  }

  async removeUnused(): Promise<void> {
    if (!this.#making) await this.#snapshots.removeUnused()
  }

  async stop(): Promise<void> {
    this.#ending.abort(new Error('the node stops leading'))
    await this.#making
  }

  async #make(): Promise<void> {
    if (!(await this.#snapshots.isWanted())) return
    const id = await this.#snapshots.begin()
    const { dataDir, replicate: url } = this.#config
    const job: SnapshotJob = { dataDir, url, id, staging: join(dataDir, STAGING) }
    await askWorker('snapshot', job, this.#ending.signal)
    // SQLite's copies differ from their databases in the first page; this puts it into the log.
    await this.#touchDatabases()
    await this.#snapshots.complete(id)
  }
}

export interface RestoreOptions {
  readonly log: ReplicationLog
  readonly dataDir: string
  /** Position of a directory that has nothing yet. */
  readonly empty: Position
  /** Called now and then, so that the node stays known. */
  readonly onWait: () => Promise<void>
  readonly ending: AbortSignal
}

/**
 * Writes the newest snapshot into the directory. Undefined when there is none yet, or it was removed meanwhile: call it
 * again.
 */
export async function restoreSnapshot({
  log,
  dataDir,
  empty,
  onWait,
  ending,
}: RestoreOptions): Promise<Position | undefined> {
  const snapshots = new Snapshots(log.postgres)
  const newest = await snapshots.findNewest()
  if (!newest) {
    await systemClock.sleep(POLL_MS)
    return undefined
  }
  clear(dataDir)
  writePosition(dataDir, { ...empty, isCopying: true })
  for (let number = 1, isLast = false; !isLast; number++) {
    const part = ending.aborted ? undefined : await snapshots.readPart(newest.id, number)
    if (!part) return undefined
    await appendTo(join(dataDir, part.path), part.bytes)
    await onWait()
    isLast = part.isLast
  }
  // The row may be gone if the snapshot is removed at this moment; then this starts over.
  const crc = newest.fromSeq === 0 ? 0 : await log.readChecksum(newest.fromSeq)
  if (crc === undefined) {
    await snapshots.remove(newest.id)
    return undefined
  }
  const position = { ...empty, seq: newest.fromSeq, crc }
  writePosition(dataDir, position)
  return position
}

/** Removes what the log or a snapshot writes. */
function clear(dataDir: string): void {
  for (const name of readdirSync(dataDir))
    if (/^(?:tassis\.db.*|content|raw-mail|content\.ids|raw-mail\.ids|instance\.json|certificates)$/.test(name))
      rmSync(join(dataDir, name), { recursive: true, force: true })
}

async function appendTo(path: string, bytes: Uint8Array): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  await using file = await open(path, 'a', 0o600)
  await file.writeFile(bytes)
  await file.datasync()
}
