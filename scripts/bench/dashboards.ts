/**
 * @module Open dashboards: sending without and with them. Each reads the event stream and requests again what the
 * Overview shows, as often as the dashboard does; those beyond the limit of streams poll.
 */
import type { Benchmark } from '#bench/measure.ts'
import { runSending, SENDING_FIGURES } from '#bench/sending.ts'
import { MAX_STREAMS_PER_ACCOUNT } from '#features/webhooks/event-feed/stream.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'

/** With a stream, an Overview reads everything again at most this often. */
const LIVE_MS = 5000
const POLLING_MS = 15_000

/** @param count open dashboards of one account @param emails emails to deliver */
export const createDashboardsBenchmark = (count: number, emails: number): Benchmark => ({
  name: 'dashboards',
  description: `Sending without and with ${count} open dashboards, which load the service while it delivers.`,
  figures: SENDING_FIGURES,
  async prepare({ create, onCopy }) {
    const { dataDir, key } = await create('dashboards')
    const open = (port: number) => openDashboards(port, key, count)
    return [
      { title: 'none', run: () => onCopy(dataDir, (copy) => runSending(copy, key, emails)) },
      { title: `${count} dashboards`, run: () => onCopy(dataDir, (copy) => runSending(copy, key, emails, open)) },
    ]
  },
})

const toDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

/** What an Overview requests whose steps are done. */
function listPaths(now: number): string[] {
  const hours = `from=${toDay(now - days(2))}&to=${toDay(now)}&interval=hour`
  return [
    '/v1/account',
    '/v1/domains?per_page=100',
    '/v1/api-keys',
    '/v1/webhooks?per_page=100',
    '/v1/dead-letters?count=200',
    `/v1/analytics/timeseries?${hours}&metrics=sent,delivered,bounced,opens,clicks,complaints`,
  ]
}

/** Keeps the dashboards open until they are disposed of; this rejects if a request failed before. */
function openDashboards(port: number, key: string, count: number): AsyncDisposable {
  const closing = new AbortController()
  const { signal } = closing
  const read = async (path: string, accept: string): Promise<Response> => {
    const headers = { authorization: `Bearer ${key}`, accept }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers, signal })
    if (!response.ok) throw new Error(`${path} was answered with ${response.status}: ${await response.text()}`)
    return response
  }
  const stream = async (): Promise<void> => {
    const { body } = await read('/v1/events?after=latest', 'text/event-stream')
    for await (const _ of body ?? []);
  }
  const show = async (intervalMs: number, index: number): Promise<void> => {
    // Not all at the same moment.
    await systemClock.sleep((intervalMs * index) / count)
    while (!signal.aborted) {
      const paths = listPaths(systemClock.now())
      await Promise.all(paths.map(async (path) => (await read(path, 'application/json')).arrayBuffer()))
      await systemClock.sleep(intervalMs)
    }
  }
  const open = Array.from({ length: count }, (_, index) =>
    index < MAX_STREAMS_PER_ACCOUNT ? [stream(), show(LIVE_MS, index)] : [show(POLLING_MS, index)],
  )
  let failure: unknown
  for (const task of open.flat())
    task.catch((error: unknown) => {
      if (!signal.aborted) failure ??= error
    })
  return {
    async [Symbol.asyncDispose]() {
      closing.abort()
      if (failure !== undefined) throw failure
    },
  }
}
