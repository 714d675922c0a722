/** @module What a node answers by HTTP while it does not lead: that it is alive, and who leads. */

import { AppError } from '#platform/errors.ts'
import type { ClusterStatus } from '#platform/replication/cluster-status.ts'
import type { Follower } from '#platform/replication/follower.ts'
import type { ClusterRow } from '#platform/replication/log.ts'
import type { Config } from '#platform/settings/config.ts'
import { formatReadings, readClusterMetrics } from '../metrics/table.ts'
import { respondNotReady, serveMeanwhile } from '../start-when-possible.ts'

const RETRY_AFTER_SECONDS = 5

export class StandbyServer {
  readonly #stops: readonly ((() => Promise<void>) | undefined)[]
  readonly #node: string
  #reason = 'it is starting'
  #status: ClusterStatus | undefined

  constructor({ httpAddr, metricsAddr, node }: Config) {
    this.#node = node
    this.#stops = [
      serveMeanwhile(httpAddr, (path) => this.#respond(path)),
      serveMeanwhile(metricsAddr, (path) =>
        path === '/metrics'
          ? new Response(formatReadings(readClusterMetrics(node, this.#status)), {
              headers: { 'content-type': 'text/plain; version=0.0.4' },
            })
          : new Response('Not found: the metrics are at /metrics.\n', { status: 404 }),
      ),
    ]
  }

  show(row: ClusterRow, follower: Follower | undefined): void {
    const leader = row.released || row.leader === '' ? 'no node leads' : `${row.leader} leads`
    this.#reason = follower ? leader : `${leader}, and this node does not have all data yet`
  }

  /** For the metrics. */
  showStatus(status: ClusterStatus): void {
    this.#status = status
  }

  showProblem(reason: string): void {
    this.#status = undefined
    // Strangers need not know more.
    this.#reason = `${reason}; its log says why`
  }

  async stop(): Promise<void> {
    await Promise.all(this.#stops.map((stop) => stop?.()))
  }

  #respond(path: string): Response {
    const code = path === '/readyz' ? 'not_ready' : 'not_leader'
    const error = new AppError(503, code, `The node ${this.#node} does not lead: ${this.#reason}.`, {
      details: [{ field: 'cluster', message: this.#reason }],
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
    return respondNotReady(path, error)
  }
}
