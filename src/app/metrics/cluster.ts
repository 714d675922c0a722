/** @module Metrics of a cluster: of the leader beside all others, of a standby alone. Without a cluster there are none. */
import { type ClusterStatus, NODE_STATES } from '#platform/replication/cluster-status.ts'
import { seconds } from '#platform/units.ts'
import type { Reader, Readings } from './table.ts'

export const readCluster: Reader =
  ({ opened: { app } }) =>
  () =>
    app.cluster ? readClusterMetrics(app.config.node, app.cluster.status()) : {}

/** @param node the name of this one. @param status undefined while PostgreSQL is not reached: nobody can lead then */
export function readClusterMetrics(node: string, status: ClusterStatus | undefined): Readings {
  if (!status) return { tassis_cluster_leader: 0 }
  const { nodes, last_failover: failover } = status
  return {
    tassis_cluster_leader: status.leader === node ? 1 : 0,
    tassis_cluster_epoch: status.epoch,
    tassis_cluster_sequence: status.seq,
    tassis_cluster_heartbeat_age_seconds: status.heartbeat_age_ms / seconds(1),
    tassis_cluster_nodes: NODE_STATES.map((state) => [{ state }, nodes.filter((each) => each.state === state).length]),
    tassis_cluster_lag_seconds: nodes
      .filter(({ role }) => role === 'standby')
      .map(({ name, lag_ms: ms }) => [{ node: name }, ms / seconds(1)]),
    tassis_cluster_log_rows: status.log.rows,
    tassis_cluster_log_bytes: status.log.bytes,
    tassis_cluster_postgres_keeps_commits: status.postgres.problem === null ? 1 : 0,
    ...(failover && {
      tassis_cluster_last_failover_timestamp_seconds: [
        [{ reason: failover.reason }, Date.parse(failover.at) / seconds(1)],
      ],
    }),
  }
}
