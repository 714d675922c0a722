/**
 * @module Open dashboards as load, in their own process: each reads the event stream and requests again what the
 * Overview shows, as often as the dashboard does; those beyond the limit of streams poll.
 */
import { MAX_STREAMS_PER_ACCOUNT } from '#features/webhooks/event-feed/stream.ts'
import type { Clock } from '#platform/clock.ts'
import { days } from '#platform/units.ts'

export interface DashboardsJob {
  readonly port: number
  readonly key: string
  /** Number of open dashboards of one account. */
  readonly count: number
}

/** With a stream, an Overview reads everything again at most this often. */
const LIVE_MS = 5000
const POLLING_MS = 15_000

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

/** Keeps the dashboards open until the process ends. Rejects when a request fails. */
export async function keepDashboardsOpen({ port, key, count }: DashboardsJob, clock: Clock): Promise<never> {
  const read = async (path: string, accept: string): Promise<Response> => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { authorization: `Bearer ${key}`, accept },
    })
    if (!response.ok) throw new Error(`${path} was answered with ${response.status}: ${await response.text()}`)
    return response
  }
  const stream = async (): Promise<void> => {
    const { body } = await read('/v1/events?after=latest', 'text/event-stream')
    for await (const _ of body ?? []);
  }
  const show = async (index: number): Promise<void> => {
    const isLive = index < MAX_STREAMS_PER_ACCOUNT
    const intervalMs = isLive ? LIVE_MS : POLLING_MS
    if (isLive) void stream()
    // Not all at the same moment.
    await clock.sleep((intervalMs * index) / count)
    for (;;) {
      await Promise.all(
        listPaths(clock.now()).map(async (path) => (await read(path, 'application/json')).arrayBuffer()),
      )
      await clock.sleep(intervalMs)
    }
  }
  await Promise.all(Array.from({ length: count }, (_, index) => show(index)))
  throw new Error('the dashboards were closed')
}
