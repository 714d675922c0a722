/**
 * @module Copies of all data in PostgreSQL, for nodes that are new or too far behind. The leader copies each database as it
 * is at some moment, while commits go on; the rows of the log since the beginning bring the copies to the same state. The
 * node applies them at least up to the end of the copying.
 */
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { askWorker } from '#platform/process/workers.ts'
import { checksum, isReplicatedPath } from '#platform/replication/entries.ts'
import type { ReplicationLog } from '#platform/replication/log.ts'
import { type Position, writePosition } from '#platform/replication/position.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { minutes } from '#platform/units.ts'
import type { SnapshotJob } from './snapshot-worker.ts'

/** Reading and writing parts of a megabyte may wait for a busy disk. */
export const PART_LIMIT_MS = minutes(1)
const POLL_MS = 500
const REPORT_EVERY_PARTS = 8

/** Makes snapshots, one at a time, while nodes want one. */
export class SnapshotMaker {
  readonly #config: Config
  readonly #log: ReplicationLog
  readonly #touchDatabases: () => Promise<void>
  readonly #ending = new AbortController()
  #making: Promise<void> | undefined

  /** @param touchDatabases changes the first page of each database */
  constructor(config: Config, log: ReplicationLog, touchDatabases: () => Promise<void>) {
    this.#config = config
    this.#log = log
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

  /** Removes snapshots that no node copies any more, and those that a former leader did not finish. */
  async removeUnused(): Promise<void> {
    if (this.#making) return
    await this.#log.postgres.query(
      `DELETE FROM tassis_snapshots WHERE to_seq IS NULL
       OR NOT EXISTS (SELECT 1 FROM tassis_nodes WHERE state = 'copying' AND seen_at > now() - interval '15 seconds')`,
      [],
      PART_LIMIT_MS,
    )
  }

  async stop(): Promise<void> {
    this.#ending.abort(new Error('the node stops leading'))
    await this.#making
  }

  async #make(): Promise<void> {
    const [wanted] = await this.#log.postgres.query(
      `SELECT 1 FROM tassis_nodes WHERE state = 'copying' AND seen_at > now() - interval '5 seconds'
       AND NOT EXISTS (SELECT 1 FROM tassis_snapshots WHERE to_seq IS NOT NULL) LIMIT 1`,
    )
    if (!wanted) return
    await this.#log.postgres.query('DELETE FROM tassis_snapshots WHERE to_seq IS NULL', [], PART_LIMIT_MS)
    // The rows behind this one are kept as long as the snapshot is there.
    const [created] = await this.#log.postgres.query<{ id: string }>(
      'INSERT INTO tassis_snapshots (epoch, from_seq, begun_at) SELECT epoch, seq, now() FROM tassis_cluster RETURNING id',
    )
    const id = Number(created?.id)
    const job: SnapshotJob = { dataDir: this.#config.dataDir, url: this.#config.replicate, id }
    await askWorker('snapshot', job, this.#ending.signal)
    // SQLite's copies differ from their databases in the first page; this puts it into the log.
    await this.#touchDatabases()
    await this.#log.postgres.query(
      'UPDATE tassis_snapshots SET to_seq = (SELECT seq FROM tassis_cluster) WHERE id = $1',
      [id],
    )
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
 * Waits for a snapshot of the leader and writes it into the directory. Undefined when there is none yet, or it was removed
 * meanwhile: call it again.
 */
export async function restoreSnapshot({
  log,
  dataDir,
  empty,
  onWait,
  ending,
}: RestoreOptions): Promise<Position | undefined> {
  const [snapshot] = await log.postgres.query<{ id: string; from_seq: string; to_seq: string }>(
    'SELECT id, from_seq, to_seq FROM tassis_snapshots WHERE to_seq IS NOT NULL ORDER BY id DESC LIMIT 1',
  )
  if (!snapshot) {
    await systemClock.sleep(POLL_MS)
    return undefined
  }
  clear(dataDir)
  writePosition(dataDir, { ...empty, isCopying: true })
  const count = await writeParts({ log, dataDir, onWait, ending }, Number(snapshot.id))
  if (count === undefined) return undefined
  const position = { ...empty, seq: Number(snapshot.from_seq) }
  writePosition(dataDir, position)
  return position
}

/** Removes what the log or a snapshot writes. */
function clear(dataDir: string): void {
  for (const name of readdirSync(dataDir))
    if (/^(?:tassis\.db.*|content|raw-mail|content\.ids|raw-mail\.ids|instance\.json|certificates)$/.test(name))
      rmSync(join(dataDir, name), { recursive: true, force: true })
}

async function writeParts(
  { log, dataDir, onWait, ending }: Omit<RestoreOptions, 'empty'>,
  id: number,
): Promise<number | undefined> {
  let count = 0
  for (let part = 1; !ending.aborted; part++) {
    const [row] = await log.postgres.query<{ path: string; crc: string; data: Uint8Array<ArrayBuffer>; last: boolean }>(
      `SELECT path, crc, data, part = (SELECT max(part) FROM tassis_snapshot_parts WHERE snapshot = $1) AS last
       FROM tassis_snapshot_parts WHERE snapshot = $1 AND part = $2`,
      [id, part],
      PART_LIMIT_MS,
    )
    if (!row) return undefined
    if (checksum(row.data) !== Number(row.crc) || !isReplicatedPath(row.path))
      throw new ConfigError(
        `Part ${part} of the snapshot in PostgreSQL is not as it was written: its disk or memory is defective.`,
      )
    await appendTo(join(dataDir, row.path), Bun.zstdDecompressSync(row.data))
    count++
    if (part % REPORT_EVERY_PARTS === 0) await onWait()
    if (row.last) return count
  }
  return undefined
}

async function appendTo(path: string, bytes: Uint8Array): Promise<void> {
  if (!existsSync(dirname(path))) mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  await using file = await open(path, 'a', 0o600)
  await file.writeFile(bytes)
  await file.datasync()
}
