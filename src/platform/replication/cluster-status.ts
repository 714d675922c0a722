/** @module The state of a cluster as the log in PostgreSQL has it: what operators read, and what a node knows of others. */
import { type Static, Type } from '@sinclair/typebox'
import * as S from '../http/schemas.ts'

export const NODE_STATES = ['leading', 'following', 'copying', 'lost'] as const
const FAILOVER_REASONS = ['silence', 'stop', 'step_down'] as const

const ClusterNode = Type.Object({
  name: S.Text('Name of the node (TASSIS_NODE).'),
  role: S.StringEnum(['leader', 'standby'], { description: 'Its role when it was last seen.' }),
  state: S.StringEnum(NODE_STATES, {
    description:
      '`following`: applies the log; `copying`: takes a snapshot first; `lost`: was not seen for 15 seconds, or stopped.',
  }),
  version: S.Text('Version of its program.'),
  hostname: S.Text('Its name in SMTP and DNS.'),
  outbound_ips: Type.Array(Type.String(), { description: 'Addresses from which it sends when it leads.' }),
  applied: S.Count('Position in the log up to which it has everything.'),
  behind: S.Count('Rows of the log that it has not applied.'),
  lag_ms: S.Count('How old the oldest of these rows is, in milliseconds; of a lost node at least its silence.'),
  seen_at: S.Timestamp({ description: 'When it was last seen.' }),
  seen_ms_ago: S.Count('How long ago that was, in milliseconds.'),
})
export type ClusterNode = Static<typeof ClusterNode>

/** What `GET /v1/operator/cluster` and `tassis cluster --json` say. */
export const ClusterStatus = Type.Object({
  cluster_id: S.Text('Identifies the cluster; the data directory of each node has it, too.'),
  epoch: S.Count('Rises with each change of the leader.'),
  seq: S.Count('Position of the newest row of the log.'),
  leader: S.TextOrNull('The node that leads; null: none does now.'),
  leader_since: S.TimeOrNull('Since when it leads.'),
  heartbeat_age_ms: S.Count('How long ago the leader was last heard of, in milliseconds.'),
  last_failover: S.NullablePart('The last change of the leader; null: there was none.', {
    at: S.Timestamp({ description: 'When the new leader took over.' }),
    from: S.Text('The node that led before.'),
    to: S.Text('The node that took over.'),
    reason: S.StringEnum(FAILOVER_REASONS, {
      description: '`silence`: the leader was not heard of; `stop`: it was stopped; `step_down`: an operator asked.',
    }),
  }),
  log: S.Part('The log in PostgreSQL. Rows that every standby and the newest snapshot have are removed.', {
    rows: S.Count('Number of rows.'),
    bytes: S.Bytes('Size on the disk of PostgreSQL'),
    first_seq: S.CountOrNull('Position of the oldest row; null: there is none.'),
  }),
  postgres: S.Part('What PostgreSQL does to keep a commit.', {
    version: S.Text('Its version.'),
    synchronous_commit: S.Text('Its setting of this name, for the role of the cluster.'),
    synchronous_standbys: S.CountOrNull(
      'Number of its connected standbys that have each commit before it counts; null: the role may not see it.',
    ),
    problem: S.TextOrNull('How PostgreSQL can lose a commit; null: it does not.'),
  }),
  nodes: Type.Array(ClusterNode, { description: 'All nodes, the leader first.' }),
})
export type ClusterStatus = Static<typeof ClusterStatus>
