/**
 * @module The soak test: a real service under a steady load for as long as asked. Prints memory, descriptors and disk
 * with their slopes, so that a leak shows long before it matters. See `scripts/soak --help`.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startReceiver } from '#features/sending/simulator/receiver.ts'
import { systemClock } from '#platform/clock.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { RECEIVER_DOMAIN } from './load.ts'
import { createFolder, endRun, KilledService } from './run.ts'
import { prepareDataDirectory, SENDER_DOMAIN } from './service.ts'

const HELP = `scripts/soak [--minutes N] [--load PERCENT] [--rate N] [--keep]

Measures for 15 seconds how many emails a second this machine accepts and delivers, then sends 30 % of it for N minutes
(10), and prints memory, descriptors and disk with their slopes by the hour, without the first fifth of the time. Fails
when the resident memory was ever above 400 MiB.
  --load   percent of what the machine can do (30)
  --rate   emails a second, instead of measuring`

const MEASURE_MS = 15_000
const SAMPLE_MS = 5000
/** What the service may use of memory at most. */
const MAX_RSS_BYTES = 400 * 2 ** 20
const SENDERS = 32
const TICK_MS = 50
/** More requests in progress would only queue. */
const MAX_IN_PROGRESS = 256

interface Sample {
  readonly atMs: number
  readonly rssBytes: number
  readonly descriptors: number
  readonly diskBytes: number
  readonly delivered: number
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    load: { type: 'string', default: '30' },
    rate: { type: 'string' },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const lengthMs = Number(values.minutes) * 60_000
const load = Number(values.load) / 100
const hasValidRate = values.rate === undefined || Number(values.rate) > 0
if (values.help || !(lengthMs >= 60_000) || !(load > 0 && load <= 1) || !hasValidRate) {
  console.log(HELP)
  process.exit(values.help ? 0 : 2)
}

const folder = createFolder()
let delivered = 0
const receiver = await startReceiver({
  clock: systemClock,
  hostname: 'mx1.test',
  react: () => undefined,
  onMessage: () => {
    delivered++
  },
})
const dns = await startDnsServer({
  [RECEIVER_DOMAIN]: { MX: [{ preference: 10, exchange: 'mx1.test' }] },
  'mx1.test': { A: ['127.0.0.1'] },
})
const service = await KilledService.make(folder, 'serve', {
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_SMTP_PORT: String(receiver.port),
})
const key = await prepareDataDirectory(service.settings)
const { pid } = await service.start()
let sent = 0
let refused = 0

async function send(): Promise<void> {
  const number = ++sent
  const response = await fetch(`${service.url}/v1/emails`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      from: `Soak <test@${SENDER_DOMAIN}>`,
      to: `r${number}@${RECEIVER_DOMAIN}`,
      subject: `Test ${number}`,
      text_body: 'A line of the message.\r\n'.repeat(200),
    }),
  })
  await response.arrayBuffer()
  if (response.status !== 202) refused++
}

/** Sends as fast as the service answers; returns the emails a second that were also delivered. */
async function measure(): Promise<number> {
  const startedAt = performance.now()
  const until = startedAt + MEASURE_MS
  const before = delivered
  const sender = async () => {
    while (performance.now() < until) await send()
  }
  await Promise.all(Array.from({ length: SENDERS }, sender))
  while (delivered < sent) await Bun.sleep(TICK_MS)
  return ((delivered - before) * 1000) / (performance.now() - startedAt)
}

function takeSample(startedAt: number): Sample {
  const rss = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
  const data = service.file('')
  const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return {
    atMs: performance.now() - startedAt,
    rssBytes: Number(rss) * 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    diskBytes: files.reduce((sum, { parentPath, name }) => sum + sizeOf(join(parentPath, name)), 0),
    delivered,
  }
}

/** A file may be deleted meanwhile. */
const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

/** The slope of a value by the hour, by least squares. */
function slopePerHour(samples: readonly Sample[], read: (sample: Sample) => number): number {
  const mean = (numbers: readonly number[]) => numbers.reduce((sum, n) => sum + n, 0) / numbers.length
  const meanAt = mean(samples.map(({ atMs }) => atMs))
  const meanValue = mean(samples.map(read))
  const covariance = samples.reduce((sum, s) => sum + (s.atMs - meanAt) * (read(s) - meanValue), 0)
  const variance = samples.reduce((sum, s) => sum + (s.atMs - meanAt) ** 2, 0)
  return (covariance / variance) * 3_600_000
}

async function soak(perSecond: number): Promise<Sample[]> {
  const samples: Sample[] = []
  const startedAt = performance.now()
  const first = sent
  const inProgress = new Set<Promise<void>>()
  let nextSampleMs = 0
  for (let atMs = 0; atMs < lengthMs; atMs = performance.now() - startedAt) {
    while (sent - first < (atMs * perSecond) / 1000 && inProgress.size < MAX_IN_PROGRESS) {
      const sending: Promise<void> = send()
        .catch(() => void refused++)
        .finally(() => inProgress.delete(sending))
      inProgress.add(sending)
    }
    if (atMs >= nextSampleMs) {
      samples.push(takeSample(startedAt))
      nextSampleMs += SAMPLE_MS
      const last = samples.at(-1)
      if (last && samples.length % 12 === 1)
        console.log(
          `${(atMs / 60_000).toFixed(1)} min: ${delivered} delivered, RSS ${toMiB(last.rssBytes)} MiB, ${last.descriptors} descriptors, disk ${toMiB(last.diskBytes)} MiB`,
        )
    }
    await Bun.sleep(TICK_MS)
  }
  await Promise.all(inProgress)
  return samples
}

const toMiB = (bytes: number): string => (bytes / 2 ** 20).toFixed(1)

const violations: string[] = []
try {
  const fastest = values.rate === undefined ? await measure() : undefined
  const perSecond = fastest === undefined ? Number(values.rate) : fastest * load
  console.log(`${perSecond.toFixed(0)} emails a second${fastest ? `, ${values.load} % of ${fastest.toFixed(0)}` : ''}`)
  const samples = await soak(perSecond)
  const steady = samples.slice(Math.floor(samples.length / 5))
  const span = (steady.at(-1)?.delivered ?? 0) - (steady[0]?.delivered ?? 0)
  const growth = (steady.at(-1)?.diskBytes ?? 0) - (steady[0]?.diskBytes ?? 0)
  console.log(
    `slopes by the hour: RSS ${toMiB(slopePerHour(steady, (s) => s.rssBytes))} MiB, descriptors ${slopePerHour(steady, (s) => s.descriptors).toFixed(1)}, ` +
      `disk ${toMiB(slopePerHour(steady, (s) => s.diskBytes))} MiB (${(growth / span / 1024).toFixed(2)} KiB an email)`,
  )
  const peak = Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) * 1024
  console.log(`highest RSS: ${toMiB(peak)} MiB`)
  if (!(peak <= MAX_RSS_BYTES)) violations.push(`the resident memory reached ${toMiB(peak)} MiB`)
  for (let waited = 0; delivered < sent - refused && waited < 60_000; waited += TICK_MS) await Bun.sleep(TICK_MS)
  console.log(`${sent} sent, ${refused} refused, ${delivered} delivered`)
  if (delivered !== sent - refused) violations.push('not every accepted email was delivered once')
  violations.push(...(await service.stop()))
} catch (error) {
  violations.push(String(error))
} finally {
  await service.running?.kill()
}
for (const violation of violations) console.log(`VIOLATION ${violation}`)
await receiver.close()
await dns.close()
endRun(violations, folder, values.keep)
