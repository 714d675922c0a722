/**
 * @module Reads the state of a cluster from PostgreSQL, on any node, also while none leads; decides whether the leader
 * may step down. Never writes.
 */
import type { SQL } from 'bun'
import { isoTime } from '#platform/http/envelope.ts'
import type { ClusterNode, ClusterStatus } from '#platform/replication/cluster-status.ts'
import { seconds } from '#platform/units.ts'

/** A node that was not seen for this long counts as lost. */
const LOST_AFTER_MS = seconds(15)
/** How far behind a standby may be that the leader gives way to: clients wait for so long, too. */
const MAX_CLOSE_LAG_MS = seconds(5)

const msSince = (column: string): string =>
  `greatest(0, round(extract(epoch FROM clock_timestamp() - ${column}) * 1000))::bigint`
const iso = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** Positions have no gaps, so rows need no count. A node that died as the leader has left a row that says it leads. */
const READ = `
  WITH seen AS (SELECT *, ${msSince('seen_at')} AS ms_ago FROM tassis_nodes), node AS (
    SELECT seen.*, name = c.leader AS leads, ms_ago > ${LOST_AFTER_MS} OR (state = 'leading' AND name <> c.leader) AS lost
    FROM seen, tassis_cluster c
  )
  SELECT json_build_object(
    'cluster_id', c.id,
    'epoch', c.epoch,
    'seq', c.seq,
    'leader', CASE WHEN NOT c.released AND ${msSince('c.at')} <= ${LOST_AFTER_MS} THEN nullif(c.leader, '') END,
    'leader_since', ${iso('c.leader_since')},
    'heartbeat_age_ms', ${msSince('c.at')},
    'last_failover', c.last_failover,
    'log', json_build_object(
      'rows', coalesce(log.last_seq - log.first_seq + 1, 0),
      'bytes', pg_total_relation_size('tassis_log'),
      'first_seq', log.first_seq
    ),
    'nodes', (
      SELECT coalesce(json_agg(json_build_object(
        'name', name,
        'role', CASE WHEN leads THEN 'leader' ELSE 'standby' END,
        'state', CASE WHEN lost THEN 'lost' WHEN leads AND state = 'following' THEN 'leading' ELSE state END,
        'version', version,
        'hostname', hostname,
        'outbound_ips', outbound_ips,
        'applied', applied,
        'behind', greatest(0, c.seq - applied),
        'lag_ms', CASE WHEN lost THEN greatest(lag_ms, ms_ago) ELSE lag_ms END,
        'seen_at', ${iso('seen_at')},
        'seen_ms_ago', ms_ago
      ) ORDER BY NOT leads, name), '[]')
      FROM node
    )
  )::text AS status
  FROM tassis_cluster c, (SELECT min(seq) AS first_seq, max(seq) AS last_seq FROM tassis_log) log`

/** Reads all in two queries. Rejects with errors of PostgreSQL. */
export async function readClusterStatus(sql: SQL): Promise<ClusterStatus> {
  const [[row], postgres] = await Promise.all([sql.unsafe<{ status: string }[]>(READ), describePostgres(sql)])
  if (!row) throw new Error('the table tassis_cluster is empty')
  const status = JSON.parse(row.status) as Omit<ClusterStatus, 'postgres'>
  const { last_failover: last } = status
  return { ...status, last_failover: last && { ...last, at: isoTime(Date.parse(last.at)) }, postgres }
}

/** Replicas of all data: no logical ones, and no backups. Who may not see their state still sees that there are some. */
const DESCRIBE = `
  SELECT
    current_setting('server_version') AS version,
    current_setting('synchronous_commit') AS commit,
    current_setting('synchronous_standby_names') AS names,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    count(r.pid)::int AS replicas,
    count(r.pid) FILTER (WHERE r.sync_state IN ('sync', 'quorum'))::int AS synchronous,
    count(r.pid) FILTER (WHERE r.sync_state IS NULL)::int AS hidden
  FROM (SELECT) AS one
  LEFT JOIN (
    SELECT pid, sync_state FROM pg_stat_replication
    WHERE coalesce(state, '') <> 'backup'
      AND pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
  ) r ON true`

type PostgresRow = Readonly<
  Record<'version' | 'commit' | 'names' | 'fsync' | 'full_page_writes', string> &
    Record<'replicas' | 'synchronous' | 'hidden', number>
>

/** What PostgreSQL does to keep a commit, and how it can lose one. */
export async function describePostgres(sql: SQL): Promise<ClusterStatus['postgres']> {
  const [row] = await sql.unsafe<PostgresRow[]>(DESCRIBE)
  if (!row) throw new Error('PostgreSQL does not describe itself')
  return {
    version: row.version.split(' ', 1)[0] ?? '',
    synchronous_commit: row.commit,
    synchronous_standbys: row.hidden > 0 ? null : row.synchronous,
    problem: findPostgresProblem(row),
  }
}

function findPostgresProblem(row: PostgresRow): string | null {
  const { commit, names, fsync, full_page_writes, replicas, synchronous, hidden } = row
  if (fsync === 'off') return 'fsync is off: a power cut destroys the log. Set fsync = on.'
  if (full_page_writes === 'off')
    return 'full_page_writes is off: a power cut can damage the log. Set full_page_writes = on.'
  if (commit === 'off' || commit === 'local')
    return `synchronous_commit is ${commit}: ${commit === 'off' ? 'a crash of PostgreSQL' : 'its failover'} loses the last commits. Set synchronous_commit = on.`
  // With names set, each commit waits for a standby, whether or not this role may see it.
  if (names === '' && replicas > 0)
    return 'No standby of PostgreSQL is synchronous: its failover loses the last commits. Set synchronous_standby_names.'
  if (names !== '' && synchronous + hidden === 0)
    return 'The synchronous standby of PostgreSQL is away: every commit waits, and no mail is accepted. Start it, or set synchronous_standby_names to nothing meanwhile.'
  return null
}

/** Why the leader cannot give way to a node, or to any; undefined: it can. */
export function findStepDownObstacle({ leader, nodes }: ClusterStatus, to?: string) {
  if (leader === null)
    return { code: 'no_leader', message: 'No node leads now; a standby that has all of the log takes over by itself.' }
  if (to !== undefined && !nodes.some(({ name }) => name === to))
    return {
      code: 'node_unknown',
      message: `There is no node ${to} in the cluster; it has ${nodes.map(({ name }) => name).join(', ')}.`,
    }
  if (to === leader) return { code: 'already_leader', message: `${to} leads already.` }
  const asked = nodes.filter(({ name, role }) => (to === undefined ? role === 'standby' : name === to))
  if (asked.some(({ state, lag_ms }) => state === 'following' && lag_ms <= MAX_CLOSE_LAG_MS)) return undefined
  const found = asked.map((node) => `${node.name} ${describeNode(node)}`).join('; ')
  return {
    code: 'no_standby_follows',
    message: `${found === '' ? 'There is no standby' : `No standby follows closely: ${found}`}. Mail would stop for as long as it takes, so ${leader} leads on.`,
  }
}

function describeNode({ state, lag_ms, seen_ms_ago }: ClusterNode): string {
  if (state === 'lost') return `was last seen ${formatSeconds(seen_ms_ago)} ago`
  return state === 'copying' ? 'takes a snapshot' : `is ${formatSeconds(lag_ms)} behind`
}

const formatSeconds = (ms: number): string => `${Math.round(ms / seconds(1)).toLocaleString('en')} s`
