/** @module A cluster in PostgreSQL as its nodes write it, without nodes. */
import { afterAll, beforeAll } from 'bun:test'
import { SQL } from 'bun'
import type { ClusterNode, ClusterStatus } from '#platform/replication/cluster-status.ts'
import { TABLES } from '#platform/replication/tables.ts'
import { type Postgres, startPostgres } from '#test/support/postgres.ts'

export interface NodeRow {
  readonly name: string
  readonly role?: 'leader' | 'standby'
  readonly state?: string
  readonly version?: string
  readonly applied?: number
  readonly lagMs?: number
  /** Default: a time ahead, so that the node is not lost however slow the test is. */
  readonly seenSecondsAgo?: number
}

/** Replaces what is there: the head at 90, led by `a`, and a log from 41 on. */
export async function writeCluster(sql: SQL, nodes: readonly NodeRow[]): Promise<void> {
  for (const statement of TABLES) await sql.unsafe(statement)
  await sql`TRUNCATE tassis_cluster, tassis_log, tassis_nodes`
  await sql`INSERT INTO tassis_cluster
    (id, format, epoch, seq, leader, leader_since, at, released, key_fingerprint, version, schema)
    VALUES ('00000000-0000-4000-8000-000000000001', 1, 7, 90, 'a', '2026-11-29 18:00:00.5Z', now() + interval '1 h', false, 'ab', '1.0.0', '')`
  await sql`INSERT INTO tassis_log SELECT seq, 7, true, 'tassis', 0, '\\x00' FROM generate_series(41, 90) AS seq`
  for (const {
    name,
    role = 'standby',
    state = 'following',
    version = '1.0.0',
    applied = 90,
    lagMs = 0,
    seenSecondsAgo = -3600,
  } of nodes)
    await sql`INSERT INTO tassis_nodes VALUES (${name}, gen_random_uuid(), ${role}, ${state}, ${version}, ${`${name}.example`},
      '{192.0.2.1}', ${applied}, ${lagMs}, clock_timestamp() - ${`${seenSecondsAgo} s`}::interval)`
}

/** A PostgreSQL of tests does not sync to its disk. */
const KEEPS_COMMITS = { fsync: 'on', full_page_writes: 'on' }

export const LEADER: NodeRow = { name: 'a', role: 'leader', state: 'leading' }

export const createNode = (name: string, part: Partial<ClusterNode> = {}): ClusterNode => ({
  name,
  role: 'standby',
  state: 'following',
  version: '1.0.0',
  hostname: `${name}.example`,
  outbound_ips: [],
  applied: 90,
  behind: 0,
  lag_ms: 0,
  seen_at: '2026-11-29T18:00:00.500Z',
  seen_ms_ago: 400,
  ...part,
})
/** Led by `a`. */
export const createStatus = (...standbys: readonly ClusterNode[]): ClusterStatus => ({
  cluster_id: '00000000-0000-4000-8000-000000000001',
  epoch: 7,
  seq: 90,
  leader: 'a',
  leader_since: '2026-11-29T18:00:00.500Z',
  heartbeat_age_ms: 400,
  last_failover: null,
  log: { rows: 50, bytes: 1000, first_seq: 41 },
  postgres: { version: '15.14', synchronous_commit: 'on', synchronous_standbys: 1, problem: null },
  nodes: [createNode('a', { role: 'leader', state: 'leading' }), ...standbys],
})

/** A PostgreSQL with one connection to it, for the tests of the enclosing block. */
export function usePostgres(): { readonly postgres: Postgres; readonly sql: SQL } {
  const used = {} as { postgres: Postgres; sql: SQL }
  beforeAll(async () => {
    used.postgres = await startPostgres({ settings: KEEPS_COMMITS })
    used.sql = new SQL(used.postgres.url, { max: 1 })
  })
  afterAll(async () => {
    await used.sql?.close()
    await used.postgres?.[Symbol.asyncDispose]()
  })
  return used
}
