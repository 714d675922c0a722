/**
 * @module Worker that sends the heartbeats of a leader while its service starts: a migration of a large database keeps
 * the main thread busy for minutes, and another node must not take over meanwhile.
 */
import { ReplicationLog } from '#platform/replication/log.ts'
import { Postgres } from '#platform/replication/postgres.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'

declare const self: Worker

export interface Heartbeat {
  readonly url: string
  readonly epoch: number
}

const INTERVAL_MS = seconds(1)

self.onmessage = async ({ data: { url, epoch } }: MessageEvent<Heartbeat>) => {
  const log = new ReplicationLog(new Postgres(url))
  for (;;) {
    // Whether this node still leads finds out who appends.
    await log.confirm(epoch).catch(() => undefined)
    await systemClock.sleep(INTERVAL_MS)
  }
}
