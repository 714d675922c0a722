/** @module The latency of GET /healthz, polled beside other work. */
import { CommandError } from '#app/cli/options.ts'
import { computePercentiles } from '#bench/load.ts'
import type { Figure, Values } from '#bench/measure.ts'
import { systemClock } from '#platform/time/clock.ts'

const POLL_INTERVAL_MS = 10

export const HEALTH_FIGURES: readonly Figure[] = [
  ['health_p99_ms', 'GET /healthz during this, p99 ms', 1],
  ['health_worst_ms', '  slowest ms', 0],
]

/** Polls until stopped; `stop` returns the values of HEALTH_FIGURES. */
export function pollHealth(port: number): { stop(): Promise<Values> } {
  const waitedMs: number[] = []
  let hasStopped = false
  const polling = (async () => {
    while (!hasStopped) {
      const askedMs = systemClock.monotonicMs()
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`)
      await answer.arrayBuffer()
      if (!answer.ok) throw new CommandError('The service was not healthy during the benchmark.')
      waitedMs.push(systemClock.monotonicMs() - askedMs)
      await systemClock.sleep(POLL_INTERVAL_MS)
    }
  })()
  return {
    async stop() {
      hasStopped = true
      await polling
      return { health_p99_ms: computePercentiles(waitedMs).p99Ms, health_worst_ms: Math.max(...waitedMs) }
    },
  }
}
