/**
 * @module The statements of the log. An append is one statement: it raises the head only if epoch and sequence are those
 * of the writer, and adds the rows only if it did. So a writer that was overtaken adds nothing, however late it comes.
 */
import { GiB, hours } from '../units.ts'
import type { Postgres } from './postgres.ts'
import { FORMAT, TABLES } from './tables.ts'

/** The row of `tassis_cluster`. */
export interface ClusterRow {
  readonly id: string
  readonly format: number
  readonly epoch: number
  /** Number of the last row of the log. */
  readonly seq: number
  readonly leader: string
  /** Time of the last heartbeat; only whether it changes says something. */
  readonly at: string
  /** The leader has stopped in order. */
  readonly released: boolean
  /** The leader shall stop, so that `wanted` takes over; '' stands for any node. */
  readonly stepDown: boolean
  readonly wanted: string
  readonly keyFingerprint: string
  readonly version: string
  /** The newest migration of the database. */
  readonly schema: string
}

/** A row of the log that is to be appended. */
export interface NewRow {
  /** Whether what has been read up to this row may be applied. */
  readonly isWhole: boolean
  readonly what: string
  readonly crc: number
  readonly data: Uint8Array
}

export interface LogRow {
  readonly seq: number
  readonly epoch: number
  readonly crc: number
  readonly data: Uint8Array<ArrayBuffer>
}

export interface NodeReport {
  readonly name: string
  readonly directory: string
  readonly role: 'leader' | 'standby'
  readonly state: 'leading' | 'following' | 'copying'
  readonly version: string
  readonly hostname: string
  readonly outboundIps: readonly string[]
  /** What is on this node's disk, so that the rows of the log are no longer needed for it. */
  readonly applied: number
  readonly lagMs: number
}

export type FailoverReason = 'silence' | 'stop' | 'step_down'

/** A node that was not seen for so long no longer keeps rows of the log. */
const KEPT_FOR = '24 hours'
const KNOWN_FOR = '1 day'
/** When the log is so large, a node keeps rows only if it was seen, and had all rows, within the second time. */
const LARGE_LOG_BYTES = 4 * GiB
const KEPT_IF_LARGE_MS = hours(1)
/** Rows of about a megabyte are read in one go. */
const ROWS_PER_READ = 16

/** @throws what `Postgres.query` throws. Numbers are read as float8, because the client makes strings of bigint */
export class ReplicationLog {
  readonly postgres: Postgres

  constructor(postgres: Postgres) {
    this.postgres = postgres
  }

  createTables(): Promise<void> {
    return this.postgres.use((sql) =>
      sql.begin(async (tx) => {
        for (const statement of TABLES) await tx.unsafe(statement)
      }),
    )
  }

  async hasTables(): Promise<boolean> {
    const found = await this.postgres.query("SELECT 1 WHERE to_regclass('tassis_cluster') IS NOT NULL")
    return found.length > 0
  }

  /** Undefined for a log that no node has begun. */
  async readCluster(): Promise<ClusterRow | undefined> {
    const [row] = await this.postgres.query<ClusterRow>(
      `SELECT id::text, format, epoch::float8, seq::float8, leader, at::text, released, step_down AS "stepDown", wanted,
         key_fingerprint AS "keyFingerprint", version, schema FROM tassis_cluster`,
    )
    return row
  }

  /** Begins the log, unless another node did. */
  async begin(id: string, keyFingerprint: string, version: string): Promise<void> {
    await this.postgres.query(
      `INSERT INTO tassis_cluster (id, format, epoch, seq, leader, leader_since, at, released, key_fingerprint, version, schema)
       VALUES ($1, $2, 0, 0, '', now(), now(), true, $3, $4, '') ON CONFLICT DO NOTHING`,
      [id, FORMAT, keyFingerprint, version],
    )
  }

  /** Appends rows behind `seq`; resolves with false when the log does not end there any more, or another node leads. */
  async append(epoch: number, seq: number, rows: readonly NewRow[]): Promise<boolean> {
    const raised = await this.postgres.query(appendSql(rows.length), [
      seq,
      epoch,
      ...rows.flatMap(({ isWhole, what, crc, data }) => [isWhole, what, crc, data]),
    ])
    return raised.length > 0
  }

  /**
   * A heartbeat. As it is itself a commit, everything before it is as durable in PostgreSQL as this is.
   * @returns undefined when another node leads
   */
  async confirm(epoch: number): Promise<Pick<ClusterRow, 'seq' | 'stepDown'> | undefined> {
    const [row] = await this.postgres.query<Pick<ClusterRow, 'seq' | 'stepDown'>>(
      'UPDATE tassis_cluster SET at = clock_timestamp() WHERE epoch = $1 RETURNING seq::float8, step_down AS "stepDown"',
      [epoch],
    )
    return row
  }

  /**
   * Makes a node the leader if the row of the cluster is still as it was seen, and nothing can be applied that the node
   * has not applied. Rows behind `applied` are the beginning of a group that no node has as a whole; they go.
   * @returns the new epoch
   */
  async takeOver(
    seen: ClusterRow,
    applied: number,
    by: { readonly node: string; readonly version: string; readonly schema: string },
    reason: FailoverReason,
  ): Promise<number | undefined> {
    const [row] = await this.postgres.query<{ epoch: number }>(
      `WITH taken AS (
         UPDATE tassis_cluster SET epoch = epoch + 1, seq = $3, leader = $4, leader_since = clock_timestamp(), at = clock_timestamp(),
           released = false, step_down = false, wanted = '', version = $5, schema = $6,
           last_failover = CASE WHEN leader IN ('', $4) THEN last_failover
             ELSE jsonb_build_object('at', clock_timestamp(), 'from', leader, 'to', $4::text, 'reason', $7::text) END
         WHERE epoch = $1 AND seq = $2 AND at::text = $8 AND NOT EXISTS (SELECT 1 FROM tassis_log WHERE seq > $3 AND whole)
         RETURNING epoch
       ), gone AS (DELETE FROM tassis_log USING taken WHERE seq > $3)
       SELECT epoch::float8 FROM taken`,
      [seen.epoch, seen.seq, applied, by.node, by.version, by.schema, reason, seen.at],
    )
    return row?.epoch
  }

  /** Says that the leader has stopped in order, so that another node need not wait. */
  async release(epoch: number): Promise<void> {
    await this.postgres.query('UPDATE tassis_cluster SET released = true, at = clock_timestamp() WHERE epoch = $1', [
      epoch,
    ])
  }

  /** The next rows behind `after`, up to the end of the last whole group. */
  read(after: number): Promise<LogRow[]> {
    return this.postgres.query(
      `SELECT seq::float8, epoch::float8, crc::float8, data FROM tassis_log
       WHERE seq > $1 AND seq <= (SELECT max(seq) FROM tassis_log WHERE whole) ORDER BY seq LIMIT ${ROWS_PER_READ}`,
      [after],
    )
  }

  /** The checksum of a row; undefined when the log does not have it, or no longer. */
  async readChecksum(seq: number): Promise<number | undefined> {
    const [row] = await this.postgres.query<LogRow>('SELECT crc::float8 FROM tassis_log WHERE seq = $1', [seq])
    return row?.crc
  }

  /** Whether rows behind `after` were removed from the log. */
  async isTrimmedBehind(after: number): Promise<boolean> {
    const [row] = await this.postgres.query<{ trimmed: boolean }>(
      'SELECT seq > $1 AND coalesce((SELECT min(seq) FROM tassis_log WHERE seq > $1) > $1 + 1, true) AS trimmed FROM tassis_cluster',
      [after],
    )
    return row?.trimmed === true
  }

  /**
   * Stores what a node says of itself.
   * @returns false when another directory has used the name within the last seconds
   */
  async report(node: NodeReport): Promise<boolean> {
    const stored = await this.postgres.query(
      `INSERT INTO tassis_nodes AS known (name, directory, role, state, version, hostname, outbound_ips, applied, lag_ms, seen_at)
       VALUES ($1, $2, $3, $4, $5, $6, string_to_array($7, ' '), $8, $9, clock_timestamp())
       ON CONFLICT (name) DO UPDATE SET directory = excluded.directory, role = excluded.role, state = excluded.state,
         version = excluded.version, hostname = excluded.hostname, outbound_ips = excluded.outbound_ips,
         applied = excluded.applied, lag_ms = excluded.lag_ms, seen_at = excluded.seen_at
       WHERE known.directory = excluded.directory OR known.seen_at < clock_timestamp() - interval '15 seconds'
       RETURNING 1`,
      [
        node.name,
        node.directory,
        node.role,
        node.state,
        node.version,
        node.hostname,
        node.outboundIps.join(' '),
        node.applied,
        node.lagMs,
      ],
    )
    return stored.length > 0
  }

  /** Asks the leader, which reads it with its next heartbeat, to stop in order, so that a node takes over; '' is any. */
  async requestStepDown(to: string): Promise<void> {
    await this.postgres.query('UPDATE tassis_cluster SET step_down = true, wanted = $1', [to])
  }

  async withdrawStepDown(): Promise<void> {
    await this.postgres.query("UPDATE tassis_cluster SET step_down = false, wanted = ''")
  }

  /** Names the master key that the data need now, as it may have been replaced. */
  async nameKey(epoch: number, fingerprint: string): Promise<void> {
    await this.postgres.query(
      'UPDATE tassis_cluster SET key_fingerprint = $2 WHERE epoch = $1 AND key_fingerprint <> $2',
      [epoch, fingerprint],
    )
  }

  /** Says that a standby has stopped in order, so that nobody counts on it. */
  async leave(name: string): Promise<void> {
    await this.postgres.query("UPDATE tassis_nodes SET seen_at = seen_at - interval '15 seconds' WHERE name = $1", [
      name,
    ])
  }

  /**
   * Removes the rows that every node and every snapshot has, but for the last, by which a node knows the log again; forgets
   * nodes that are gone.
   */
  async trim(): Promise<void> {
    await this.postgres.query(`DELETE FROM tassis_nodes WHERE seen_at < now() - interval '${KNOWN_FOR}'`)
    await this.postgres.query(
      `DELETE FROM tassis_log WHERE seq < least(
         (SELECT min(applied) FROM tassis_nodes WHERE seen_at > now() - interval '${KEPT_FOR}' AND state <> 'copying'
          AND (pg_total_relation_size('tassis_log') < ${LARGE_LOG_BYTES}
            OR (lag_ms < ${KEPT_IF_LARGE_MS} AND seen_at > now() - ${KEPT_IF_LARGE_MS} * interval '1 millisecond'))),
         (SELECT min(from_seq) FROM tassis_snapshots))`,
    )
  }
}

/** The statement that appends a number of rows. */
function appendSql(count: number): string {
  const values = Array.from({ length: count }, (_, index) => {
    const at = 3 + index * 4
    return `(${index + 1}, $${at}::bool, $${at + 1}::text, $${at + 2}::bigint, $${at + 3}::bytea)`
  })
  return `WITH head AS (
      UPDATE tassis_cluster SET seq = $1::bigint + ${count}, at = clock_timestamp()
      WHERE epoch = $2::bigint AND seq = $1::bigint RETURNING 1
    ), added AS (
      INSERT INTO tassis_log (seq, epoch, whole, what, crc, data)
      SELECT $1::bigint + v.n, $2::bigint, v.whole, v.what, v.crc, v.data
      FROM head, (VALUES ${values.join(', ')}) v (n, whole, what, crc, data)
    ) SELECT 1 FROM head`
}
