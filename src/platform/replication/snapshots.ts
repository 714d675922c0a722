/**
 * @module Copies of all data in PostgreSQL: a row for each, and parts of its files. The rows of the log behind the
 * beginning of a copy stay as long as the copy.
 */
import { ConfigError } from '#platform/settings/config.ts'
import { minutes } from '../units.ts'
import { checksum, isReplicatedPath } from './entries.ts'
import type { Postgres } from './postgres.ts'

/** Reading and writing a part may wait for a busy disk. */
const PART_LIMIT_MS = minutes(1)

/** @throws what `Postgres.query` throws */
export class Snapshots {
  readonly #postgres: Postgres

  constructor(postgres: Postgres) {
    this.#postgres = postgres
  }

  /** Whether a node waits for a snapshot. */
  async isWanted(): Promise<boolean> {
    const found = await this.#postgres.query(
      `SELECT 1 FROM tassis_nodes WHERE state = 'copying' AND seen_at > now() - interval '5 seconds'
       AND NOT EXISTS (SELECT 1 FROM tassis_snapshots WHERE to_seq IS NOT NULL) LIMIT 1`,
    )
    return found.length > 0
  }

  /** Begins a snapshot at the end of the log; resolves with its id. */
  async begin(): Promise<number> {
    await this.#postgres.query('DELETE FROM tassis_snapshots WHERE to_seq IS NULL', [], PART_LIMIT_MS)
    const [created] = await this.#postgres.query<{ id: string }>(
      'INSERT INTO tassis_snapshots (epoch, from_seq, begun_at) SELECT epoch, seq, now() FROM tassis_cluster RETURNING id',
    )
    return Number(created?.id)
  }

  /** @param part from 1, without gaps */
  async addPart(id: number, part: number, path: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const data = Bun.zstdCompressSync(bytes, { level: 1 })
    await this.#postgres.query(
      'INSERT INTO tassis_snapshot_parts (snapshot, part, path, crc, data) VALUES ($1, $2, $3, $4, $5)',
      [id, part, path, checksum(data), data],
      PART_LIMIT_MS,
    )
  }

  /** Makes the snapshot one that nodes may copy. */
  async complete(id: number): Promise<void> {
    await this.#postgres.query('UPDATE tassis_snapshots SET to_seq = (SELECT seq FROM tassis_cluster) WHERE id = $1', [
      id,
    ])
  }

  /** The newest complete snapshot, and the last row of the log before it began. */
  async findNewest(): Promise<{ id: number; fromSeq: number } | undefined> {
    const [row] = await this.#postgres.query<{ id: string; from_seq: string }>(
      'SELECT id, from_seq FROM tassis_snapshots WHERE to_seq IS NOT NULL ORDER BY id DESC LIMIT 1',
    )
    return row && { id: Number(row.id), fromSeq: Number(row.from_seq) }
  }

  /** Undefined when the snapshot was removed. Throws ConfigError for a damaged part. */
  async readPart(id: number, part: number): Promise<{ path: string; bytes: Uint8Array; isLast: boolean } | undefined> {
    const [row] = await this.#postgres.query<{
      path: string
      crc: string
      data: Uint8Array<ArrayBuffer>
      last: boolean
    }>(
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
    return { path: row.path, bytes: Bun.zstdDecompressSync(row.data), isLast: row.last }
  }

  /** Removes a snapshot that cannot be used. */
  async remove(id: number): Promise<void> {
    await this.#postgres.query('DELETE FROM tassis_snapshots WHERE id = $1', [id], PART_LIMIT_MS)
  }

  /** Removes snapshots that no node copies any more, and those that a former leader did not finish. */
  async removeUnused(): Promise<void> {
    await this.#postgres.query(
      `DELETE FROM tassis_snapshots WHERE to_seq IS NULL
       OR NOT EXISTS (SELECT 1 FROM tassis_nodes WHERE state = 'copying' AND seen_at > now() - interval '15 seconds')`,
      [],
      PART_LIMIT_MS,
    )
  }
}
