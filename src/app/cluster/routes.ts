/** @module /v1/operator/cluster: the nodes of the service and their log; has the leader give way to a standby. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App, ClusterView } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { audit, showView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { AppError, conflict } from '#platform/errors.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, Filter, Nullable, StrictObject, Text, TextOrNull } from '#platform/http/schemas.ts'
import { ClusterStatus } from '#platform/replication/cluster-status.ts'
import { findStepDownObstacle } from './status.ts'

export const clusterRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/cluster' })
    .use(authenticated)
    .get(
      '/',
      showView(app, 'cluster', () => (app.cluster ? readStatus(app.cluster) : null)),
      {
        response: DataBody(Nullable(ClusterStatus)),
        detail: operatorRoute(
          'Get the state of the cluster',
          'Its nodes, its log and its last failover, at most a few seconds old. Null: the service runs alone.',
        ),
      },
    )
    .post(
      '/step-down',
      async ({ actor, body: { to } }) => {
        const { cluster } = app
        if (!cluster)
          throw conflict(
            'no_cluster',
            'This service runs alone, so no other could take over; docs/scaling.md says how to add a standby.',
          )
        const status = readStatus(cluster)
        const obstacle = findStepDownObstacle(status, to)
        if (obstacle) throw new AppError(obstacle.code === 'node_unknown' ? 404 : 409, obstacle.code, obstacle.message)
        const from = status.leader ?? ''
        await app.commit.writeFromReserve((tx) =>
          audit(app, tx, toServiceActor(actor), { action: 'cluster.stepped_down', metadata: { from, to: to ?? null } }),
        )
        await cluster.stepDown(to)
        return dataBody({ from, to: to ?? null })
      },
      {
        body: StrictObject({ to: Filter('The node that shall lead; default: the standby that follows closest.') }),
        response: DataBody(
          Type.Object({
            from: Text('The node that gives way.'),
            to: TextOrNull('The node that takes over; null: the standby that follows closest.'),
          }),
        ),
        detail: operatorRoute(
          'Have another node lead',
          'The leader stops cleanly, a standby takes over, and the former leader follows it. Until then, mostly for less than two seconds, requests get 503; nothing is lost.',
          {
            404: ['node_unknown', 'The cluster has no node of this name.'],
            409: [
              'no_standby_follows',
              'No standby, or not this one, follows closely; also `no_cluster`, `no_leader`, `already_leader`.',
            ],
          },
        ),
      },
    )

function readStatus(cluster: ClusterView): ClusterStatus {
  const status = cluster.status()
  if (status) return status
  throw new AppError(
    503,
    'cluster_unknown',
    'PostgreSQL has not answered for some seconds, so the state of the cluster is not known; all goes on by itself when it does.',
    { retryAfterSeconds: 5 },
  )
}
