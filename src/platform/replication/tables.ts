/**
 * @module The tables of a cluster in PostgreSQL. `tassis_log` is the durable log of commits: one row for what the leader
 * stored in one go. `tassis_cluster` has one row, which says how far the log goes and who may append to it: every append
 * raises `seq` there only if epoch and sequence are those of the writer, so no two writers can append at one place.
 */

/** Raised when the rows of the log can no longer be read by an older version. */
export const FORMAT = 1

/** The statements that create what is missing, in one transaction. */
export const TABLES: readonly string[] = [
  // Two nodes may start at the same time, and CREATE TABLE IF NOT EXISTS is not safe then.
  'SELECT pg_advisory_xact_lock(7021684903)',
  // The row changes with each append; free space in its page keeps these changes off the indexes.
  `CREATE TABLE IF NOT EXISTS tassis_cluster (
    only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
    id uuid NOT NULL,
    format int NOT NULL,
    epoch bigint NOT NULL,
    seq bigint NOT NULL,
    leader text NOT NULL,
    leader_since timestamptz NOT NULL,
    at timestamptz NOT NULL,
    released bool NOT NULL,
    step_down bool NOT NULL DEFAULT false,
    wanted text NOT NULL DEFAULT '',
    key_fingerprint text NOT NULL,
    version text NOT NULL,
    schema text NOT NULL,
    last_failover jsonb
  ) WITH (fillfactor = 20)`,
  `CREATE TABLE IF NOT EXISTS tassis_log (
    seq bigint PRIMARY KEY,
    epoch bigint NOT NULL,
    whole bool NOT NULL,
    what text NOT NULL,
    crc bigint NOT NULL,
    data bytea NOT NULL
  )`,
  // The data are compressed already.
  'ALTER TABLE tassis_log ALTER COLUMN data SET STORAGE EXTERNAL',
  `CREATE TABLE IF NOT EXISTS tassis_nodes (
    name text PRIMARY KEY,
    directory uuid NOT NULL,
    role text NOT NULL,
    state text NOT NULL,
    version text NOT NULL,
    hostname text NOT NULL,
    outbound_ips text[] NOT NULL,
    applied bigint NOT NULL,
    lag_ms bigint NOT NULL,
    seen_at timestamptz NOT NULL
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE IF NOT EXISTS tassis_snapshots (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    epoch bigint NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint,
    begun_at timestamptz NOT NULL
  )`,
  `CREATE TABLE IF NOT EXISTS tassis_snapshot_parts (
    snapshot bigint NOT NULL REFERENCES tassis_snapshots (id) ON DELETE CASCADE,
    part bigint NOT NULL,
    path text NOT NULL,
    crc bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (snapshot, part)
  )`,
  'ALTER TABLE tassis_snapshot_parts ALTER COLUMN data SET STORAGE EXTERNAL',
]
