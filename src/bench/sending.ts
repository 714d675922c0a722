/** @module Sending: acceptance over HTTP with delivery held, then acceptance with delivery. */
import type { Command } from 'commander'
import { systemClock } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { type LoadResult, openHttp, runLoad } from './load.ts'
import { createRequestBuilder, HTML_BYTES, type RequestOptions, TEXT_BYTES } from './mails.ts'
import {
  type Benchmark,
  type Figure,
  type Fill,
  latencyFigures,
  parsePositive,
  type Values,
  withMeasuring,
} from './measure.ts'
import { observe, readUsage, startService } from './processes.ts'
import { startReceiver } from './receiver.ts'

export const CONNECTIONS = 20
/** Emails accepted while delivery is held, for each that is delivered: this is faster. */
const HELD_PER_EMAIL = 5

/** Figures of `toValues`. */
export const loadFigures = (name: string, title: string): Figure[] => [
  [`${name}_per_second`, title, 0],
  ...latencyFigures(name, ''),
]

export const toValues = (name: string, { accepted, seconds, p50Ms, p99Ms }: LoadResult): Values => ({
  [`${name}_per_second`]: accepted / seconds,
  [`${name}_p50_ms`]: p50Ms,
  [`${name}_p99_ms`]: p99Ms,
})

export const SENDING_FIGURES: readonly Figure[] = [
  ...loadFigures('held', 'accepted/s, delivery held'),
  ['held_cpu_ms', '  CPU ms per email', 3],
  ...loadFigures('busy', 'accepted/s, while delivering'),
  ['delivered_per_second', 'delivered/s, end to end', 0],
  ['delivered_cpu_ms', '  CPU ms per email, accepted and delivered', 3],
  ['peak_rss_mib', 'peak RSS MiB', 0],
]

/** Data directories to send with, by what fills them. */
type Columns = readonly { readonly title: string; readonly fill?: Fill }[]

/** @param emails emails to deliver */
export const createSendingBenchmark = (emails: number, columns: Columns = [{ title: 'runs' }]): Benchmark => ({
  name: 'sending',
  description:
    `${CONNECTIONS} connections; each email ${TEXT_BYTES} bytes of text and ${HTML_BYTES} of HTML, no two alike; durable before the\n` +
    'response (fdatasync); signed with RSA-2048; generator and receiver are one process on this machine.',
  figures: SENDING_FIGURES,
  async prepare({ create, onCopy }) {
    const prepared = []
    for (const { title, fill } of columns) {
      const { dataDir, key } = await create(title.replaceAll(' ', '-'), fill)
      prepared.push({ title, run: () => onCopy(dataDir, (copy) => runSending(copy, key, emails)) })
    }
    return prepared
  },
})

/**
 * Measures one run. CPU time is that of the service only: user and system, all threads.
 * @param openBeside opens what loads the service while it delivers
 * @param settings of the service besides
 */
export async function runSending(
  dataDir: string,
  key: string,
  emails: number,
  openBeside?: (port: number) => AsyncDisposable,
  settings: Readonly<Record<string, string>> = {},
): Promise<Values> {
  await using receiver = await startReceiver()
  await using service = await startService(dataDir, {
    TASSIS_DNS_SERVERS: `127.0.0.1:${receiver.dnsPort}`,
    TASSIS_SMTP_PORT: String(receiver.smtpPort),
    ...settings,
  })
  const { pid, port } = service
  const sendAt = new Date(systemClock.now() + days(1)).toISOString()
  const post = createPoster(port, key)

  await post(emails, { sendAt })
  const held = await observe(pid, () => post(HELD_PER_EMAIL * emails, { sendAt }))
  await using _ = openBeside?.(port)
  const warmUp = Math.ceil(emails / 10)
  await post(warmUp)
  await receiver.waitFor(warmUp)
  const delivered = await observe(pid, async () => {
    const result = await post(emails)
    await receiver.waitFor(emails)
    return result
  })
  return {
    ...toValues('held', held.value),
    held_cpu_ms: held.cpuMs / (HELD_PER_EMAIL * emails),
    ...toValues('busy', delivered.value),
    delivered_per_second: emails / delivered.seconds,
    delivered_cpu_ms: delivered.cpuMs / emails,
    peak_rss_mib: readUsage(pid).peakRssMiB,
  }
}

/** Returns a function that posts so many more emails to the API, no two alike. */
export function createPoster(
  port: number,
  key: string,
): (count: number, options?: RequestOptions) => Promise<LoadResult> {
  const target = { open: openHttp(port), connections: CONNECTIONS, expected: 'HTTP/1.1 202' }
  let from = 0
  return (count, options) => {
    const build = createRequestBuilder(key, options)
    const first = from
    from += count
    return runLoad(
      target,
      Array(count)
        .keys()
        .map((index) => [build(first + index)]),
    )
  }
}

/** `tassis bench`. */
export function addBenchCommand(program: Command): void {
  const command = program
    .command('bench')
    .description('benchmark this machine with temporary data: emails accepted and delivered per second')
    .option(
      '--emails <n>',
      'emails to deliver; five times as many are accepted while delivery is held',
      parsePositive,
      2000,
    )
    .addHelpText('after', '\nFor a quick run: tassis bench --emails 500 --runs 1')
  withMeasuring<{ emails: number }>(command, ({ emails }) => [createSendingBenchmark(emails)])
}
